from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from evals.synthetic.faults import FAULTS
from evals.synthetic.generate import fixed_step_ms, generate
from evals.synthetic.host_faults import RECORDED_FRAME_US
from evals.synthetic.spec import FaultSpec, SyntheticSpec
from tools.errors import UsageError
from tools.run.events import EventKind
from tools.sources.load import load_run

SMALL = SyntheticSpec(ranks=2, steps=2, layers=1, seed=5)


def _events(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return events


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    first, again = (generate(SMALL, tmp_path / name).paths[0].read_bytes() for name in ("a", "b"))
    other = generate(SMALL.model_copy(update={"seed": 6}), tmp_path / "c").paths[0].read_bytes()
    assert first == again
    assert first != other


def test_the_reader_takes_every_rank_step_and_device_event(tmp_path: Path) -> None:
    made = generate(SMALL, tmp_path)
    run = load_run((tmp_path,))
    assert run.rank_numbers == (0, 1)
    assert [step.number for step in run.rank(0).steps] == [10, 11]
    wanted = sum(event.get("cat") == "kernel" for event in _events(made.paths[0]))
    assert len(run.rank(0).events.of_kind(EventKind.KERNEL)) == wanted
    assert wanted > 50


def test_a_collective_ends_together_and_lasts_longest_on_the_rank_that_came_first(tmp_path: Path) -> None:
    spec = SMALL.model_copy(update={"faults": (FaultSpec(kind="slow_device", strength=0.5, ranks=(1,)),)})
    ends, lasted = [], []
    for path in generate(spec, tmp_path).paths:
        collectives = [event for event in _events(path) if "AllReduce" in event["name"]]
        ends.append([round(event["ts"] + event["dur"], 1) for event in collectives])
        lasted.append(sum(event["dur"] for event in collectives))
    assert ends[0] == ends[1]
    assert lasted[0] > 2 * lasted[1]


def test_work_of_one_stream_never_overlaps(tmp_path: Path) -> None:
    events = [e for e in _events(generate(SMALL, tmp_path).paths[0]) if e.get("args", {}).get("stream") == 7]
    spans = sorted((event["ts"], event["ts"] + event["dur"]) for event in events)
    assert all(begin >= end - 0.002 for (_, end), (begin, _) in pairwise(spans))


def _fault(kind: str) -> dict[str, Any]:
    uneven = kind in ("slow_device", "hot_expert", "heavy_stage")
    return {"kind": kind, "strength": 0.4, "ranks": [1] if uneven else None}


@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_every_fault_makes_the_run_slower_than_its_mended_twin(kind: str, tmp_path: Path) -> None:
    template = {"hot_expert": "mixture", "heavy_stage": "pipeline", "few_micro_batches": "pipeline"}.get(
        kind, "transformer"
    )
    small = {"tokens": 512} if kind == "profiler_stacks" else {}  # it writes a frame for every 0.2 us of host time
    spec = SyntheticSpec.model_validate(
        {"template": template, "ranks": 2, "steps": 3, "layers": 2, "faults": [_fault(kind)], **small}
    )
    assert generate(spec, tmp_path).step_ms > 1.02 * fixed_step_ms(spec)


def test_operators_of_one_thread_lie_inside_each_other_or_apart(tmp_path: Path) -> None:
    events = [e for e in _events(generate(SMALL, tmp_path).paths[0]) if e.get("cat") == "cpu_op"]
    for thread in {event["tid"] for event in events}:
        open_ends: list[float] = []
        spans = sorted((e["ts"], -e["ts"] - e["dur"]) for e in events if e["tid"] == thread)
        for begin, negated_end in spans:
            while open_ends and open_ends[-1] <= begin + 0.002:
                open_ends.pop()
            assert not open_ends or -negated_end <= open_ends[-1] + 0.002
            open_ends.append(-negated_end)


def test_recording_frames_costs_what_is_known_of_a_frame(tmp_path: Path) -> None:
    fault = FaultSpec(kind="profiler_stacks", strength=0.2)
    made = generate(SMALL.model_copy(update={"tokens": 1024, "faults": (fault,)}), tmp_path).paths[0]
    frames = [e for e in _events(made) if e["name"].startswith("model.py(")]
    calls = [e for e in _events(made) if e["name"].endswith("_call_impl")]
    assert sum(event["dur"] for event in calls) / len(frames) == pytest.approx(RECORDED_FRAME_US, rel=0.05)


def test_the_batch_can_be_smaller_for_transformers_only() -> None:
    few = SMALL.model_copy(update={"tokens": 1024})
    assert fixed_step_ms(few) < 0.5 * fixed_step_ms(SMALL)
    with pytest.raises(ValueError, match="transformer only"):
        SyntheticSpec(template="convolution", tokens=1024)


def test_mending_the_type_of_an_operator_does_not_take_it_away(tmp_path: Path) -> None:
    fault = FaultSpec(kind="double_precision", strength=0.5)
    spec = SMALL.model_copy(update={"faults": (fault,)})
    wide, fixed = (
        [e["dur"] for e in _events(generate(made, tmp_path / name).paths[0]) if "MulFunctor" in e["name"]]
        for name, made in (("wide", spec), ("fixed", spec.without_faults()))
    )
    assert len(wide) == len(fixed) > 0
    assert sum(fixed) == pytest.approx(sum(wide) / 4, rel=0.03), "two bytes in place of eight, and the kernel's start"


def test_what_is_omitted_is_not_written(tmp_path: Path) -> None:
    path = generate(SMALL.model_copy(update={"omit": ("device", "step_marks")}), tmp_path).paths[0]
    categories = {event.get("cat") for event in _events(path)}
    assert "kernel" not in categories
    assert "cpu_op" in categories
    assert not any(event["name"].startswith("ProfilerStep") for event in _events(path))


def test_only_the_traced_ranks_are_written(tmp_path: Path) -> None:
    made = generate(SMALL.model_copy(update={"traced_ranks": (1,)}), tmp_path)
    assert [path.name for path in made.paths] == ["rank1.pt.trace.json.gz"]


def test_an_unknown_fault_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="slow_device"):
        generate(SMALL.model_copy(update={"faults": (FaultSpec(kind="gremlins"),)}), tmp_path)


def test_a_fault_on_a_rank_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="not all among the 2 ranks"):
        SyntheticSpec(ranks=2, faults=(FaultSpec(kind="slow_device", ranks=(2,)),))
