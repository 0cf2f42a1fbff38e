"""File formats of finished parts."""
