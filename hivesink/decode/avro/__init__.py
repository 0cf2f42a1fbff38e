"""The decoder of Avro: all records of a schema at once, each with the proof of its end."""
