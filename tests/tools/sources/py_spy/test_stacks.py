"""Stacks of py-spy: its four forms, ranks, training threads, what they answer, and damaged files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.real_runs import real_profile
from tests.tools.sources.job_log.logs import megatron
from tools.analyzers.registry import check_of
from tools.errors import InputError
from tools.findings import Check
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.sources.py_spy.reader import read_stacks
from tools.sources.py_spy.recognise import form_of
from tools.views.profile import Profile

DATA = (
    "<module> (train.py:80)",
    "main (/home/u/train.py:70)",
    "__next__ (/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py:630)",
    "decode (/home/u/images.py:12)",
)
STEP = ("<module> (train.py:80)", "main (/home/u/train.py:72)", "linear (torch/nn/functional.py:9)")


def speedscope(*stacks: tuple[tuple[str, ...], int], thread: str = 'Thread 0x7F "MainThread"') -> str:
    """Samples of 10 ms each."""
    names = sorted({frame for stack, _ in stacks for frame in stack})
    frames = []
    for name in names:
        function, _, place = name.removesuffix(")").partition(" (")
        file, _, line = place.rpartition(":")
        frames.append({"name": function, "file": file, "line": int(line), "col": None})
    samples = [[names.index(frame) for frame in stack] for stack, count in stacks for _ in range(count)]
    own = {"type": "sampled", "name": thread, "unit": "seconds", "startValue": 0.0, "endValue": 0.01 * len(samples)}
    profile: dict[str, Any] = {**own, "samples": samples, "weights": [0.01] * len(samples)}
    head = {"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": [profile]}
    return json.dumps({**head, "shared": {"frames": frames}, "activeProfileIndex": None, "exporter": "py-spy@0.4.2"})


def dump(pid: int, *frames: str) -> str:
    """One thread, innermost frame first, and a worker of the data loader in a process of its own."""
    lines = [f"Process {pid}: python train.py", "Python v3.11.9 (/usr/bin/python3.11)", ""]
    lines += [f'Thread {pid} (active+gil): "MainThread"', *(f"    {frame}" for frame in frames), ""]
    return "\n".join(lines)


def answer(profile: Profile, name: str = "cpu.sampled_stacks") -> Check:
    found = check_of(profile, name)
    assert found is not None
    return found


def test_shares_of_the_programs_own_functions_and_of_the_loader(tmp_path: Path) -> None:
    (tmp_path / "stacks_rank3.json").write_text(speedscope((DATA, 90), (STEP, 60)))
    profile = Profile(load_run([tmp_path]))
    assert measure(profile, "stack_samples", rank=3).value == 150.0
    assert measure(profile, "frame_share_pct", name=DATA[-1], rank=3).value == pytest.approx(60.0)
    assert measure(profile, "frame_share_pct", name=STEP[1], rank=3).value == pytest.approx(40.0)
    (finding,) = answer(profile, "cpu.sampled_activity").findings
    assert (finding.cause, finding.ranks, finding.confidence) == ("slow_data_processing", (3,), 0.45)
    assert finding.claim.facts[0].value == pytest.approx(60.0)
    record = profile.run.host_stacks
    assert record is not None
    assert record.rows["seconds"].sum() == pytest.approx(1.5)


def test_folded_stacks_and_dumps_hold_the_same_frames(tmp_path: Path) -> None:
    folded = "\n".join(f"{';'.join(stack)} {count}" for stack, count in ((DATA, 9), (STEP, 6)))
    for name, text in (
        ("a.txt", folded),
        ("b.txt", dump(77, *reversed(DATA))),
        ("c.json", json.dumps([thread(77, DATA), thread(78, STEP, "Thread-2")])),
    ):
        (tmp_path / name).write_text(text)
    first, second, third = (read_stacks(tmp_path / name) for name in ("a.txt", "b.txt", "c.json"))
    assert first.stacks == (DATA, STEP)
    assert first.rows["samples"].tolist() == [9.0, 6.0]
    assert first.rows["seconds"].isna().all()
    assert second.stacks == (DATA,)
    assert second.rows[["pid", "samples"]].to_numpy().tolist() == [[77, 1]]
    assert third.rows["main"].tolist() == [True, False]
    assert third.stacks[0] == DATA


def thread(pid: int, stack: tuple[str, ...], name: str = "MainThread") -> dict[str, Any]:
    frames = []
    for each in reversed(stack):
        function, _, place = each.removesuffix(")").partition(" (")
        file, _, line = place.rpartition(":")
        frames.append({"name": function, "filename": file, "short_filename": file, "line": int(line)})
    own = {"pid": pid, "thread_id": pid, "thread_name": name, "os_thread_id": pid, "active": True, "owns_gil": True}
    return {**own, "frames": frames}


def test_the_one_rank_that_is_elsewhere_is_named(tmp_path: Path) -> None:
    waiting = ("all_reduce (torch/distributed/distributed_c10d.py:9)", "step (/home/u/train.py:5)")
    for rank in range(4):
        frames = waiting if rank != 2 else ("load (/home/u/data.py:7)", "step (/home/u/train.py:4)")
        (tmp_path / f"dump_rank{rank}.txt").write_text(dump(100 + rank, *frames))
    check = answer(Profile(load_run([tmp_path])))
    (said,) = (each for each in check.support if "elsewhere" in each.template)
    assert said.template.startswith("Rank 2 is")
    assert said.names == ("load (/home/u/data.py:7)", "step (train.py:5)")


def test_workers_of_the_loader_are_no_training_threads(tmp_path: Path) -> None:
    worker = ("_worker_loop (torch/utils/data/_utils/worker.py:9)", "decode (/home/u/images.py:12)")
    (tmp_path / "w.json").write_text(speedscope((worker, 200)))
    assert answer(Profile(load_run([tmp_path / "w.json"]))).status == "cannot_answer"


def test_with_a_series_of_steps_samples_stay_a_hypothesis_and_the_log_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(megatron(*((step, 100.0) for step in range(1, 21))))
    (tmp_path / "a.json").write_text(speedscope((DATA, 200)))
    run = load_run([tmp_path])
    assert run.job_log is not None
    assert run.host_stacks is not None


def test_the_recorded_file_has_the_samples_of_its_main_thread(traces: Path) -> None:
    path = traces / "host" / "py_spy.speedscope.json.gz"
    said = json.loads(gzip.decompress(path.read_bytes()))
    (own,) = (each for each in said["profiles"] if "MainThread" in each["name"])
    profile = real_profile(path)
    assert measure(profile, "stack_samples").value == len(own["samples"]) == 3807
    frames = [f"{each['name']} {each['file'].rpartition('/')[2]}:{each['line']}" for each in said["shared"]["frames"]]
    waiting = sum("bpe_encode bpe.py:218" in [frames[at] for at in sample] for sample in own["samples"])
    (share, *_) = answer(profile).support[0].facts[1:]
    assert share.value == pytest.approx(100.0 * waiting / 3807)


@pytest.mark.parametrize(
    "text",
    ['{"traceEvents": []}', "[]", "a log line (of something) 12\nanother 3", "iteration 5 (of 9) 12\nx", ""],
)
def test_other_files_are_none(text: str) -> None:
    assert form_of(text.encode()) is None


def test_a_cut_file_is_one_sentence(tmp_path: Path) -> None:
    whole = speedscope((DATA, 20), (STEP, 5))
    path = tmp_path / "cut.json"
    for end in range(200, len(whole) - 1, 211):
        path.write_text(whole[:end])
        with pytest.raises(InputError, match=r"cut\.json"):
            load_run([path])


def test_a_pasted_dump_shows_a_wait_for_a_batch_or_for_a_collective(tmp_path: Path) -> None:
    loading = """It stopped an hour ago:
Thread (idle): "MainThread"
    get (queue.py:170)
    _try_get_data (torch/utils/data/dataloader.py:1120)
    train (train.py:7)
"""
    gathering = """Thread 0x7F (idle): "MainThread"
    backward (torch/autograd/__init__.py:200)
    train (train.py:9)
Thread 88 (active)
    all_reduce (torch/distributed/distributed_c10d.py:2000)
"""
    for text, holds in ((loading, "batch of its data loader"), (gathering, "Another thread of the process")):
        (tmp_path / "notes.txt").write_text(text)
        check = check_of(Profile(load_run([tmp_path / "notes.txt"])), "cpu.sampled_stacks")
        assert check is not None
        assert holds in check.support[1].template
