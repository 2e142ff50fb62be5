"""Recording with a launch that only writes what a script would."""

from __future__ import annotations

import gzip
import json
import socket
from pathlib import Path

import pytest

from evals.lab.habits.__main__ import main
from evals.lab.habits.launch import Folders, steps_ms, variables
from evals.lab.habits.quiet_machine import ContentionError
from evals.lab.habits.record import complete
from evals.lab.habits.table import Entry, Start, chosen
from evals.lab.launch import LaunchError

PAIR = "resnet_workers"
PROFILED = range(20, 23)


def write_run(folders: Folders, step_s: float, ranks: int) -> None:
    """Forty steps a rank, three of them ten times as long under the profiler, a trace, a log and a table."""
    for rank in range(ranks):
        now, lines = 5.0, []
        for step in range(40):
            now += step_s * (10 if step in PROFILED else 1)
            lines.append(f"{now} {int(step in PROFILED)}")
        (folders.times / f"rank{rank}.txt").write_text("\n".join(lines) + "\n")
        event = {"ph": "X", "name": f"{folders.work}/train.py(3): step", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
        trace = {"schemaVersion": 1, "host_name": "box", "traceEvents": [event]}
        (folders.run / f"{socket.gethostname()}_{rank}.pt.trace.json").write_text(json.dumps(trace))
    (folders.run / "train.log").write_text(f"saved {folders.work}/model.pt on {socket.gethostname()}\n")
    (folders.run / "metrics.csv").write_text("step,loss\n0,1.0\n")


def launched(entry: Entry, start: Start, folders: Folders) -> None:
    write_run(folders, 0.06 if start == entry.slow else 0.05, entry.processes)


def test_a_pair_is_recorded_with_its_label_and_measurement(tmp_path: Path) -> None:
    assert main(["record", PAIR, "--out", str(tmp_path)], launched) == 0
    folder = tmp_path / PAIR
    measured = json.loads((folder / "measured.json").read_text())
    assert measured["before_ms"]["median"] == pytest.approx(60, abs=0.1)
    assert measured["speedup"]["median"] == pytest.approx(1.2, abs=0.01)
    assert measured["label_holds"] is True
    assert json.loads((folder / "label.json").read_text())["strength"] == "mild"
    assert complete(folder)
    assert (folder / "slow" / "metrics.csv").read_text() == "step,loss\n0,1.0\n"


def test_nothing_that_is_kept_names_the_machine_or_a_folder(tmp_path: Path) -> None:
    main(["record", PAIR, "--out", str(tmp_path)], launched)
    run = tmp_path / PAIR / "slow"
    assert (run / "train.log").read_text() == "saved model.pt on host0\n"
    trace = json.loads(gzip.decompress((run / "host0_0.pt.trace.json.gz").read_bytes()))
    assert "host_name" not in trace
    assert trace["traceEvents"][0]["name"] == "train.py(3): step"


def test_a_fix_that_saves_nothing_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def alike(entry: Entry, start: Start, folders: Folders) -> None:
        write_run(folders, 0.05, entry.processes)

    assert main(["record", PAIR, "--out", str(tmp_path)], alike) == 1
    assert "FAILED, fixing saves less than 8 %" in capsys.readouterr().out
    assert not complete(tmp_path / PAIR)


def test_what_is_complete_is_not_recorded_again(tmp_path: Path) -> None:
    started: list[str] = []

    def counted(entry: Entry, start: Start, folders: Folders) -> None:
        started.append(entry.id)
        if entry.id != PAIR:
            raise LaunchError("only one is recorded here")
        launched(entry, start, folders)

    main(["record", PAIR, "--out", str(tmp_path)], counted)
    assert started == [PAIR] * 4
    main(["record-all", "--split", "dev", "--out", str(tmp_path)], counted)
    assert started.count(PAIR) == 4
    assert main(["labels", "--out", str(tmp_path)]) == 0


def test_a_script_that_fails_leaves_no_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(entry: Entry, start: Start, folders: Folders) -> None:
        raise LaunchError("rank 0 failed: ValueError")

    assert main(["record", PAIR, "--out", str(tmp_path)], broken) == 1
    assert "rank 0 failed: ValueError" in capsys.readouterr().out
    assert not (tmp_path / PAIR).exists()


@pytest.mark.parametrize(("disturbed", "code"), [(2, 0), (3, 1)], ids=["twice", "always"])
def test_a_launch_next_to_other_programs_is_repeated(disturbed: int, code: int, tmp_path: Path) -> None:
    left = [disturbed]

    def shared(entry: Entry, start: Start, folders: Folders) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise ContentionError("other programs took 30% of the cores meanwhile")
        launched(entry, start, folders)

    assert main(["record", PAIR, "--out", str(tmp_path)], shared) == code
    assert complete(tmp_path / PAIR) == (code == 0)


def test_steps_next_to_the_profiler_and_the_first_ones_do_not_count(tmp_path: Path) -> None:
    entry, folders = chosen(["encoder_accumulation"])[0], Folders.below(tmp_path)
    write_run(folders, 0.05, entry.processes)
    times = steps_ms(entry, folders)
    assert times == pytest.approx([50.0] * len(times))
    assert len(times) == 40 - entry.skip - len(PROFILED) - 3  # two before the profiler, one that writes the trace


def test_a_script_that_never_ticks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"call clock.tick\(\)"):
        steps_ms(chosen([PAIR])[0], Folders.below(tmp_path))


def test_several_ranks_get_what_torchrun_sets_and_one_process_gets_nothing() -> None:
    several, one = chosen(["encoder_accumulation"])[0], chosen([PAIR])[0]
    assert variables(several, Start())["OMP_NUM_THREADS"] == "1"
    assert "MASTER_ADDR" not in variables(one, Start())
    assert variables(one, Start(environment={"KMP_BLOCKTIME": 0}))["KMP_BLOCKTIME"] == "0"


def test_the_list_names_every_entry_with_its_causes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert "slow_data_processing/too_few_workers" in capsys.readouterr().out
