"""Hive DDL: text to `TableSpec` and back, what a live table lacks of it, and the way there."""
