"""The driver writes, decides and finishes epochs, and recovers them after a failure."""
