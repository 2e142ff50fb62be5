"""Allocations of an export give the memory that a process takes from its device, and nothing where they are absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.nsys.export import Export, training
from tools.analyzers.registry import all_checks
from tools.errors import UsageError
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.sources.options import LoadOptions
from tools.views.profile import Profile

GIB = 1 << 30


def profiled(path: Path, export: Export) -> Profile:
    return Profile(load_run([export.write(path / "a.sqlite")], LoadOptions(workers=1)))


def peak_mib(profile: Profile, rank: int) -> float:
    return measure(profile, "memory_peak_mib", rank=rank, what="reserved").value


def allocating() -> Export:
    """Device 0: 10, 30, 20, then 25 GiB; device 1: 5 GiB. Host memory of 64 GiB counts on no device."""
    export = training()
    export.memory(500, 0, 100, 10 * GIB)
    export.memory(500, 0, 1200, 20 * GIB)
    export.memory(500, 0, 1700, 10 * GIB, freed=True)
    export.memory(500, 0, 2100, 5 * GIB)
    export.memory(500, 0, 2200, 64 * GIB, kind=1)
    export.memory(501, 1, 300, 5 * GIB)
    return export


def test_the_peak_is_the_largest_total_of_a_device(tmp_path: Path) -> None:
    profile = profiled(tmp_path, allocating())
    assert peak_mib(profile, 0) == 30 * 1024
    assert peak_mib(profile, 1) == 5 * 1024


def test_totals_stand_at_each_mark(tmp_path: Path) -> None:
    marks = profiled(tmp_path, allocating()).rank(0).events.details.memory
    assert (marks["total_reserved"] // GIB).tolist() == [10, 30, 20, 25]
    assert (marks["bytes"] // GIB).tolist() == [10, 20, -10, 5]


def test_what_of_the_memory_is_in_use_stays_unknown(tmp_path: Path) -> None:
    profile = profiled(tmp_path, allocating())
    for metric, arguments in (("memory_peak_mib", {"what": "allocated"}), ("memory_unused_pct", {})):
        with pytest.raises(UsageError, match="not what of it was in use"):
            measure(profile, metric, rank=0, **arguments)


def test_the_check_cites_the_peak_and_the_size_of_the_device(tmp_path: Path) -> None:
    profile = profiled(tmp_path, allocating())
    (check,) = (each for each in all_checks(profile) if each.name == "memory.peak")
    values = [fact.value for sentence in check.support for fact in sentence.facts]
    assert (check.status, values) == ("clean", [30 * 1024, pytest.approx(100 * 30 / 80)])
    assert "before the recording" in profile.run.sources[0].note


def test_totals_are_unknown_where_more_is_freed_than_was_seen_allocated(tmp_path: Path) -> None:
    export = training()
    export.memory(500, 0, 100, 1 * GIB)
    export.memory(500, 0, 200, 2 * GIB, freed=True)
    with pytest.raises(UsageError, match="no device memory totals"):
        peak_mib(profiled(tmp_path, export), 0)


def test_an_export_without_the_table_says_nothing_of_memory(tmp_path: Path) -> None:
    profile = profiled(tmp_path, training())
    assert "before the recording" not in profile.run.sources[0].note
    with pytest.raises(UsageError, match="no device memory totals"):
        peak_mib(profile, 0)
