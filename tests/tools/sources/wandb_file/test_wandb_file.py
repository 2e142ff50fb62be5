"""W&B run files give the steps, samples and settings that were written into them."""

from __future__ import annotations

import gzip
import statistics
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.fuzz.tracker_files import config, history, message, output, samples, wandb_file, wandb_run
from tests.real_runs import real_profile
from tests.tools.sources.job_log.logs import megatron
from tools.analyzers.registry import check_of
from tools.errors import InputError
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.run.model import Run
from tools.sources.load import load_run
from tools.sources.wandb_file import records
from tools.sources.wandb_file.reader import LONGEST_VALUE, RunRecords, read_wandb
from tools.sources.wandb_file.records import RecordLog
from tools.sources.wire import WireError, fields
from tools.views.profile import Profile

START_S = 1.7e9


def run_of(tmp_path: Path, data: bytes) -> Run:
    path = tmp_path / "any-name"
    path.write_bytes(data)
    return load_run([path])


def records_of(data: bytes) -> list[bytes]:
    return [bytes(record) for _, record in RecordLog((data,))]


def test_steps_are_timed_by_when_they_were_logged(tmp_path: Path) -> None:
    log = run_of(tmp_path, wandb_run()).job_log
    assert log is not None
    assert log.steps["wall_ms"].round(3).tolist() == [500.0] * 29
    assert log.steps["step"].tolist() == list(range(1, 30))
    assert log.step_time == "stamps"
    assert [log.files[at] for at in log.steps["file"].unique()] == ["any-name (history)"]
    # Records of 1 run, then 3 for each step: the history of step n is record 2 + 3 n.
    assert log.steps["line"].tolist() == [2 + 3 * step for step in range(1, 30)]
    assert (log.whole("micro_batch_size"), log.whole("seq_length")) == (4, 2048)


def test_devices_and_machine_are_samples(tmp_path: Path) -> None:
    run = run_of(tmp_path, wandb_run())
    assert run.counters is not None
    table = run.counters.samples
    assert run.counters.hosts == ("node-3",)
    assert table[(table["counter"] == "device_power_w") & (table["device"] == 1)]["value"].tolist() == [91.0] * 30
    assert table[table["counter"] == "cpu_busy_pct"]["value"].tolist() == [20.0] * 30  # the mean of 10 and 30
    assert table["tick"].max() == 29
    assert table["time_unix_ns"].iloc[0] == START_S * 1e9


def test_a_stated_step_time_is_used_and_a_loss_never_is(tmp_path: Path) -> None:
    rows = [
        history({"iteration-time": 0.25, "iteration": at, "loss_time": 9.0, "loss": 5.0, "_timestamp": START_S + at})
        for at in range(20)
    ]
    log = run_of(tmp_path, wandb_file(rows)).job_log
    assert log is not None
    assert (log.steps["wall_ms"].tolist(), log.step_time) == ([250.0] * 20, "unstated")
    rows = [history({"loss": 5.0, "iteration": at}) for at in range(20)]
    with pytest.raises(InputError, match="no steps, no samples"):
        run_of(tmp_path, wandb_file(rows))


def test_nested_keys_and_other_records_of_a_step(tmp_path: Path) -> None:
    rows = []
    for at in range(12):
        values = {"train/global_step": at, "_timestamp": START_S + 2 * at}
        rows.append(history(values, nested=True))
        rows.append(history({"eval/loss": 1.0, "train/global_step": at, "_timestamp": START_S + 2 * at + 1}))
    log = run_of(tmp_path, wandb_file(rows)).job_log
    assert log is not None
    assert log.steps["wall_ms"].tolist() == [2000.0] * 11


def test_printed_step_times_go_before_the_times_of_logging(tmp_path: Path) -> None:
    rows = [config({"seq_length": 128})]
    for at in range(1, 31):
        rows.append(output(f" iteration {at}/30 | elapsed time per iteration (ms): 400.0 | global batch size: 8 |\n"))
        if at % 10 == 0:
            rows.append(history({"loss": 1.0, "iteration": at, "_timestamp": START_S + 0.5 * at}))
    log = run_of(tmp_path, wandb_file(rows)).job_log
    assert log is not None
    assert set(log.steps["wall_ms"]) == {400.0}
    assert log.files[int(log.steps["file"].iloc[0])] == "any-name (captured output)"
    assert log.settings["seq_length"].file == 1


def test_idle_devices_of_others_are_left_out(tmp_path: Path) -> None:
    rows = [
        samples(START_S + 15 * at, {"gpu.0.gpu": 97, "gpu.1.gpu": 0, "gpu.2.gpu": 96, "gpu.process.0.gpu": 97})
        for at in range(9)
    ]
    run = run_of(tmp_path, wandb_file(rows))
    assert run.counters is not None
    assert sorted(run.counters.samples["device"].unique()) == [0, 2]
    assert any("device 1" in note for note in run.notes)
    assert any("device 2: used like" in note for note in run.notes)
    assert run.counters.sources[0].interval_s == 15.0


