"""The recorded run that ships with the package."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from hermes_agent.demo.data import demo_fixed_run, demo_run

LIMIT_BYTES = 1_500_000
PRIVATE = re.compile(
    r"/(home|root|tmp|work|users|var|opt|usr|mnt|data)/|host_name|traceName|\b\d+\.\d+\.\d+\.\d+\b", re.I
)
LABELS = re.compile(r"slow_data|heavy_transform|straggler|\bfault|slow_loader|raw_images", re.I)
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def events(folder: Path, rank: int) -> list[dict[str, Any]]:
    trace = json.loads(gzip.decompress((folder / f"rank{rank}.pt.trace.json.gz").read_bytes()))
    assert trace["distributedInfo"]["rank"] == rank
    found: list[dict[str, Any]] = trace["traceEvents"]
    return found


def longest_ms(found: list[dict[str, Any]], name: str) -> float:
    return max(float(event["dur"]) for event in found if event["name"] == name) / 1e3


def texts(folder: Path) -> dict[str, str]:
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {name: (gzip.decompress(data) if name.endswith(".gz") else data).decode() for name, data in contents.items()}


@pytest.mark.parametrize("folder", [demo_run(), demo_fixed_run()], ids=["slow", "fixed"])
def test_each_run_holds_the_same_eight_files(folder: Path) -> None:
    per_rank = [name for rank in (0, 1) for name in (f"rank{rank}.pt.trace.json.gz", f"steps_rank{rank}.jsonl")]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*per_rank, "run.json", "measured.json"])


def test_the_bundle_is_small() -> None:
    sizes = [path.stat().st_size for path in demo_run().parent.rglob("*") if path.suffix != ".pyc"]
    assert 100_000 < sum(sizes) < LIMIT_BYTES


@pytest.mark.parametrize("folder", [demo_run(), demo_fixed_run()], ids=["slow", "fixed"])
def test_nothing_recorded_names_a_machine_a_path_or_the_answer(folder: Path) -> None:
    for name, text in texts(folder).items():
        assert PRIVATE.search(text) is None, name
        assert LABELS.search(text) is None, name


def test_only_rank_1_of_the_slow_run_waits_for_its_loader() -> None:
    slow, fixed = demo_run(), demo_fixed_run()
    assert longest_ms(events(slow, 1), LOADER) > 20
    assert max(longest_ms(events(slow, 0), LOADER), *(longest_ms(events(fixed, rank), LOADER) for rank in (0, 1))) < 5


def test_every_trace_holds_the_profiled_steps_that_run_json_names() -> None:
    for folder in (demo_run(), demo_fixed_run()):
        first, last = json.loads((folder / "run.json").read_text())["profiled_steps"]
        for rank in (0, 1):
            names = [event["name"] for event in events(folder, rank)]
            steps = sorted(int(name.split("#")[1]) for name in names if name.startswith("ProfilerStep#"))
            assert steps == list(range(first, last + 1))


def test_the_fix_made_the_steps_at_least_1_3_times_faster_with_the_same_loss() -> None:
    measured = json.loads((demo_run().parent / "measured.json").read_text())
    assert measured["speedup"]["low"] > 1.3
    assert measured["last_loss"]["slow"] == measured["last_loss"]["fixed"]


@pytest.mark.parametrize("folder", [demo_run(), demo_fixed_run()], ids=["slow", "fixed"])
def test_the_profiled_steps_are_like_the_measured_ones(folder: Path) -> None:
    first, last = json.loads((folder / "run.json").read_text())["profiled_steps"]
    measured_ms = json.loads((folder / "measured.json").read_text())["step_ms"]["median"]
    log = [json.loads(line) for line in (folder / "steps_rank0.jsonl").read_text().splitlines()]
    profiled_ms = median(row["wall_ms"] for row in log if first <= row["step"] <= last)
    assert profiled_ms == pytest.approx(measured_ms, rel=0.25)
