"""XProf recordings: devices as ranks, host threads, steps, clocks; damaged files."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.real_runs import real_profile
from tests.tools.sources.jax.planes import START_NS, Event, PlaneText, environment, number, part, two_devices
from tools.errors import InputError
from tools.judgement.lead import in_terms_of_run
from tools.judgement.ranking import ranking
from tools.run.kinds import EventKind
from tools.sources.jax.reader import read_xplane
from tools.sources.jax.source import XPLANE
from tools.sources.load import LoadOptions, load_run
from tools.sources.trace_file import TraceFile
from tools.sources.wire import fields
from tools.views.profile import Profile


def written(folder: Path, data: bytes, name: str = "node7.xplane.pb") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def read_or_refused(path: Path) -> TraceFile | None:
    """The trace; None where one sentence that names the file says why there is none."""
    try:
        return read_xplane(path, "", LoadOptions())
    except InputError as error:
        if path.name not in str(error) or "\n" in str(error):
            raise
        return None


def test_each_device_is_a_rank_with_its_own_launches(tmp_path: Path) -> None:
    run = load_run([written(tmp_path, two_devices(), "unnamed")])
    assert run.rank_numbers == (0, 1)
    assert run.origin_unix_ns == START_NS
    for rank in run.ranks:
        frame = rank.events.frame
        kernels, calls = frame[frame["kind"] == EventKind.KERNEL], frame[frame["kind"] == EventKind.RUNTIME]
        assert set(kernels["correlation"]) == set(calls["correlation"])
        assert (rank.host, rank.devices[0].name, rank.devices[0].multiprocessors) == ("node7", "Nvidia GPU", 132)
        assert (
            rank.events.details.kernels[["blocks", "threads", "registers"]].to_numpy().tolist() == [[32, 256, 40]] * 2
        )
        assert "train.py(12): step" in set(frame["name"])


def test_copies_of_older_recordings_are_known_by_their_name_or_their_lane(tmp_path: Path) -> None:
    plane = PlaneText("/device:GPU:0").line(7, "Stream #7(Compute)", 0, ("CopyHostToDevice", 10.0, 5.0, {}))
    plane.line(8, "Stream #8(MemcpyOther)", 0, ("CopyDeviceToDevice", 20.0, 5.0, {}), ("P2P copy", 30.0, 5.0, {}))
    (rank,) = load_run([written(tmp_path, environment() + plane.message())]).ranks
    frame = rank.events.frame
    assert (frame["kind"] == EventKind.MEMCPY).all()
    assert list(frame["name"]) == ["Memcpy HtoD", "Memcpy DtoD", "P2P copy"]


def test_steps_are_those_that_the_program_marks_with_their_numbers(tmp_path: Path) -> None:
    profile = Profile(load_run([written(tmp_path, two_devices())]))
    assert [step.number for step in profile.run.ranks[0].steps] == [5, 6]
    for rank, compute_us in ((0, 300.0), (1, 600.0)):
        own = profile.breakdown[profile.breakdown["rank"] == rank]
        parts = own[["wall_ns", "compute_ns", "exposed_communication_ns"]].to_numpy() / 1e3
        assert parts.tolist() == [pytest.approx([1000.0, compute_us, 100.0])] * 2


def test_calls_of_one_jitted_function_are_the_steps_where_none_are_marked(tmp_path: Path) -> None:
    """Each call is recorded twice, one inside of the other."""
    calls: list[Event] = [
        ("PjitFunction(step_3d)", 1000.0 * at + less, 900.0 - 2 * less, {}) for at in range(3) for less in (0.0, 5.0)
    ]
    host = PlaneText("/host:CPU").line(1, "python", 0, *calls)
    run = load_run([written(tmp_path, host.message() + environment())])
    assert [step.number for step in run.ranks[0].steps] == [0, 1, 2]
    assert [step.wall_ns for step in run.ranks[0].steps] == [1_000_000, 1_000_000, 900_000]
    assert not run.has_device


def test_what_to_record_is_named_as_jax_names_it(tmp_path: Path) -> None:
    profile = Profile(load_run([written(tmp_path, two_devices())]))
    of_torch = "a `record_function` span around fetching the batch, or the same steps with `with_stack=True`"
    said = in_terms_of_run(profile, of_torch)
    assert said.startswith("a `jax.profiler.TraceAnnotation` span around fetching the batch")
    assert "with_stack" not in said
    judged = ranking(profile)
    assert "record_function" not in " ".join([judged.needs, *(each.decide_by for each in judged.leads)])


def test_a_tpu_has_its_operations_its_steps_and_collectives(tmp_path: Path) -> None:
    plane = PlaneText("/device:TPU:0").fact("device_type_string", "TPU v5e")
    plane.line(1, "Steps", 0, ("3", 0.0, 500.0, {}), ("4", 500.0, 500.0, {}))
    plane.line(2, "XLA Modules", 0, ("jit_step(1)", 0.0, 1000.0, {}))
    operations: list[Event] = [
        (name, 500.0 * at + begin, lasted, {})
        for at in range(2)
        for name, begin, lasted in (("fusion.1", 0.0, 200.0), ("all-reduce.7", 250.0, 50.0))
    ]
    plane.line(3, "XLA Ops", 0, *operations)
    profile = Profile(load_run([written(tmp_path, plane.message() + environment())]))
    assert [device.name for device in profile.run.ranks[0].devices] == ["TPU v5e"]
    assert [step.number for step in profile.run.ranks[0].steps] == [3, 4]
    row = profile.breakdown.iloc[0] / 1e3
    assert (row["compute_ns"], row["exposed_communication_ns"]) == pytest.approx((200.0, 50.0))


def test_the_chrome_trace_next_to_it_is_no_second_recording(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "profile" / "2026_01_01"
    folder.mkdir(parents=True)
    written(folder, two_devices())
    (folder / "node7.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
    run = load_run([tmp_path])
    assert [source.format for source in run.sources] == ["xplane"]
    assert any("node7.trace.json.gz" in note for note in run.notes)


def test_a_file_cut_at_any_byte_or_without_events_is_one_sentence(tmp_path: Path) -> None:
    whole = two_devices()
    path = written(tmp_path, whole)
    for end in range(0, len(whole), 31):
        path.write_bytes(whole[:end])
        trace = read_or_refused(path)  # what ends with a whole plane is a recording of fewer planes
        assert trace is None or len(trace.table)
    path.write_bytes(environment())
    with pytest.raises(InputError, match="without a single event"):
        read_xplane(path, "", LoadOptions())


@settings(max_examples=80, deadline=None)
@given(place=st.integers(0, len(two_devices()) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_gives_a_recording_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int
) -> None:
    data = bytearray(two_devices())
    data[place] = byte
    path = written(tmp_path_factory.mktemp("changed"), bytes(data))
    trace = read_or_refused(path)
    assert trace is None or (trace.table.frame["end_ns"] >= trace.table.frame["start_ns"]).all()


def test_recognised_by_its_first_plane_alone() -> None:
    assert XPLANE.recognises(two_devices()[:64])
    assert XPLANE.recognises(part(1, number(1, 300) + part(2, "/host:CPU") + bytes(300))[:64])
    assert not XPLANE.recognises(b'{"traceEvents": []}')
    assert not XPLANE.recognises(b"\n\n  text of a log /host:CPU")


def test_the_recorded_mi300_run_has_the_kernel_times_of_the_file(traces: Path) -> None:
    """Kernel time by device, added up from the file a second way: every event of the stream lines."""
    path = traces / "jax" / "mi300_conv_tw003.xplane.pb.gz"
    lasted: dict[str, int] = {}
    for key, plane in fields(memoryview(gzip.decompress(path.read_bytes()))):
        if key != 1:
            continue
        own = [(k, bytes(v) if isinstance(v, memoryview) else v) for k, v in fields(plane)]  # type: ignore[type-var]
        name = next(str(v, "utf-8") for k, v in own if k == 2 and isinstance(v, bytes))
        for line in (memoryview(v) for k, v in own if k == 3 and isinstance(v, bytes) and "GPU" in name):
            for inner, event in fields(line):
                if inner == 4:
                    taken = [v for k, v in fields(event) if k == 3]  # type: ignore[type-var]
                    lasted[name] = lasted.get(name, 0) + sum(each for each in taken if isinstance(each, int))
    profile = real_profile(path)
    assert len(profile.run.ranks) == len(lasted) == 8
    assert {rank.step_origin for rank in profile.run.ranks} == {"window"}  # five runs of 3 to 60 ms are no steps
    for rank in profile.run.ranks:
        frame = rank.events.frame[rank.events.frame["kind"] == EventKind.KERNEL]
        total_ns = int((frame["end_ns"] - frame["start_ns"]).sum())
        assert total_ns == pytest.approx(lasted[f"/device:GPU:{rank.rank}"] / 1000, abs=len(frame))
        assert np.isin(frame["correlation"], rank.events.frame["correlation"]).all()


def test_a_long_name_of_many_steps_is_held_once(tmp_path: Path) -> None:
    """20,000 events of 4,096 characters: 330 MB where each row of an array holds its own."""
    name = part(4, number(1, 0) + part(2, number(1, 0) + part(2, "y" * 4096)))
    steps = part(3, number(1, 1) + part(2, "Steps") + number(3, START_NS) + part(4, number(3, 1000)) * 20_000)
    path = written(tmp_path, part(1, part(2, "/device:TPU:0") + steps + name))
    tracemalloc.start()
    try:
        assert read_or_refused(path) is None
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
