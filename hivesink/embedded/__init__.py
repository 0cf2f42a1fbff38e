"""Real JVM servers as child processes on the loopback: the embedded default, the demo and the tests."""
