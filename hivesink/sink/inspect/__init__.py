"""What stands in a table and its logs: `status`, `verify`, `clean`, `reset`, and whether a writer may begin."""
