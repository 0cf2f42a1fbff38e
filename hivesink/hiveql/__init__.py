"""Hive DDL: text to `TableSpec` and back, and bringing live tables to what it says."""
