"""TensorBoard event files give the steps whose time is in them, and no other."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.fuzz.tracker_files import event, event_file, tfrecord
from hermes_agent.report.opening import opening
from tools.judgement.ranking import ranking
from tools.run.model import Run
from tools.sources.load import load_run
from tools.sources.tensorboard.events import EventFile, masked_crc
from tools.sources.tensorboard.reader import read_events
from tools.views.profile import Profile

START_S = 1.7e9


def run_of(tmp_path: Path, data: bytes) -> Run:
    path = tmp_path / "any-name"
    path.write_bytes(data)
    return load_run([path])


def steps_of(tmp_path: Path, *events: bytes) -> list[float]:
    log = run_of(tmp_path, b"".join(events)).job_log
    assert log is not None
    return [round(float(value), 3) for value in log.steps["wall_ms"]]


def test_the_checksum_is_that_of_its_description() -> None:
    # RFC 3720, B.4: the CRC-32C of 32 zero bytes is 0x8A9136AA; masked as record_writer.h says.
    crc = 0x8A9136AA
    assert masked_crc(bytes(32)) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_the_step_time_of_megatron_is_in_seconds(tmp_path: Path) -> None:
    log = run_of(tmp_path, event_file()).job_log
    assert log is not None
    assert log.steps["wall_ms"].tolist() == [250.0] * 19
    assert log.steps["line"].tolist() == list(range(2, 21))  # the first record is the version
    slow = [event(START_S + 40 * at, at, {"iteration-time": 40.0, "lm loss": 2.0}) for at in range(1, 12)]
    assert steps_of(tmp_path, *slow) == [40_000.0] * 11  # no guess by the size


@pytest.mark.parametrize("tensor", [False, True])
def test_without_a_stated_time_the_times_of_writing_are_used(tmp_path: Path, tensor: bool) -> None:
    events = [event(START_S + 0.5 * at, 10 * at, {"train/loss": 2.0}, tensor) for at in range(12)]
    assert steps_of(tmp_path, *events) == [50.0] * 11  # ten steps between two records


def test_what_the_steps_are_is_said(tmp_path: Path) -> None:
    events = [event(START_S + at, at, {"Loss/train": 1.0}) for at in range(20)]
    notes = " ".join(run_of(tmp_path, b"".join(events)).notes)
    assert "those of the scalar 'Loss/train', as the training counts them" in notes
    assert "the time between them is used" in notes


def test_scalars_of_epochs_samples_and_evaluations_are_no_steps(tmp_path: Path) -> None:
    for tags in (["epoch_loss", "batch_loss"], ["eval/loss"], ["lm loss vs samples"]):
        events = [event(START_S + at, at, dict.fromkeys(tags, 1.0)) for at in range(20)]
        assert steps_of(tmp_path, *events) == []


def test_a_number_of_the_epoch_next_to_each_step_shows_that_steps_are_no_epochs(tmp_path: Path) -> None:
    def written(steps: range, per_epoch: float) -> list[float]:
        events = [event(START_S + 0.5 * at, at, {"train/loss": 2.0, "train/epoch": at / per_epoch}) for at in steps]
        return steps_of(tmp_path, *events)

    assert written(range(10, 210, 10), 100.0) == [500.0] * 19  # HF Trainer: a fraction of the epoch
    assert written(range(20), 1.0) == []  # one step for each epoch


def test_scalars_of_steps_next_to_those_of_epochs_are_used_where_they_are_written_more_often(tmp_path: Path) -> None:
    steps = [event(START_S + 0.5 * at, at, {"train_loss_step": 2.0}) for at in range(40)]
    epochs = [event(START_S + 10.0 * at, 20 * at, {"train_loss_epoch": 2.0}) for at in (1, 2)]
    assert steps_of(tmp_path, *steps, *epochs) == [500.0] * 39
    each = [event(START_S + at, at, {"batch_loss": 1.0, "epoch_loss": 1.0}) for at in range(20)]
    assert steps_of(tmp_path, *each) == []  # one batch of each epoch: what lies between them is not the step


def test_evaluations_between_steps_do_not_hide_them(tmp_path: Path) -> None:
    events = [event(START_S + at, at, {"loss": 1.0}) for at in range(20)]
    events += [event(START_S + 30, 19, {"val/loss": 1.0})]
    assert steps_of(tmp_path, *events) == [1000.0] * 19


def test_a_file_without_step_times_says_what_to_record(tmp_path: Path) -> None:
    events = [event(START_S + at, at, {"epoch_loss": 1.0}) for at in range(20)]
    profile = Profile(run_of(tmp_path, b"".join(events)))
    found = ranking(profile)
    assert found.verdict == "inconclusive"
    assert any("none of its 1 scalars ('epoch_loss') shows the time" in each.note for each in profile.run.sources)
    assert found.why.endswith("the TensorBoard events hold no series of step times")


def test_steps_of_scalars_are_attributed_to_them_and_a_change_of_level_leads(tmp_path: Path) -> None:
    lengths = [0.5] * 60 + [0.65] * 40
    events = [event(START_S + sum(lengths[:at]), at, {"iteration-time": lengths[at]}) for at in range(100)]
    profile = Profile(run_of(tmp_path, b"".join(events)))
    found = ranking(profile)
    said = " ".join(each.template for each in opening(profile, found))
    assert "By the TensorBoard scalars the median step takes {0}" in said
    assert "from step 60 on it takes {1} instead of {2} (lead 1)" in said
    assert [fact.value for fact in found.leads[0].claim.facts[:2]] == pytest.approx([650.0, 500.0])


def test_of_several_files_the_one_with_most_steps_is_used(tmp_path: Path) -> None:
    for name, count in (("a", 30), ("b", 12)):
        events = [event(START_S + at, at, {"loss": 1.0}) for at in range(count)]
        (tmp_path / f"events.out.tfevents.{name}").write_bytes(b"".join(events))
    run = load_run([tmp_path])
    assert run.job_log is not None
    assert len(run.job_log.steps) == 29
    assert any("events.out.tfevents.a has the most" in note for note in run.notes)


SMALL = event_file()
WHOLE = list(EventFile((SMALL,)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(SMALL)))
def test_what_stands_before_a_cut_is_read(at: int) -> None:
    found = list(EventFile((SMALL[:at],)))
    assert found == WHOLE[: len(found)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(SMALL) - 1), st.binary(min_size=1, max_size=8))
def test_changed_bytes_are_noticed(at: int, change: bytes) -> None:
    changed = (SMALL[:at] + change + SMALL[at + len(change) :])[: len(SMALL)]
    assert set(EventFile((changed,))) <= set(WHOLE)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=20))
def test_records_that_are_no_messages_never_break_the_reader(rows: list[bytes]) -> None:
    file = EventFile((b"".join(map(tfrecord, rows)),))
    assert {each.record for each in file} <= set(range(1, len(rows) + 1))
    assert file.records == len(rows)


def test_a_stated_length_beyond_the_file_holds_no_memory(tmp_path: Path) -> None:
    length = struct.pack("<Q", (1 << 31) - 1)
    path = tmp_path / "x"
    path.write_bytes(event_file() + length + struct.pack("<I", masked_crc(length)) + b"short")
    read = read_events(path)
    assert read.log is not None
    assert len(read.log.steps) == 19
    assert "it ends within a record" in read.notes[0]


# --- the real file ---


def test_a_real_file_of_epochs_is_read_and_no_step_is_claimed(traces: Path) -> None:
    path = traces / "metrics/events.out.tfevents.1585769947.cvp.gz"
    data, at, records = gzip.decompress(path.read_bytes()), 0, 0
    while at < len(data):
        at += 16 + struct.unpack("<Q", data[at : at + 8])[0]
        records += 1
    file = EventFile((data,))
    scalars = list(file)
    assert (file.records, file.damage, file.unreadable) == (records, "", 0)
    assert len(scalars) == 6 * 17  # six scalars, each of 17 epochs
    assert scalars[0].value == pytest.approx(3.9135773)
    run = load_run([path])
    assert run.job_log is not None
    assert run.job_log.steps.empty
