"""Spark's side: the sink as `foreachBatch` calls it, its query, sources, sessions, and the package on executors."""
