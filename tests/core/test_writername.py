from __future__ import annotations

import re
from datetime import datetime, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hivesink.core.writername import LONGEST, problem, require, reset_name, suggestion
from hivesink.errors import InvalidOption

ODD = ["", "team/a", ".h", "..", ".", "../demo.other/w", "x.pointer", "a b", "-x", "flüge", "a.", "a\n", "é", "a\x00b"]
ODD += ["x" * (LONGEST + 1), "w.reset-20260101T000000Z", "a\\b", "a:b", "x.pointer.pointer", "٣", ".pointer"]


@pytest.mark.parametrize("name", ["flights", "team-a", "v1.2", "_job", "A_b-c.d", "0", "x-", "a..b", "x" * LONGEST])
def test_names_that_work(name: str) -> None:
    assert problem(name) is None
    require(name)


@pytest.mark.parametrize("name", ODD)
def test_names_that_are_refused_with_one_that_works(name: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        require(name)
    said = str(refused.value)
    assert "\n" not in said
    assert repr(suggestion(name)) in said
    assert "Renaming a writer" in said


@given(st.text(max_size=LONGEST + 20))
@example(".pointer")
@example("a.reset-20260101T000000Z.pointer")
@example("a.pointer.reset-20260101T000000Z")
@example("-" * 3)
def test_a_suggestion_can_always_be_used(name: str) -> None:
    assert problem(suggestion(name)) is None
    if problem(name) is None:
        assert suggestion(name) == name


@given(st.text())
def test_a_good_name_is_one_plain_name_of_a_file(name: str) -> None:
    if problem(name) is None:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", name)
        assert not name.startswith((".", "-"))
        # The longest file beside it: a pointer in the making, and the log that was put aside.
        assert len(f".{name}.pointer.0123456789abcdef.tmp") <= 255


@given(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,40}", fullmatch=True), st.datetimes())
def test_a_log_that_was_put_aside_has_the_name_of_no_writer(name: str, at: datetime) -> None:
    aside = reset_name(name, at.replace(tzinfo=timezone.utc, year=max(at.year, 1970)))
    assert problem(aside) is not None
