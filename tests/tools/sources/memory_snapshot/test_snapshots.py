"""Snapshots of PyTorch's allocator: sizes counted by hand, churn, fragmentation, damaged and hostile pickles."""

from __future__ import annotations

import gzip
import pickle
import pickletools
from pathlib import Path
from typing import Any

import pytest

from tests.real_runs import real_profile
from tools.analyzers.registry import check_of
from tools.errors import InputError
from tools.findings import Check
from tools.metrics.recorded.memory_snapshots import UNKNOWN, peak_frames
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.sources.memory_snapshot.reader import read_snapshots
from tools.sources.memory_snapshot.source import MEMORY_SNAPSHOT
from tools.views.profile import Profile

MIB = 1 << 20
STACK = [
    {"name": "empty", "filename": "??", "line": 0},
    {"name": "linear", "filename": "/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py", "line": 9},
    {"name": "forward", "filename": "/home/u/model.py", "line": 22},
    {"name": "main", "filename": "/home/u/train.py", "line": 5},
]


def block(address: int, size: int, state: str = "active_allocated", frames: object = None) -> dict[str, Any]:
    requested = size if state == "inactive" else size - 100
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": frames or []}


def event(action: str, size: int, addr: int, frames: object = None) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": addr, "frames": frames or []}


def snapshot(segments: list[list[dict[str, Any]]], *events: dict[str, Any]) -> dict[str, Any]:
    own = [
        {"device": 0, "address": 0, "total_size": sum(each["size"] for each in blocks), "blocks": blocks}
        for blocks in segments
    ]
    return {"segments": own, "device_traces": [list(events)], "allocator_settings": {"expandable_segments": False}}


def written(path: Path, content: object, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


def profile_of(path: Path) -> Profile:
    return Profile(load_run([path]))


def sizes(profile: Profile) -> dict[str, float]:
    figures = ("allocated", "reserved", "peak_allocated", "peak_reserved", "unused_in_segments")
    return {each: measure(profile, "snapshot_bytes", figure=each).value for each in figures}


def answer(profile: Profile) -> Check:
    found = check_of(profile, "memory.snapshot")
    assert found is not None
    return found


def test_sizes_before_the_oldest_event_follow_from_the_blocks_at_the_end(tmp_path: Path) -> None:
    """10 and 4 MiB are live at the end, 10 of them from before the first event; 6 MiB came and went."""
    segments = [[block(1, 10 * MIB), block(2, 2 * MIB, "inactive")], [block(3, 4 * MIB, frames=STACK)]]
    events = (
        event("alloc", 6 * MIB, 9, STACK),
        event("free_requested", 6 * MIB, 9),
        event("free_completed", 6 * MIB, 9),
        event("segment_alloc", 4 * MIB, 3),
        event("alloc", 4 * MIB - 100, 3, STACK),
    )
    profile = profile_of(written(tmp_path / "memory_rank5.bin", snapshot(segments, *events)))
    assert profile.run.snapshots[0].rank == 5
    live = 14 * MIB - 200
    assert sizes(profile) == {
        **{"allocated": live, "reserved": 16 * MIB, "peak_allocated": 10 * MIB - 100 + 6 * MIB},
        **{"peak_reserved": 16 * MIB, "unused_in_segments": 2 * MIB},
    }
    assert measure(profile, "fragmented_pct").value == pytest.approx(12.5)
    assert peak_frames(profile)[["name", "bytes"]].to_numpy().tolist() == [
        [UNKNOWN, 10 * MIB - 100],
        ["forward (/home/u/model.py:22)", 6 * MIB],
    ]
    assert answer(profile).findings == ()


def test_memory_that_is_returned_and_reserved_again_is_found(tmp_path: Path) -> None:
    events = [event("segment_alloc", MIB, 1)]
    for _ in range(12):
        events += [event("segment_free", MIB, 1), event("segment_alloc", MIB, 1)]
    profile = profile_of(written(tmp_path / "a.pickle", snapshot([[block(1, MIB)]], *events)))
    (finding,) = answer(profile).findings
    assert (finding.cause, finding.mechanism) == ("memory_pressure", "allocator_retry")
    assert finding.claim.facts[0].value == 12.0
    growing = snapshot([[block(1, MIB)]], *(event("segment_alloc", MIB, at) for at in range(50)))
    assert answer(profile_of(written(tmp_path / "b.pickle", growing))).findings == ()


EMPTY_CACHE = [
    {"name": "THCPModule_emptyCache(_object*, _object*)", "filename": "??", "line": 0},
    {"name": "empty_cache", "filename": "/opt/venv/lib/python3.11/site-packages/torch/cuda/memory.py", "line": 9},
    {"name": "main", "filename": "/home/u/train.py", "line": 5},
]


@pytest.mark.parametrize("stack", [EMPTY_CACHE, None])
def test_memory_that_is_returned_once_and_grows_again_is_no_retry(tmp_path: Path, stack: object) -> None:
    freed = [event("segment_free", MIB, at, stack) for at in range(40)]
    grown = [event("segment_alloc", MIB, at) for at in range(80)]
    profile = profile_of(written(tmp_path / "a.pickle", snapshot([[block(1, MIB)]], *freed, *grown)))
    assert answer(profile).findings == ()
    said = [each.template for each in answer(profile).support]
    assert any("are of `torch.cuda.empty_cache()` in the program" in each for each in said) == (stack is not None)


def test_memory_that_the_program_returns_in_every_step_is_no_retry_of_the_allocator(tmp_path: Path) -> None:
    events = [event("segment_alloc", MIB, 1)]
    for _ in range(30):
        events += [event("segment_free", MIB, 1, EMPTY_CACHE), event("segment_alloc", MIB, 1)]
    profile = profile_of(written(tmp_path / "a.pickle", snapshot([[block(1, MIB)]], *events)))
    assert measure(profile, "segment_calls", call="return_by_program").value == 30.0
    assert answer(profile).findings == ()


def test_memory_at_the_peak_is_named_by_a_frame_of_python_or_by_none(tmp_path: Path) -> None:
    native = [{"name": "torch::unwind::unwind()", "filename": "??", "line": 0}]
    blocks = [block(1, 3 * MIB, frames=native), block(2, 2 * MIB, frames=[*native, *STACK[2:]])]
    profile = profile_of(written(tmp_path / "a.pickle", snapshot([blocks])))
    assert peak_frames(profile)["name"].tolist() == ["no Python frame", "forward (/home/u/model.py:22)"]
    (said,) = [each.template for each in answer(profile).support if "At the peak" in each.template]
    assert said.startswith("At the peak: {0} of which the stack holds no Python frame, as in a backward pass, {1} in")


def test_free_parts_of_used_segments_are_a_hypothesis_only(tmp_path: Path) -> None:
    held = [[block(1, MIB), block(2, MIB, "inactive")], [block(3, 2 * MIB, "inactive")]]
    profile = profile_of(written(tmp_path / "a.pickle", snapshot(held)))
    (finding,) = answer(profile).findings
    assert (finding.mechanism, finding.claim.facts[0].value) == ("fragmentation", 25.0)
    assert finding.confidence <= 0.45


def test_the_recorded_snapshot_agrees_with_its_pickle(traces: Path) -> None:
    path = traces / "memory" / "torch_snapshot_ctx128_forward.pickle.gz"
    raw = gzip.decompress(path.read_bytes())
    assert not any(each.name in ("GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD") for each, _, _ in pickletools.genops(raw))
    said = pickle.loads(raw)
    profile = real_profile(path)
    blocks = [each for segment in said["segments"] for each in segment["blocks"]]
    live = sum(each["requested_size"] for each in blocks if each["state"] == "active_allocated")
    found = sizes(profile)
    assert found["reserved"] == sum(each["total_size"] for each in said["segments"]) == 19_667_091_456
    assert found["allocated"] == found["peak_allocated"] == live  # it only grows
    calls = {each: measure(profile, "segment_calls", call=each).value for each in ("reserve", "return")}
    assert calls == {"reserve": 289.0, "return": 0.0}
    assert peak_frames(profile)["bytes"].sum() == live


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("called",)


def test_a_pickle_that_calls_something_is_refused_unread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "bad.pickle", {"segments": Harmful(), "device_traces": []})
    with pytest.raises(InputError, match=r"bad\.pickle.*STACK_GLOBAL"):
        load_run([path])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "content",
    [
        {"segments": 5, "device_traces": []},
        {"segments": [], "device_traces": []},
        {"segments": [{"device": 0, "blocks": [{"size": -4, "state": "inactive"}]}]},
        {"segments": [{"device": 0, "blocks": [{"size": 1 << 70, "state": "inactive"}]}]},
    ],
)
def test_impossible_content_is_one_sentence(tmp_path: Path, content: object) -> None:
    with pytest.raises(InputError, match=r"odd\.pickle"):
        load_run([written(tmp_path / "odd.pickle", content)])


