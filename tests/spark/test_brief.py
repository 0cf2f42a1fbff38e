"""A Java error's text as it reaches Spark's regular expression."""

from __future__ import annotations

from hivesink.spark.brief import briefly, shortened

FRAMES = "\tat java.base/java.util.Locks.acquire(Locks.java:1048)\n" * 80


def test_messages_and_causes_stay_and_stack_frames_go() -> None:
    text = f"An error occurred while calling o1.collect.\n: a.B: no\n{FRAMES}Caused by: java.net.ConnectException: x\n"
    assert shortened(f"{text}{FRAMES}\t... 7 more\n") == text.replace(FRAMES, "")


def test_a_long_message_keeps_its_beginning_and_the_root_cause() -> None:
    short = shortened(f"called\n{'x' * 9000}\nCaused by: java.lang.InterruptedException")
    assert len(short) < 1600
    assert short.startswith("called\n")
    assert short.endswith("java.lang.InterruptedException")


def test_an_error_of_python_stays_itself() -> None:
    error = ValueError("no")
    assert briefly(error) is error
