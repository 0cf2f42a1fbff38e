"""The names of errors: users import them from one place, and find that place in a trace."""

from __future__ import annotations

import pickle
import traceback

from hivesink import errors


def test_a_trace_names_the_place_to_import_them_from() -> None:
    text = "".join(traceback.format_exception_only(errors.InvalidOption(("sink.x is unknown",))))
    assert text.startswith("hivesink.errors.InvalidOption: ")
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert f"{kind.__module__}.{kind.__qualname__}" == f"hivesink.errors.{name}"
        assert pickle.loads(pickle.dumps(kind)) is kind  # noqa: S301 - its own


def test_files_that_are_gone_can_be_given_up_where_the_error_says() -> None:
    told = str(errors.SourceFilesMissing("q", 1, 2, ("/in/a.json",)))
    assert 'HiveSink.for_table(…, options={"sink.on-missing-file": "ignore"})' in told
    assert "'sink.on-missing-file' = 'ignore' in the table's TBLPROPERTIES" in told
