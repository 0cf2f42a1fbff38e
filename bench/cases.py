"""What `make bench` runs: which contenders meet on which workload, in cold processes or in warm ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from bench.contenders import (
    ARROW,
    BEFORE,
    CLEAN,
    HDFS,
    METRICS,
    NOOP,
    ON_EPOCH,
    ORC,
    OWN,
    PLAIN,
    PRIVACY,
    SPARK_INSERT,
    SPARK_ORC,
    SPARK_SINK,
)
from bench.flink import FILES, HIVE, HIVE_ORC
from bench.workloads import AVRO, S3, SMALL_EPOCHS, WORKLOADS, Workload

BATCHES = 5
EPOCH_ROWS = 1_000
EPOCHS = 40
QUICK_ROWS = 10_000_000
CLUSTER_ROWS, CLUSTER_EPOCHS = 5_000_000, 25
REGISTERED = {OWN, HDFS, ON_EPOCH, METRICS, CLEAN, BEFORE, ORC, PLAIN, PRIVACY, SPARK_INSERT, HIVE, HIVE_ORC}
"""Whose partitions the metastore knows."""
WRITERS = {*REGISTERED, SPARK_SINK, SPARK_ORC, FILES}
ON_A_CLUSTER = (OWN, ON_EPOCH, SPARK_SINK, SPARK_INSERT, NOOP, ARROW)


@dataclass(frozen=True, slots=True)
class Case:
    """`cold`: each run is a process of its own, measured from its start. `epochs` rather than whole drains count."""

    name: str
    workload: str
    contenders: tuple[str, ...]
    rows: int
    batches: int = BATCHES
    cold: bool = False

    @property
    def epochs(self) -> bool:
        return self.workload in {SMALL_EPOCHS, S3}

    def workload_of(self, contender: str) -> Workload:
        return WORKLOADS[CLEAN if contender == CLEAN else self.workload]

    def order(self, number: int) -> list[str]:
        """Each round begins with another contender, so that none always runs behind the same one."""
        start = number % len(self.contenders)
        return [*self.contenders[start:], *self.contenders[:start]]


IN_SPARK = (OWN, ON_EPOCH, SPARK_SINK, SPARK_INSERT)
EVERY = (*IN_SPARK, HIVE, FILES, NOOP, ARROW)
SECURED = (OWN, PLAIN, PRIVACY)
IN_ORC = (OWN, ORC, SPARK_SINK, SPARK_ORC, HIVE, HIVE_ORC)
WARM = (*IN_SPARK, HIVE, NOOP, ARROW)


def _case(workload: str, contenders: tuple[str, ...], *, cold: bool = False, name: str | None = None) -> Case:
    return Case(name or workload, workload, contenders, WORKLOADS[workload].rows, cold=cold)


CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        _case("narrow", EVERY, cold=True),
        _case("wide", EVERY, cold=True),
        _case("flights", EVERY, cold=True),
        _case("narrow", WARM, name="narrow-warm"),
        _case("wide", WARM, name="wide-warm"),
        _case("flights", WARM, name="flights-warm"),
        _case("narrow", IN_ORC, name="narrow-orc"),
        _case("wide", IN_ORC, name="wide-orc"),
        _case(AVRO, (*IN_SPARK, NOOP, ARROW)),
        _case("skewed", IN_SPARK),
        _case("many-partitions", IN_SPARK),
        _case("narrow", (OWN, METRICS), name="metrics", cold=True),
        _case("dirty", (OWN, ON_EPOCH, CLEAN, SPARK_SINK, SPARK_INSERT)),
        replace(_case(SMALL_EPOCHS, (*IN_SPARK, METRICS, NOOP, ARROW)), rows=EPOCHS * EPOCH_ROWS, batches=EPOCHS),
        replace(_case(S3, (OWN, HDFS, SPARK_SINK)), rows=EPOCHS * EPOCH_ROWS, batches=EPOCHS),
        replace(_case("narrow", SECURED, name="kerberos"), rows=CLUSTER_ROWS),
        replace(_case(SMALL_EPOCHS, SECURED, name="kerberos-epochs"), rows=EPOCHS * EPOCH_ROWS, batches=EPOCHS),
    )
}
WITH_KERBEROS = {"kerberos", "kerberos-epochs"}
DEFAULT = ("narrow", "wide", "flights", "narrow-warm", "skewed", "many-partitions", "dirty", SMALL_EPOCHS)
QUICK = ("narrow", SMALL_EPOCHS)
ON_CLUSTER = ("narrow-warm", SMALL_EPOCHS)
QUICK_PEERS = (SPARK_SINK, HIVE)


def chosen(
    names: Iterable[str], *, rows: int | None = None, epochs: int | None = None, peers: Iterable[str] | None = None
) -> list[Case]:
    """The named cases with `rows` a drain, `epochs` small epochs, and of the peers only those. Raises SystemExit."""
    names = list(names)
    unknown = sorted(set(names) - set(CASES))
    if unknown:
        message = f"no such workload: {', '.join(unknown)}; there are {', '.join(CASES)}"
        raise SystemExit(message)
    known = {*EVERY, *IN_ORC, *SECURED, CLEAN, HDFS, METRICS}
    wrong = sorted(set(peers or ()) - known)
    if wrong:
        message = f"no such peer: {', '.join(wrong)}; there are {', '.join(sorted(known - {OWN}))}"
        raise SystemExit(message)
    return [_sized(CASES[name], rows, epochs, None if peers is None else {OWN, *peers}) for name in names]


def _sized(case: Case, rows: int | None, epochs: int | None, wanted: set[str] | None) -> Case:
    met = case.contenders
    if wanted is not None:
        met = tuple(name for name in met if name in wanted)
    if case.epochs:
        return replace(case, contenders=met, rows=(epochs or EPOCHS) * EPOCH_ROWS, batches=epochs or EPOCHS)
    return replace(case, contenders=met, rows=rows or case.rows)
