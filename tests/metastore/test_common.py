"""What all registrars share; real metastores that refuse a call because of one partition are in `contracts`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hivesink.config.formats import FORMATS
from hivesink.core.table import TableName
from hivesink.errors import MetastoreUnreachable, NotWritable, RegistrationFailed, Unsupported, unanswered
from hivesink.metastore.common import FLAG, Facts, change_all, is_trusted

GOOD = Facts(
    name=TableName("d", "t"),
    kind="EXTERNAL_TABLE",
    input_format=FORMATS["PARQUET"].input_format,
    serde=FORMATS["PARQUET"].serde,
    clustered=False,
    properties={"discover.partitions": "false", "transactional": "false"},
)


ORC = replace(GOOD, input_format=FORMATS["ORC"].input_format, serde=FORMATS["ORC"].serde)
UPPER = [("id", "int", None), ("s", "array<struct<id:int,at:struct<userId:int>>>", None)]


def test_a_parquet_table_is_taken() -> None:
    GOOD.refuse()
    replace(GOOD, columns=UPPER).refuse()
    for text in ("struct<id:int,at:DECIMAL(9,2)>", "MAP<STRING,STRUCT<a:INT>>"):
        replace(ORC, columns=[("Id", text, None)]).refuse()
    # The metastore discovers partitions of external tables only.
    replace(GOOD, kind="MANAGED_TABLE", properties={"discover.partitions": "true"}).refuse()


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (replace(GOOD, kind="VIRTUAL_VIEW"), "a view"),
        (replace(GOOD, kind="MATERIALIZED_VIEW"), "a view"),
        (replace(GOOD, properties={"transactional": "TRUE"}), "transactional"),
        (replace(GOOD, input_format="org.apache.hadoop.mapred.TextInputFormat"), "TextInputFormat.*STORED AS PARQUET"),
        (replace(GOOD, serde="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"), "STORED AS PARQUET"),
        (replace(GOOD, clustered=True), "CLUSTERED or SKEWED"),
        (replace(GOOD, properties={"spark.sql.sources.schema.numBuckets": "4"}), "CLUSTERED"),
        (
            replace(GOOD, properties={"discover.partitions": "true"}),
            r"ALTER TABLE d\.t SET TBLPROPERTIES \('discover\.partitions'='false'\)",
        ),
        (
            replace(GOOD, kind="MANAGED_TABLE", properties={"EXTERNAL": "TRUE", "discover.partitions": "TRUE"}),
            "ALTER TABLE",
        ),
        (replace(ORC, columns=UPPER), "names in lower case"),
        (replace(ORC, columns=[("s", "STRUCT<`É`:INT>", None)]), "names in lower case"),
    ],
)
def test_what_rows_would_be_lost_in_is_refused(facts: Facts, says: str) -> None:
    with pytest.raises(Unsupported, match=says) as caught:
        facts.refuse()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "has_no_right"),
    [
        # By Ranger, Sentry, SQL's grants and HDFS, each as it comes from the metastore or from HiveServer2.
        ("Permission denied: user [bob] does not have [ALTER] privilege on [demo/t]", True),
        ("User bob does not have privileges for ALTERTABLE_ADDPARTS", True),
        ("FAILED: HiveAccessControlException Permission denied: Principal [name=bob, type=USER] does not have", True),
        ("User: hive/h@X is not allowed to impersonate bob (AuthorizationException)", True),
        ('java.security.AccessControlException: Permission denied: user=bob, access=WRITE, inode="/t"', True),
        ("Got exception: java.net.ConnectException connection refused", False),
    ],
)
def test_who_has_no_right_to_it(said: str, has_no_right: bool) -> None:
    read, changed = unanswered("here", said), RegistrationFailed("d.t", "register", said, "here", ("dt=1",))
    assert (isinstance(read, NotWritable), read.retryable, changed.retryable) == (
        has_no_right,
        not has_no_right,
        not has_no_right,
    )
    assert said in str(read)


def test_an_unknown_type_names_its_column() -> None:
    with pytest.raises(Unsupported, match=r"column u of d\.t \(uniontype<int>\)"):
        replace(GOOD, columns=[("u", "uniontype<int>", None)]).spec()


@pytest.mark.parametrize(
    ("text", "accurate"),
    [
        (None, False),
        ("", False),
        ("{}", False),
        ("false", False),
        ("FALSE", False),
        ('{"BASIC_STATS":"false"}', False),
        ('{"COLUMN_STATS":{}}', False),
        ('{"BASIC_STATS":"true"}', True),
        ('{\\"BASIC_STATS\\":\\"true\\"}', True),
        ('{"COLUMN_STATS":{"id":"true"}}', True),
        ("true", True),
        ("TRUE", True),
        ("what is this", True),
    ],
)
def test_a_text_in_doubt_counts_as_trusted(text: str | None, accurate: bool) -> None:
    parameters = {} if text is None else {FLAG: text}
    assert is_trusted(parameters) is accurate
    assert is_trusted(parameters, is_partitioned=True) is (accurate and "BASIC" not in str(text))


class Picky:
    """Refuses every call with one of `bad` in it, and after `most` calls doesn't answer questions any more."""

    def __init__(self, *bad: int, most: int = 1000) -> None:
        self.bad = bad
        self.most = most
        self.done: list[int] = []
        self.calls = 0

    def change(self, keys: Sequence[int]) -> None:
        self.calls += 1
        at_fault = [key for key in keys if key in self.bad]
        if at_fault:
            table, action = "db.t", f"register {len(keys)} partitions"
            raise RegistrationFailed(table, action, f"not {at_fault[0] % 2}", "here")
        self.done += keys

    def ask(self) -> None:
        if self.calls >= self.most:
            where, why = "memory", "it is tired"
            raise MetastoreUnreachable(where, why)

    def run(self, number: int) -> None:
        names = {key: f"dt={key}" for key in range(number)}
        change_all(names, self.change, action="register", per_call=10, ask=self.ask)


def test_nothing_and_nothing_refused() -> None:
    picky = Picky()
    picky.run(0)
    assert picky.calls == 0
    picky.run(25)
    assert (picky.done, picky.calls) == ([*range(25)], 3)


def test_all_others_are_changed_and_one_error_names_those_at_fault() -> None:
    picky = Picky(3, 14, 15, 19)
    with pytest.raises(RegistrationFailed) as told:
        picky.run(30)
    assert sorted(picky.done) == [key for key in range(30) if key not in picky.bad]
    assert picky.calls == 3 + 20
    assert told.value.partitions == ("dt=3", "dt=14", "dt=15", "dt=19")
    assert str(told.value) == (
        "the metastore at here couldn't register partitions 'dt=3', 'dt=14', 'dt=15' and 1 more of db.t: "
        "not 1; not 0; fix this and retry"
    )


def test_a_metastore_that_can_not_answer_is_not_tried_with_each() -> None:
    picky = Picky(*range(10), most=4)
    with pytest.raises(MetastoreUnreachable):
        picky.run(10)
    assert picky.calls == 4
