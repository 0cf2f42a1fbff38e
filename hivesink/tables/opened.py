"""A table and its writers, opened read-only: opening a table never creates a log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime

from hivesink import kerberos, wiring
from hivesink.config.options import SinkConfig
from hivesink.config.site import Site
from hivesink.core.lifecycle import EpochState, replaced_parts
from hivesink.core.log import require_writer_name
from hivesink.core.manifest import REPLAYS, Manifest, PartEntry
from hivesink.core.progress import Policies
from hivesink.core.table import TableName, is_letters, main_table
from hivesink.embedded import metastore as embedded
from hivesink.errors import InvalidOption, NotWritable, UnknownTable, Unsupported, folder_gone
from hivesink.logs import file_store, table_root
from hivesink.metastore import connect
from hivesink.ports import CommitLog, LiveTable, Metastore
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.writer import rolling_policy, watermark_policy
from hivesink.sink.inspect.facts import LogFacts, LogFollower, PartitionState, read_log
from hivesink.sink.inspect.ownership import Ownership
from hivesink.sink.task.events import commit_rule, patterns_of_names
from hivesink.sink.task.segments import held_back
from hivesink.wiring import refit


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A table of the metastore. `writers` are all that have a log in the root of the table's log, sorted by name."""

    name: str
    live: LiveTable
    writers: Mapping[str, CommitContext]
    site: Site
    metastore: Metastore
    owner: Ownership
    is_known: bool
    """Whether the root of the logs is this table's, and not that of a table which had its name."""

    @property
    def jobs(self) -> Mapping[str, CommitContext]:
        """The writers that complete partitions, hold them back and can be started: all but replays of dead letters."""
        return {writer: context for writer, context in self.writers.items() if writer != REPLAYS}

    @property
    def folder_gone(self) -> NotWritable | None:
        """What to say of a table without a log if its folder isn't there, as on a disk that isn't mounted."""
        if self.writers or next(iter(self.owner.store.walk(self.live.location)), None) is not None:
            return None
        return folder_gone(self.name, self.live.location)

    def require_same(self, writer: str | None = None) -> None:
        """Raise what stops a start: the table isn't the log's, a disk isn't mounted, the log of `writer` is too old.

        Raises LogOfAnotherTable, TableMadeAgain, NotWritable, LogDamaged.
        """
        if (records := self.owner.root.records()) and not is_letters(self.name):
            self.owner.verdict(self.live, records[-1])
        if writer is not None:
            self.owner.require_current(self.live, self.writers[writer].log)

    def chosen(self, writer: str | None) -> Mapping[str, CommitContext]:
        """The writer of that name, or all writers for None. Raises InvalidOption if there is no such writer."""
        if writer is None:
            return self.writers
        if writer not in self.writers:
            require_writer_name(writer)
            known = ", ".join(self.writers) or "none"
            raise InvalidOption((f"no writer {writer!r} has written to {self.name}; known: {known}",))
        return {writer: self.writers[writer]}

    def start_of(self, writer: str) -> tuple[SinkConfig, Manifest | None]:
        """The settings of a job that starts now, with those that `writer`'s gave itself last; and its newest manifest.

        Raises InvalidOption, LogDamaged.
        """
        head = load(self.writers[writer]).head
        return SinkConfig.parse(self.live.spec.options, dict(head.options if head else ())), head

    def of_last_run(self, head: Manifest | None) -> SinkConfig:
        """The settings of the run that wrote `head`, a writer's newest manifest. Raises InvalidOption.

        Of a writer without an epoch, nothing else is known than the table's settings.
        """
        return SinkConfig.parse({}, dict(head.settings)) if head else SinkConfig.parse(self.live.spec.options)

    def policies(self, head: Manifest | None) -> Policies:
        """By what the run goes that wrote `head`, a writer's newest manifest. Raises InvalidOption."""
        spec, config = self.live.spec, self.of_last_run(head)
        rules = commit_rule(spec, config), rolling_policy(config), watermark_policy(config)
        # Their own rolling class needn't be here: only the job asks it.
        own, check = config["sink.rolling-policy.class"] is not None, config["sink.rolling-policy.check-interval"]
        return Policies(*rules, own_rolling=own, names=patterns_of_names(spec, config), check=check)

    def states(self, writer: str, now: datetime) -> list[PartitionState]:
        """All partitions that `writer` has rows of, sorted. Rows that are lost, or don't fit the table, are named so.

        Raises what `LogFollower.read` raises.
        """
        follower = LogFollower(writer, self.writers[writer].log, self.policies)
        follower.read()
        before = follower.open.buckets
        held = held_back(follower.open, self.live.spec, follower.log.segments, refit)
        # A job that runs beside this may have rolled them meanwhile, and deleted their segments.
        follower.read()
        after = follower.open.buckets
        still = {key for key in held if key in after and {*before[key].slices} <= {*after[key].slices}}
        states = follower.states(now)
        return [replace(state, waits_for=str(held[state.key])) if state.key in still else state for state in states]

    def writing(self, writer: str, options: Mapping[str, str] | None = None) -> wiring.OpenedWriter:
        """What writes as the job of `writer`, by the settings that this gave itself, or by other `options`.

        Raises what `OpenedWriter.open` raises.
        """
        head = load(self.writers[writer]).head if writer in self.writers else None
        return wiring.OpenedWriter.open(
            table=self.served(head),
            writer=writer,
            metastore=self.metastore,
            options=dict(head.options if head else ()) if options is None else options,
            site=self.site,
        )

    def served(self, head: Manifest | None) -> TableName:
        """The table that the writer of `head` writes, under its name of today: this may be its dead-letter table."""
        is_its = head is None or is_letters(head.tables[0])
        return self.live.spec.name if is_its else TableName.parse(main_table(self.name))

    def every_log(self, writer: str | None = None) -> dict[str, CommitLog]:
        """The log of each writer by its name, and those that were put aside as `writer/1`; or those of one writer.

        Raises InvalidOption if there is no such writer.
        """
        logs = {name: context.log for name, context in self.writers.items()}
        logs |= self.owner.root.ended() if self.is_known else {}
        of_one = {name: log for name, log in logs.items() if name.partition("/")[0] == writer}
        return logs if writer is None else of_one or {name: each.log for name, each in self.chosen(writer).items()}

    def logs(self) -> dict[str, LogFacts]:
        """What all of `every_log` say."""
        return {name: read_log(log) for name, log in self.every_log().items()}


