"""What the demonstration prints: within 80 columns, and without control characters if it is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hivesink.sink.commit.committed import Committed

WIDTH = 80


class Screen:
    """Prints headings with the elapsed seconds, facts, and answers with a mark for right or wrong.

    `clock` counts seconds. `wrong` is the number of failed checks.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun = clock()
        self._console = Console(highlight=False)
        self._console.width = min(self._console.width, WIDTH)
        self.wrong = 0

    def step(self, text: str) -> None:
        self._console.print(f"[dim]{self.seconds:>4.0f} s[/dim]  [bold]{escape(text)}[/bold]")

    @property
    def seconds(self) -> float:
        """The elapsed time."""
        return self._clock() - self._begun

    def fact(self, text: str) -> None:
        self._console.print(f"        {escape(text)}")

    def answer(self, query: str, lines: Sequence[str], *, right: bool) -> None:
        """A query, its result, and whether the CSV has the same."""
        self._console.print(f"        [cyan]{escape(query)}[/cyan]")
        for line in lines:
            self._console.print(f"          {escape(line)}")
        self.check("the same figures as in the CSV", right=right)

    def check(self, text: str, *, right: bool) -> None:
        mark = "[green]✓[/green]" if right else "[bold red]✗ not[/bold red]"
        self._console.print(f"      {mark} {escape(text)}")
        self.wrong += not right

    @contextmanager
    def progress(self, total: int, rows: int, epochs: int) -> Iterator[Callable[[Committed], None]]:
        """A bar, or in a pipe one line per epoch; starts at what earlier runs committed."""
        bar = Progress(
            TextColumn("        rows"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("epochs {task.fields[epochs]}  waiting {task.fields[waiting]:,}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        with bar:
            task = bar.add_task("rows", total=total, completed=rows, epochs=epochs, waiting=0)

            def committed(done: Committed) -> None:
                nonlocal rows, epochs
                if done.replayed:
                    return
                rows, epochs = rows + done.rows.written, epochs + 1
                bar.update(task, completed=rows, epochs=epochs, waiting=done.open_rows)
                if not self._console.is_terminal:
                    self.fact(f"epoch {done.epoch}: rows {rows:,} of {total:,}, {done.open_rows:,} wait for a roll")

            yield committed
