"""Spark's SQL in DuckDB's, where both are sure to give the same answer."""
