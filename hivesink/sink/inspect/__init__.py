"""The state of a table and its logs: `status`, `verify`, `clean`, `reset`, and whether a writer may begin."""
