"""Java for Spark and the servers: finding one, fetching pinned jars, and a Spark session."""