def test_busy_devices_of_others_are_left_out_with_a_note(tmp_path: Path) -> None:
    others = {"gpu.0.gpu": 92, "gpu.0.memoryAllocated": 80.0, "gpu.2.gpu": 45, "gpu.2.memoryAllocated": 60.0}
    own = {"gpu.7.gpu": 41, "gpu.7.memoryAllocated": 15.0, "gpu.process.7.gpu": 41}
    run = run_of(tmp_path, wandb_file([samples(START_S + 15 * at, {**others, **own}) for at in range(9)]))
    assert run.counters is not None
    assert run.counters.samples["device"].unique().tolist() == [7]
    assert any("no process of the run was seen on devices 0, 2" in note for note in run.notes)


def test_samples_of_one_moment_in_two_records_are_one_reading(tmp_path: Path) -> None:
    rows = []
    for at in range(4):
        rows.append(samples(START_S + 15 * at, {"gpu.0.gpu": 97}))
        rows.append(samples(START_S + 15 * at + 0.2, {"gpu.0.temp": 60, "system.gpu.0.powerWatts": 300}))
    run = run_of(tmp_path, wandb_file(rows))
    assert run.counters is not None
    assert run.counters.samples["tick"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_records_that_span_blocks_are_whole() -> None:
    records = [bytes([at]) * size for at, size in enumerate((10, 70_000, 32_700, 1, 0, 40_000))]
    assert records_of(wandb_file(records)) == records


def test_a_damaged_block_loses_its_own_records_only(tmp_path: Path) -> None:
    rows = [history({"step": at, "_timestamp": START_S + at, "filler": "x" * 50}) for at in range(2000)]
    data = bytearray(wandb_file(rows))
    data[40_000] ^= 0xFF  # in the second block
    path = tmp_path / "r"
    path.write_bytes(data)
    read = read_wandb(path)
    assert read.partial
    assert "1 blocks of it are damaged" in read.notes[0]
    assert read.log is not None
    assert len(read.log.steps) > 1000
    assert read.log.steps["wall_ms"].median() == 1000.0


SMALL = wandb_run()
WHOLE = records_of(SMALL)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(SMALL)))
def test_what_stands_before_a_cut_is_read(at: int) -> None:
    found = records_of(SMALL[:at])
    assert found == WHOLE[: len(found)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(SMALL) - 1), st.binary(min_size=1, max_size=8))
def test_changed_bytes_are_noticed(at: int, change: bytes) -> None:
    changed = (SMALL[:at] + change + SMALL[at + len(change) :])[: len(SMALL)]
    assert set(records_of(changed)) <= set(WHOLE)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=20))
def test_records_that_are_no_messages_are_counted_and_left_out(rows: list[bytes]) -> None:
    run = RunRecords()
    for number, row in enumerate([message((2, row), (7, row), (17, row)) for row in rows], 1):
        run.take(number, memoryview(row))
    assert run.unreadable <= len(rows)
    whole = sum(not _broken(row) for row in rows)
    assert len(rows) - run.unreadable <= whole


def _broken(row: bytes) -> bool:
    """Whether no parser reads the bytes as a message."""
    try:
        return not list(fields(memoryview(row))) and bool(row)
    except WireError:
        return True


def test_values_beyond_numbers_are_passed_over(tmp_path: Path) -> None:
    odd = {"step": 3, "_timestamp": "Infinity", "hist": [1] * LONGEST_VALUE, "nan": float("nan"), "big": 10**40}
    with pytest.raises(InputError, match="no steps, no samples"):
        run_of(tmp_path, wandb_file([history(odd)] * 5))


def test_torchtitan_states_the_mean_since_the_last_record(tmp_path: Path) -> None:
    rows = [
        history(
            {"_step": at, "_timestamp": START_S + 9 * at, "time_metrics/end_to_end(s)": 0.8, "throughput(tps)": 5000}
        )
        for at in range(10, 110, 10)
    ]
    log = run_of(tmp_path, wandb_file(rows)).job_log
    assert log is not None
    assert (set(log.steps["wall_ms"]), set(log.steps["span"]), log.step_time) == ({800.0}, {10}, "mean")
    assert set(log.steps["tokens_per_s"]) == {5000.0}


def test_records_that_name_no_step_are_taken_one_by_one_with_a_note(tmp_path: Path) -> None:
    rows = [history({"loss": 1.0, "_step": at, "_timestamp": START_S + 3 * at}) for at in range(20)]
    run = run_of(tmp_path, wandb_file(rows))
    assert run.job_log is not None
    assert set(run.job_log.steps["wall_ms"]) == {3000.0}
    assert any("each record is taken for one step" in note for note in run.notes)


