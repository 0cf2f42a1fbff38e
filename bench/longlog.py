"""What a start costs after many epochs: `python -m bench.longlog EPOCHS… [--mode M]`, in memory.

Only the last epochs are real, more than a log keeps: the first one is renumbered, with a floor below it. One line for
each number of epochs: CPU milliseconds of a start and of an epoch, files in the log's `manifests`.
"""

from __future__ import annotations

import argparse
import logging
import time
from dataclasses import replace

from bench.manyparts import MODES
from hivesink.core.epoch import Epoch
from hivesink.core.manifest import NO_ROWS, Floor
from hivesink.core.manifest_json import encode, encode_floor
from hivesink.core.ownership import default_root
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.log_layout import floor_name, manifest_name
from hivesink.storage.rename_store import RenameFileStore
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE, Job, Source, events

REAL = 400
"""Twice what `sink.log.retained-epochs` keeps by default."""
STARTS = 5


def measure(epochs: int, mode: str) -> None:
    registrar, fs, source = MemoryMetastore(SPEC), MemoryFileSystem(), Source(events(2 * REAL + 2))
    log = RenameCommitLog(fs, f"{default_root(LOCATION, TABLE)}/w")

    def start() -> Job:
        job = Job(log, RenameFileStore(fs), registrar, source, options=MODES[mode])
        job.committer.recover()
        return job

    start().step(2)
    renumber(fs, log, epochs - REAL)
    job, begun = start(), time.process_time()
    for _ in range(REAL):
        job.step(2)
    spent = (time.process_time() - begun) / REAL
    starts = []
    for _ in range(STARTS):
        begun = time.process_time()
        job = start()
        starts.append(time.process_time() - begun)
    assert job.committer.head == epochs
    files = len(fs.list(f"{log.location}/manifests"))
    print(f"{epochs:>9,}{min(starts) * 1e3:9.1f}{spent * 1e3:9.2f}{files:7}", flush=True)


def renumber(fs: MemoryFileSystem, log: RenameCommitLog, epoch: int) -> None:
    """Make the only epoch of `log` that one, as if those before had been trimmed."""
    first = log.manifest(Epoch(1))
    for entry in fs.list(f"{log.location}/manifests"):
        fs.delete(f"{log.location}/manifests/{entry.name}")
    last = replace(first.last_batch, epoch=Epoch(epoch)) if first.last_batch else None
    manifest = replace(first, epoch=Epoch(epoch), settled=Epoch(epoch - 1), last_batch=last)
    floor = encode_floor(Floor(Epoch(epoch - 1), NO_ROWS))
    fs.write_new(f"{log.location}/manifests/{floor_name(Epoch(epoch - 1))}", floor)
    fs.write_new(f"{log.location}/manifests/{manifest_name(Epoch(epoch))}", encode(manifest))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("epochs", type=int, nargs="+")
    parser.add_argument("--mode", choices=MODES, default="on-epoch")
    given = parser.parse_args()
    logging.disable()
    for epochs in given.epochs:
        measure(epochs, given.mode)


if __name__ == "__main__":
    main()
