"""Java for Spark and the servers: finding one, fetching pinned jars, and settings files on the class path."""
