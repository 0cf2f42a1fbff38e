"""Writes New York's flights, one JSON object per line, to demo.flights, with a partition for each day of departure.

    hivesink ddl apply ddl/flights.sql
    FOLDER=events hivesink run jobs/flights.py

Environment variables: FOLDER (where the files arrive), or KAFKA_SERVERS and KAFKA_TOPIC; CHECKPOINT; TRIGGER
("5 seconds", or "availableNow" to commit what has arrived and end).
"""

from __future__ import annotations

from os import environ

from hivesink import HiveSink, session, sources

FOLDER = environ.get("FOLDER", "events")
SERVERS = environ.get("KAFKA_SERVERS")
TOPIC = environ.get("KAFKA_TOPIC", "flights")
CHECKPOINT = environ.get("CHECKPOINT", "checkpoints/flights")
TRIGGER = environ.get("TRIGGER", "5 seconds")


def main() -> None:
    """Stream the flights until stopped, or with availableNow until all are written."""
    spark = session("flights", kafka=SERVERS is not None)
    events = sources.kafka(spark, SERVERS, TOPIC) if SERVERS else sources.lines(spark, FOLDER)
    sink = HiveSink.for_table(spark, "demo.flights", writer="flights")
    trigger = {"availableNow": True} if TRIGGER == "availableNow" else {"processingTime": TRIGGER}
    query = sink.start(events, checkpoint=CHECKPOINT, trigger=trigger)
    query.awaitTermination()


if __name__ == "__main__":
    main()
