"""A query's progress as a line and as a notebook's table."""

from __future__ import annotations

from datetime import timedelta

from hivesink.core.progress import Progress

ALL = Progress(
    rows=27004,
    rows_per_second=4511.6,
    epochs=3,
    partitions=1,
    rejected=2,
    waiting_rows=9000,
    readable_in=timedelta(seconds=45),
    behind_records=1200,
)


def test_one_line_has_all_that_is_known() -> None:
    assert str(ALL) == (
        "27,004 rows (4,512/s) · 3 epochs · 1 partition · 2 rejected · 9,000 waiting, readable within 45 s"
        " · behind 1,200 records"
    )


def test_what_nobody_knows_is_left_out() -> None:
    assert str(Progress()) == "0 rows · 0 epochs · 0 partitions · 0 rejected"
    assert "behind" not in Progress()._repr_html_()


def test_what_is_unknown_of_the_source_is_left_out() -> None:
    assert "behind" not in str(Progress(behind_records=0))


def test_a_notebooks_table_has_a_row_for_each_field() -> None:
    html = ALL._repr_html_()
    assert html.count("<tr>") == 8
    assert "<tr><th>readable in</th><td>45 s</td></tr>" in html
    assert "<tr><th>behind records</th><td>1,200</td></tr>" in html
