"""Real JVM servers as child processes on the loopback, for use without a site."""
