"""What a listing of a log gives away about what it doesn't show."""

from __future__ import annotations

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.log import LogView, Mark
from hivesink.core.logview import missing, require_own, require_whole
from hivesink.errors import LogDamaged
from tests.contracts.manifests import small


def view(floor: int, manifests: str, marks: str = "") -> LogView:
    """Each digit of `manifests` and of `marks` is an epoch."""
    return LogView(
        Epoch(floor),
        tuple(Epoch(int(digit)) for digit in manifests),
        {Epoch(int(digit)): frozenset({Mark.PUBLISHED}) for digit in marks},
    )


@pytest.mark.parametrize(
    ("found", "gaps"),
    [
        (view(0, ""), ""),
        (view(0, "12", "12"), ""),
        (view(4, "56", "5"), ""),
        (view(0, "3"), "12"),
        (view(4, "7"), "56"),
        (view(4, "589", "8"), "67"),
        (view(4, "56", "567"), "7"),
        (view(4, "56", "9"), "789"),
        (view(0, "", "2"), "12"),
        (view(4, "", "5"), "5"),
        (view(4, ""), ""),
    ],
)
def test_what_is_missing(found: LogView, gaps: str) -> None:
    assert "".join(map(str, missing(found))) == gaps


@pytest.mark.parametrize("found", [view(0, ""), view(0, "12", "12"), view(4, "589", "8"), view(4, "7")])
def test_a_log_can_do_without_what_is_settled(found: LogView) -> None:
    require_whole("/log", found, Epoch(7))


@pytest.mark.parametrize(
    ("found", "settled", "reason"),
    [
        (view(4, "589"), 6, "the manifest of epoch 7 is missing"),
        (view(0, "3"), 0, "the manifest of epoch 1 is missing"),
        (view(4, "56", "567"), 5, "the manifest of epoch 7 is missing, while marks of epoch 7 are there"),
        (view(4, "56", "8"), 5, "the manifest of epoch 7 is missing, while marks of epoch 8 are there"),
        (view(0, "", "1"), 0, "the manifest of epoch 1 is missing, while marks of epoch 1 are there"),
        (view(4, ""), 0, "its floor is 4, but every manifest above it is missing"),
    ],
)
def test_a_log_that_lacks_what_it_needs_is_damaged(found: LogView, settled: int, reason: str) -> None:
    with pytest.raises(LogDamaged) as told:
        require_whole("/log", found, Epoch(settled))
    assert (told.value.file, told.value.reason) == ("/log", reason)


def test_a_manifest_of_another_log_is_damage_that_names_both_uids() -> None:
    require_own("/log/1.json", small(1), "0a1b2c3d")
    with pytest.raises(LogDamaged, match=r"/log/1\.json .*uid is 0a1b2c3d, this log's is ffff"):
        require_own("/log/1.json", small(1), "ffff")
