"""The decoder of Protobuf: google's own parser reads each record, and its values become columns."""
