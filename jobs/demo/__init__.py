"""The demonstration that `make demo` runs: real flights through the sink, and queries through Hive."""