def replaced_letters(logs: Mapping[str, LogFacts]) -> dict[str, PartEntry]:
    """By name, the dead letters' parts that epochs in these logs of a table, by their names, have replaced.

    What a log that was reset had decided and not begun to publish was given up.
    """
    replaced: dict[str, PartEntry] = {}
    for name, log in logs.items():
        begun = [m for m in log.manifests if log.is_published(m.epoch) or log.view.has(m.epoch, EpochState.PUBLISHING)]
        replaced |= replaced_parts(log.floor, begun if "/" in name else log.manifests)
    return replaced


def metastore_address(given: str | None, site: Site) -> str:
    """The given address, else `$HIVESINK_METASTORE`, else the site's, else the embedded metastore's.

    Raises what `embedded.metastore.running` raises.
    """
    return given or os.environ.get("HIVESINK_METASTORE") or site.metastore_uris or embedded.running()[0]


@contextmanager
def open_table(table: str, metastore: str | None) -> Iterator[OpenedTable]:
    """Open `table`. Raises InvalidOption, UnknownTable, Unsupported, MetastoreUnreachable."""
    parsed, site = TableName.parse(table), kerberos.site_of(os.environ)
    with closing(connect("thrift", metastore_address(metastore, site), site)) as registrar:
        live = main = registrar.table(parsed)
        name = str(live.spec.name)
        today = main_table(name)
        if live.log is None and is_letters(name):
            # Dead letters may not say whose log they are of.
            with suppress(UnknownTable, Unsupported):
                main = registrar.table(TableName.parse(today))
        store = file_store(live.location, site)
        root = table_root(main, main.spec.options.get("sink.log-location"), site)
        owner = Ownership(root, registrar, store)
        records = root.records()
        # The root of that name may be that of a table which was renamed since.
        is_known = not records or live.log is not None or records[-1].table == today
        writers = {
            writer: CommitContext(log, store, registrar, today=today, former=owner.former(main))
            for writer, log in root.logs().items()
            if is_known
        }
        yield OpenedTable(name, live, writers, site, registrar, owner, is_known)
