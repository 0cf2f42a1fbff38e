"""Metastores: over Thrift in bulk, through HiveServer2, and in memory for tests."""
