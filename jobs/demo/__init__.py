"""The demonstration that `make demo` runs: real flights through the sink, and what Hive then answers."""
