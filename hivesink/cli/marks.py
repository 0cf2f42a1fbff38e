"""The words and bars with which `hivesink show` draws, in the terminal and on its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core.progress import count

if TYPE_CHECKING:
    from hivesink.core.picture import EpochPicture, PartitionPicture, Picture

_BAR = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_THOUSAND = 1000


def bar(value: int | None, most: int) -> str:
    """`value` as a bar, of 20 characters for `most`; at least a sliver for what isn't 0."""
    if not value or most <= 0:
        return ""
    eighths = max(1, round(value * _BAR * 8 / most))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def size(length: int | None) -> str:
    """`1.5 MB`, in powers of 1000; `-` if it isn't known."""
    if length is None:
        return "-"
    value, unit = float(length), 0
    while value >= _THOUSAND - 0.5 and unit < len(_UNITS) - 1:
        value, unit = value / _THOUSAND, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 or value >= 99.5 else f"{value:.1f} {_UNITS[unit]}"  # noqa: PLR2004


def marks_of(one: PartitionPicture, file_size: int, longest: int | None = None) -> list[str]:
    """What stands out about the partition; what it waits for is shortened to `longest` characters."""
    marks = []
    if not one.is_registered:
        marks.append("not registered yet")
    elif one.files == 0:
        marks.append("no files")
    if one.waiting_rows:
        marks.append(f"{count(one.waiting_rows, 'row')} not readable yet")
    if one.is_small(file_size):
        marks.append(f"small files: {size((one.bytes or 0) // (one.files or 1))} on average")
    for reason in one.waits_for or ():
        is_long = longest is not None and len(reason) > longest
        marks.append(f"waits: {f'{reason[:longest]}…' if is_long else reason}")
    return marks


def summary(picture: Picture) -> str:
    """What is shown of how many partitions, and what stands out."""
    if not picture.total:
        return "it has no partitions yet"
    shown = len(picture.partitions)
    newest = f"the newest {shown:,} of {picture.total:,} partitions"
    which = count(shown, "partition") if shown == picture.total else newest
    facts = [which, f"{picture.small} with small files", f"{count(picture.total_gaps, 'gap')} in all"]
    waiting = sum(bool(one.waits_for) for one in picture.partitions)
    return ", ".join([*facts, f"{waiting} not complete"])


def life(epoch: EpochPicture) -> str:
    """How far the epoch has come after its decision."""
    if not epoch.files:
        return "committed, no files"  # Its rows wait for a roll, or it had none.
    if epoch.is_settled:
        return "published, registered"
    return "published, not registered yet" if epoch.is_published else "not published yet"
