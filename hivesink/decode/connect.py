"""Logical types that Kafka Connect's and Debezium's schemas name: what their values mean, in JSON and in Avro.

https://debezium.io/documentation/reference/stable/connectors/mysql.html has them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from zoneinfo import ZoneInfo

from hivesink.core.time_format import EpochUnit
from hivesink.decode.values import InvalidValue, TimeRules

CONNECT, DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium."
UNITS = {
    f"{DEBEZIUM}time.Date": EpochUnit.DAYS,
    f"{CONNECT}Date": EpochUnit.DAYS,
    f"{DEBEZIUM}time.Timestamp": EpochUnit.MILLIS,
    f"{CONNECT}Timestamp": EpochUnit.MILLIS,
    f"{DEBEZIUM}time.MicroTimestamp": EpochUnit.MICROS,
    f"{DEBEZIUM}time.NanoTimestamp": EpochUnit.NANOS,
}
"""What the numbers of these types count: wall clocks without a zone, as if in UTC."""
ZONED, VARIABLE = f"{DEBEZIUM}time.ZonedTimestamp", f"{DEBEZIUM}data.VariableScaleDecimal"


def counting(times: TimeRules, unit: EpochUnit) -> TimeRules:
    """`times` for numbers of which a schema says what they count."""
    return replace(times, format=unit, zone=ZoneInfo("UTC"), is_sure=True)


def number_of_octets(octets: bytes, scale: int) -> str:
    """The text of a number from its unscaled value, the highest byte first. Raises InvalidValue."""
    if not octets:
        raise InvalidValue(reason="not a number: no bytes")
    with suppress(ValueError):
        return f"{int.from_bytes(octets, 'big', signed=True)}e{-scale}"
    # More than Python writes.
    raise InvalidValue(reason="too many digits")
