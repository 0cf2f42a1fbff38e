"""The version of hivesink, which the driver and its tasks must share."""

VERSION = "0.1.0"
