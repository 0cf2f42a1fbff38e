"""The decoder of Protobuf: all records at once, and as google's parser writes them again where they are unusual."""
