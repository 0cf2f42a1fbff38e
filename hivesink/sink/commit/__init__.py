"""The driver: an epoch is written, decided, carried out and, after a failure, recovered."""
