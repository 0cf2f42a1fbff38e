"""Settings: the table's options and their types, the site's Hadoop and Hive configuration, and the local cache."""
