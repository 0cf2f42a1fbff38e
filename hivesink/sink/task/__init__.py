"""One task: rows go to buckets, buckets to part files. No Spark in here."""
