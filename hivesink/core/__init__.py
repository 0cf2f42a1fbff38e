"""What holds without any I/O: tables, names, states, epochs, manifests and the decisions about them."""
