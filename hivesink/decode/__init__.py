"""Record bytes to Arrow by the table's schema: a record fits exactly, or it is a bad record with a reason."""
