"""A first look at a source: a sample of its records, what they become in a table, and a table that fits them."""
