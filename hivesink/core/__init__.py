"""All that needs no I/O: tables, names, states, epochs, manifests and the decisions about them."""
