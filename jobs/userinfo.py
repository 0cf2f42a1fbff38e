"""Writes a Kafka topic of {"userId": 1, "userName": "a"} to demo.userinfo, with a partition for each hour.

    hivesink ddl apply ddl/userinfo.sql
    KAFKA_SERVERS=broker:9092 hivesink run jobs/userinfo.py

Environment variables: KAFKA_SERVERS, KAFKA_TOPIC, CHECKPOINT, and TRIGGER ("5 seconds", or "availableNow" to
commit what has arrived and end).
"""

from __future__ import annotations

from os import environ

from hivesink import HiveSink, session, sources

SERVERS = environ.get("KAFKA_SERVERS", "127.0.0.1:9092")
TOPIC = environ.get("KAFKA_TOPIC", "userinfo")
CHECKPOINT = environ.get("CHECKPOINT", "checkpoints/userinfo")
TRIGGER = environ.get("TRIGGER", "5 seconds")


def main() -> None:
    """Stream the users until stopped, or with availableNow until all are written."""
    spark = session("userinfo", kafka=True)
    events = sources.kafka(spark, SERVERS, TOPIC)
    sink = HiveSink.for_table(spark, "demo.userinfo", writer="userinfo")
    trigger = {"availableNow": True} if TRIGGER == "availableNow" else {"processingTime": TRIGGER}
    query = sink.start(events, checkpoint=CHECKPOINT, trigger=trigger)
    query.awaitTermination()


if __name__ == "__main__":
    main()