def test_a_file_cut_anywhere_is_one_sentence(tmp_path: Path) -> None:
    whole = pickle.dumps(snapshot([[block(1, MIB, frames=STACK)]], event("alloc", MIB, 1, STACK)))
    path = tmp_path / "cut.pickle"
    for end in range(40, len(whole) - 1, 17):
        path.write_bytes(whole[:end])
        assert MEMORY_SNAPSHOT.recognises is not None
        assert MEMORY_SNAPSHOT.recognises(path)
        with pytest.raises(InputError, match=r"cut\.pickle"):
            load_run([path])


def test_lists_that_a_pickle_repeats_are_counted_before_they_are_read(tmp_path: Path) -> None:
    """13 kB that stand for nine million events."""
    traced = [event("alloc", 1, 1)] * 3000
    path = written(tmp_path / "snapshot.pickle", {"segments": [], "device_traces": [traced] * 3000})
    with pytest.raises(InputError, match="more than 4,194,304 blocks and events"):
        read_snapshots(path)


def test_names_and_settings_that_are_lists_are_not_written_out(tmp_path: Path) -> None:
    """A list of lists, each the one before twice: its text would have 2^60 parts."""
    deep: list[object] = []
    for _ in range(60):
        deep = [deep, deep]
    frames = [{"name": deep, "filename": deep, "line": 1}]
    content = snapshot([[block(0, 8, frames=frames)]])
    content["allocator_settings"] = {"deep": deep, "expandable_segments": True}
    (found,) = read_snapshots(written(tmp_path / "snapshot.pickle", content))
    assert found.settings == {"expandable_segments": "True"}
    assert found.frames == (" (:1)",)


def test_the_frames_at_the_peak_sum_up_to_it(tmp_path: Path) -> None:
    """Of 100 + 30 B at the begin the larger block is freed, then its address serves a smaller one."""
    events = (event("free_completed", 100, 0), event("alloc", 20, 0), event("free_completed", 20, 0))
    content = snapshot([[block(0, 100, "inactive"), block(512, 30)]], *events)
    profile = profile_of(written(tmp_path / "snapshot.pickle", content))
    assert sizes(profile)["peak_allocated"] == 130.0
    assert peak_frames(profile)["bytes"].tolist() == [130]
