"""Parts that can't be renamed to where their partition lives now, and that a person brings there."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from hivesink.core.bucket import is_aside
from hivesink.errors import PartitionElsewhere, Unsupported
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.clean import clean, find_leftovers
from hivesink.sink.inspect.verify import verify
from tests.crash.site import Site, Watched
from tests.inmemory.filesystem import MemoryFileSystem
from tests.sink.harness import LOCATION, TABLE, UID, Source, events, measure_lines

if TYPE_CHECKING:
    from hivesink.core.manifest import PartEntry

DAY = "dt=2024-01-01"
ELSEWHERE = "/elsewhere/x"
AT_HOME = f"{LOCATION}/{DAY}"
OTHER_STORE = "s3a://bucket/x"
DECIDED = {True: 3, False: 4}
"""The job's call of the metastore after it has written at home; one more where the home is not the default one."""


class Zones(MemoryFileSystem):
    """A zone for each first folder: HDFS refuses a rename between two before it looks at anything else."""

    def rename(self, source: str, target: str) -> None:
        if source.split("/")[1] != target.split("/")[1]:
            what = f"to rename {source}"
            raise Unsupported(what, "it can't be moved from an encryption zone", "keep to one zone")
        super().rename(source, target)

    def length(self, path: str) -> int | None:
        if path.startswith(OTHER_STORE):
            raise Unsupported(path, "another file system", "keep to one")
        return super().length(path)


def waiting(site: Site) -> list[PartEntry]:
    return [*load(site.job().context).waiting]


def stuck(home: str, to: str = ELSEWHERE) -> Site:
    """An epoch is decided for `home`; its partition has moved since, to where its parts can't be renamed."""
    site = Site(Source(events(4, partitions=1)), fs=Zones())
    site.metastore.register(TABLE, DAY, home)
    looks = itertools.count(1)

    def down_after_the_decision(site: Site, _: int) -> None:
        if next(looks) == DECIDED[home == AT_HOME]:
            site.metastore.go_down()

    site.user = down_after_the_decision
    job = site.job(registrar=Watched(site))
    job.committer.recover()
    job.step()
    site.user = None
    site.metastore.come_up()
    # Nobody knew whether the partition was listed: what was written at home waits outside of its folder.
    folders = {part.staged.rpartition("/")[0] for part in waiting(site)}
    assert all(map(is_aside, folders)) if home == AT_HOME else folders == {home}
    site.metastore.register(TABLE, DAY, to)
    with pytest.raises(PartitionElsewhere, match=f" at {to}.*move them there under their last names, or"):
        site.job().run()
    return site


@pytest.mark.parametrize("home", [AT_HOME, "/before/x"])
def test_they_are_taken_under_their_last_names_and_leave_nothing(home: str) -> None:
    site = stuck(home)
    for part in waiting(site):
        site.fs.write_new(part.target, site.fs.read(part.staged) or b"")
        site.fs.delete(part.staged)
    said = [found.text for found in verify(site.job().context, "w", str(TABLE), measure_lines).findings]
    assert not [text for text in said if "neither staged nor published" in text or "leftover" in text]
    site.job().run()
    site.check(range(4))
    assert site.staged() == set()


def test_clean_goes_on_where_a_partition_lives_in_another_store_and_so_does_the_job_when_it_comes_back() -> None:
    site = stuck(AT_HOME, OTHER_STORE)
    left = f"{AT_HOME}/.part-{UID}-1-aaaaaaaaaat9-0-0.snappy.parquet.pending"
    site.fs.write_new(left, b"1\n")
    context = site.job().context
    clean(context, find_leftovers(context, str(TABLE)), str(TABLE))
    assert left not in site.staged()
    site.metastore.register(TABLE, DAY, AT_HOME)
    site.job().run()
    site.check(range(4))
