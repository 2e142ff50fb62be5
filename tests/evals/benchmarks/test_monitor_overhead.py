from __future__ import annotations

import pytest

from evals.benchmarks.monitor_overhead import Block, Found, measured, table


def test_the_monitors_own_thread_is_added_to_the_difference_of_the_pairs() -> None:
    pairs = [(Block(80_000.0 + noise, 60_000.0), Block(80_020.0 + noise, 60_012.0)) for noise in (0.0, 700.0, 1400.0)]
    lines = table(Found(pairs, 8.0)).splitlines()
    rows = {name.strip(): rest for _, name, *rest, _ in (line.split("|") for line in lines if line.startswith("| "))}
    wall = rows["wall time, and CPU of the monitor's thread"]
    assert [each.strip() for each in rows["wall time"]] == [
        "80.70",
        "+20.0 (+20.0 to +20.0)",
        "+0.025 (+0.025 to +0.025)",
    ]
    assert [each.strip() for each in wall] == ["80.70", "+28.0 (+28.0 to +28.0)", "+0.035 (+0.035 to +0.035)"]
    assert rows["CPU of the training thread"][1].strip() == "+12.0 (+12.0 to +12.0)"


def test_a_short_measurement_gives_pairs_and_the_cpu_of_the_monitors_thread() -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra `lab`)")
    found = measured(batch=4, block=2, minutes=0.03)
    assert len(found.pairs) > 10
    assert all(block.wall_us > 0 and block.cpu_us > 0 for pair in found.pairs for block in pair)
    longest_us = max(block.wall_us for pair in found.pairs for block in pair)
    assert 0 < found.own_us < longest_us  # one thread computes no longer than time passes
