"""Java for Spark and the servers: finding it, fetching pinned jars, and settings files on the class path."""