def test_next_to_a_log_with_steps_these_are_used(tmp_path: Path) -> None:
    (tmp_path / "run.wandb").write_bytes(SMALL)
    (tmp_path / "train.log").write_text(megatron(*((step, 700.0) for step in range(1, 40))))
    log = load_run([tmp_path]).job_log
    assert log is not None
    assert set(log.steps["wall_ms"]) == {700.0}
    assert log.files[int(log.steps["file"].iloc[0])] == "train.log"
    assert log.files[log.settings["seq_length"].file] == "run.wandb (history)"


def test_next_to_a_log_without_steps_the_history_gives_them(tmp_path: Path) -> None:
    (tmp_path / "run.wandb").write_bytes(SMALL)
    (tmp_path / "train.log").write_text("n1:7:9 [0] NCCL INFO NCCL version 2.27.7+cuda13.0\n")
    log = load_run([tmp_path]).job_log
    assert log is not None
    assert log.nccl.version is not None
    assert log.files[log.nccl.version.file] == "train.log"
    assert log.steps["wall_ms"].round(3).tolist() == [500.0] * 29
    assert {log.files[at] for at in log.steps["file"]} == {"run.wandb (history)"}


# --- the real file ---


def plain_records(data: bytes) -> list[bytes]:
    """The records by the format's description alone."""
    found, part, at = [], b"", 7
    while at + 7 <= len(data):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        part = (b"" if kind in (1, 2) else part) + data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            found.append(part)
    return found


def test_a_real_fine_tuning_on_eight_devices(traces: Path) -> None:
    path = traces / "wandb/alpaca_8gpu.wandb"
    data = path.read_bytes()
    assert records_of(data) == plain_records(data)
    assert len(plain_records(data)) == 1125
    profile = real_profile(path)
    log, counters = profile.run.job_log, profile.run.counters
    assert log is not None
    assert counters is not None
    assert len(log.steps) == 119  # 120 steps were logged; the first has none before it
    assert statistics.median(log.steps["wall_ms"]) == pytest.approx(4429.4856, abs=1e-3)
    assert log.steps["wall_ms"].mean() == pytest.approx(4426.2659, abs=1e-3)
    power = measure(profile, "device_counter_w", counter="device_power_w", device="0", statistic="mean")
    of_device = counters.samples.query("device == 0 and counter == 'device_power_w'")
    trained = of_device[of_device["time_unix_ns"] <= log.steps["written_ns"].max()]  # three of 18 came later
    assert (len(of_device), len(trained)) == (18, 15)
    assert power.value == pytest.approx(trained["value"].mean()) == pytest.approx(360.19, abs=1e-3)
    assert power.path == str(path)
    hottest = measure(profile, "device_counter_c", counter="device_temperature_c", device="3", statistic="max")
    assert hottest.value == 72.87
    assert len(counters.samples["device"].unique()) == 9  # eight devices and the machine
    check = check_of(profile, "computation.device_use")
    assert check is not None
    assert check.status == "clean"
    assert ranking(profile).verdict == "inconclusive"


def test_the_configuration_of_a_fine_tuning_states_the_model_by_its_sizes(traces: Path) -> None:
    log = read_wandb(traces / "wandb/alpaca_8gpu.wandb").log
    assert log is not None
    sizes = {"num_layers": "32", "hidden_size": "4096", "num_attention_heads": "32", "ffn_hidden_size": "11008"}
    assert {name: log.settings[name].value for name in sizes} == sizes  # of its configuration: Llama 7B


def test_a_compressed_copy_and_one_among_other_files_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "wandb/run-1").mkdir(parents=True)
    (tmp_path / "wandb/run-1/run-1.wandb").write_bytes(SMALL)
    (tmp_path / "note.txt").write_text("nothing\n")
    folder = Profile(load_run([tmp_path])).run
    (tmp_path / "packed").write_bytes(gzip.compress(SMALL))
    packed = load_run([tmp_path / "packed"])
    assert folder.job_log is not None
    assert packed.job_log is not None
    assert folder.job_log.steps.equals(packed.job_log.steps)


def test_empty_fragments_count_towards_the_size_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LARGEST_RECORD", 1000)

    def fragment(kind: int, data: bytes = b"") -> bytes:
        return records.HEAD.pack(zlib.crc32(data, zlib.crc32(bytes([kind]))), len(data), kind) + data

    def whole(middle: int) -> bytes:
        return records.MAGIC + b"\0" + fragment(2, b"one") + fragment(3) * middle + fragment(4, b" two")

    assert records_of(whole(100)) == [b"one two"]
    assert records_of(whole(200)) == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("wandb-summary.json", '{"loss": 0.1, "_runtime": 2621.7, "_step": 625}', "is the summary of a W&B run"),
        ("wandb-metadata.json", '{"os": "Linux", "codePath": "train.py"}', "describes the host and the program"),
    ],
)
def test_other_files_of_a_run_are_named_for_what_they_are(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=rf"{said}.*give the run's `\.wandb` file"):
        load_run([tmp_path / name])
