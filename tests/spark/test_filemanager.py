"""Which of Spark's managers keeps a checkpoint's files, by where the checkpoint is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from hivesink.errors import Unsupported
from hivesink.spark.filemanager import ABORTABLE, SETTING, choose, refuse_renaming

OF_SPARK = "org.apache.spark.sql.execution.streaming."
OLDER = f"{OF_SPARK}checkpointing.FileSystemBasedCheckpointFileManager"
NEWER = f"{OF_SPARK}checkpointing.FileContextBasedCheckpointFileManager"
MINE = "com.example.Manager"


class Session:
    """As much of a Spark session as is asked; `there` are the classes that its JVM has."""

    def __init__(
        self, setting: str | None = None, master: str = "local[2]", there: tuple[str, ...] = (ABORTABLE, OLDER)
    ) -> None:
        self.settings = {SETTING: setting} if setting else {}
        self.conf = SimpleNamespace(
            get=self.settings.get, set=self.settings.__setitem__, unset=lambda name: self.settings.pop(name, None)
        )

        def load(name: str) -> None:
            if name not in there:
                msg = "ClassNotFoundException"
                raise Py4JJavaError(msg, SimpleNamespace(_target_id="o1"))

        loader = SimpleNamespace(loadClass=load)
        thread = SimpleNamespace(currentThread=lambda: SimpleNamespace(getContextClassLoader=lambda: loader))
        jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(Thread=thread)))
        self.sparkContext = SimpleNamespace(master=master, _jvm=jvm)


@pytest.mark.parametrize(
    ("session", "location", "want"),
    [
        (Session(), "s3a://b/c", ABORTABLE),
        (Session(OLDER), "s3a://b/c", ABORTABLE),
        (Session(master="yarn"), "s3a://b/c", ABORTABLE),
        # What this session did for its last checkpoint holds for no other.
        (Session(ABORTABLE), "file:/c", OLDER),
        (Session(ABORTABLE), "hdfs://nn/c", None),
        (Session(ABORTABLE, master="yarn"), "file:/c", None),
        (Session(OLDER, there=()), "s3a://b/c", None),
        # The user's own.
        (Session(MINE), "s3a://b/c", MINE),
        (Session(NEWER), "file:/c", NEWER),
    ],
)
def test_the_manager_of_a_checkpoint(session: Any, location: str, want: str | None) -> None:
    choose(session, location)
    assert session.settings.get(SETTING) == want


def test_spark_s_own_are_refused_on_s3() -> None:
    for setting in (None, OLDER, NEWER):
        session: Any = Session(setting)
        refuse_renaming(session, "hdfs://nn/c")
        with pytest.raises(Unsupported, match=rf"^the checkpoint s3a://b/c .*spark-hadoop-cloud.* {ABORTABLE}"):
            refuse_renaming(session, "s3a://b/c")
    for setting in (ABORTABLE, MINE):
        mine: Any = Session(setting)
        refuse_renaming(mine, "s3a://b/c")
