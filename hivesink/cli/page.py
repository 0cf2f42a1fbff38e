"""The page of `hivesink show --html`: one file without anything from elsewhere, and without scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from hivesink.cli.charts import LEGEND, STYLE, Column, columns, meter
from hivesink.cli.marks import life, marks_of, size, summary
from hivesink.cli.output import printable
from hivesink.cli.page_file import MARK
from hivesink.core.progress import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hivesink.core.picture import EpochPicture, PartitionPicture, Picture, Rejects


def page(picture: Picture) -> str:
    """The whole document. Every text that comes from the table is escaped."""
    title = f"{_text(picture.table)} · hivesink"
    body = "\n".join(
        [
            f"<h1>{_text(picture.table)}</h1>",
            f"<p>{_text(picture.location)}<br>as of {picture.at:%Y-%m-%d %H:%M:%S} UTC: {_text(summary(picture))}</p>",
            *(f'<p class="note">{_text(note)}</p>' for note in picture.notes),
            _section("partitions", "Partitions", _partitions(picture)),
            _section("rows", "Rows per epoch", _rows(picture)),
            _section("lag", "Lag", _lag(picture)),
            _section("rejects", "Rejects by reason", _rejects(picture.rejects)),
            _section("life", "The life of the last epochs", _life(picture)),
        ]
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{MARK}
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _text(value: object) -> str:
    return escape(printable(str(value)))


def _section(name: str, title: str, lines: Iterable[str]) -> str:
    content = "\n".join(lines) or "<p>none</p>"
    return f'<section id="{name}">\n<h2>{title}</h2>\n{content}\n</section>'


def _table(heads: Sequence[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{one}</th>" for one in heads)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead>\n<tbody>{''.join(rows)}</tbody></table></div>"


def _row(cells: Iterable[str], kind: str = "") -> str:
    return f'<tr class="{kind}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>\n'


def _partitions(picture: Picture) -> Iterator[str]:
    if not picture.partitions:
        return
    most = max(_height(one) for one in picture.partitions)
    yield LEGEND
    yield _bars(picture, _height, _rows_text, "Rows in each partition, those that wait too", f"{most:,} rows")
    bytes_most = size(max(one.bytes or 0 for one in picture.partitions))
    yield _bars(picture, lambda one: one.bytes, lambda one: size(one.bytes), "Bytes in each partition", bytes_most)
    files_most = count(max(one.files or 0 for one in picture.partitions), "file")
    yield _bars(picture, lambda one: one.files, _files_text, "Files in each partition", files_most)
    heads = ("partition", "rows", "", "rows from", "bytes", "files", "marks")
    # The newest first: a page is read from its top.
    rows_of = (row for one in reversed(picture.partitions) for row in _partition_rows(one, most, picture.file_size))
    yield _table(heads, rows_of)


def _bars(
    picture: Picture,
    of: Callable[[PartitionPicture], int | None],
    tell: Callable[[PartitionPicture], str],
    caption: str,
    most: str,
) -> str:
    bars: list[Column] = []
    for one in picture.partitions:
        if one.gap is not None:
            bars.append(Column(None, "gap", one.gap.text))
        bars.append(Column(of(one), _kind(one, picture.file_size), f"{_name(one)}: {tell(one)}"))
    return columns(bars, caption, most, f"{_name(picture.partitions[0])} to {_name(picture.partitions[-1])}")


def _rows_text(one: PartitionPicture) -> str:
    rows = "rows not known" if one.rows is None else count(one.rows, "row")
    return f"{rows}, {one.waiting_rows:,} wait" if one.waiting_rows else rows


def _files_text(one: PartitionPicture) -> str:
    return "-" if one.files is None else count(one.files, "file")


def _name(one: PartitionPicture) -> str:
    return printable(one.partition) or "(the whole table)"


def _height(one: PartitionPicture) -> int:
    return (one.rows or 0) + one.waiting_rows


def _kind(one: PartitionPicture, file_size: int) -> str:
    if one.is_small(file_size):
        return "small"
    return "open" if one.waits_for else "whole"


def _partition_rows(one: PartitionPicture, most: int, file_size: int) -> Iterator[str]:
    kind = _kind(one, file_size)
    yield _row(
        (
            _text(_name(one)),
            "-" if one.rows is None else f"{one.rows:,}",
            meter(_height(one), most, kind),
            one.rows_from or "-",
            size(one.bytes),
            "-" if one.files is None else f"{one.files:,}",
            "<br>".join(map(_text, marks_of(one, file_size))),
        ),
        kind,
    )
    if one.gap is not None:
        yield f'<tr class="gap"><td colspan="7">⋮ {_text(one.gap.text)}</td></tr>\n'


def _rows(picture: Picture) -> Iterator[str]:
    for writer, every in picture.by_writer():
        # Rolls and other epochs of the sink's own read nothing.
        epochs = [one for one in every if one.rows.read]
        if not epochs:
            continue
        most = max(one.rows.read for one in epochs)
        bars = [
            Column(
                one.rows.read,
                "whole",
                f"epoch {one.epoch} ({one.kind}): {one.rows.read:,} read, {one.rows.written:,} written, "
                f"{one.rows.rejected:,} rejected, {one.rows.dropped:,} dropped, {one.rows.late:,} late, "
                f"{one.rows.skipped:,} skipped",
                one.rows.rejected,
            )
            for one in epochs
        ]
        caption = f"Writer {writer}: rows read, the rejected ones in red"
        yield columns(bars, caption, f"{most:,} rows", _ends(epochs))


def _lag(picture: Picture) -> Iterator[str]:
    for writer, epochs in picture.by_writer():
        is_known = any(one.lag is not None for one in epochs)
        spans = [(one, one.lag if is_known else one.since_last) for one in epochs]
        known = [(one, max(0.0, span.total_seconds())) for one, span in spans if span is not None]
        if not known:
            continue
        most = max(seconds for _, seconds in known)
        bars = [Column(seconds, "whole", f"epoch {one.epoch}: {seconds:,.1f} s") for one, seconds in known]
        what = (
            "from the newest event time to the epoch's decision"
            if is_known
            else "from one epoch to the next, since the log has no event times"
        )
        yield columns(bars, f"Writer {writer}: time {what}", f"{most:,.1f} s", _ends([one for one, _ in known]))


def _ends(epochs: Sequence[EpochPicture]) -> str:
    return f"epochs {epochs[0].epoch} to {epochs[-1].epoch}"


def _rejects(rejects: Rejects) -> Iterator[str]:
    yield f"<p>{count(rejects.counted, 'rejected row')} by the writers' logs; table {_text(rejects.table)}</p>"
    if rejects.reasons is None:
        yield f'<p class="note">Their reasons aren\'t known: {_text(rejects.unknown)}</p>'
    elif rejects.reasons:
        most = max(rejects.reasons.values())
        rows = (
            _row((_text(reason), f"{number:,}", meter(number, most, "bad")))
            for reason, number in rejects.reasons.items()
        )
        yield _table(("reason", "rows", ""), rows)


def _life(picture: Picture) -> Iterator[str]:
    heads = ("epoch", "kind", "decided (UTC)", "rows in files", "files", "since then")
    for writer, epochs in picture.by_writer():
        yield f"<h3>Writer {_text(writer)}</h3>"
        yield _table(heads, map(_epoch_row, reversed(epochs)))


def _epoch_row(one: EpochPicture) -> str:
    at = f"{one.at:%Y-%m-%d %H:%M:%S}"
    cells = (str(one.epoch), _text(one.kind), at, f"{one.published_rows:,}", str(one.files), life(one))
    return _row(cells, "whole" if one.is_settled else "open")
