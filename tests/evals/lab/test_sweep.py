"""One recording after another, with a launcher that starts nothing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from evals.lab.__main__ import Sweep, main
from evals.lab.job import HEALTHY, Job, jobs, jobs_of_faults
from evals.lab.launch import Launched, LaunchError
from evals.lab.record import complete
from evals.lab.scenarios import Plan, Scenario
from hermes_agent.monitor.format import PREAMBLE, STEPS_MAGIC
from tools.errors import UsageError


class FakeLaunch:
    """Writes the files of a launch and counts; launches of a pair come in turn: slow, fixed."""

    def __init__(
        self, slow_ms: float = 100.0, fixed_ms: float = 50.0, fails_at: int = -1, slow_loss: float = 1.5
    ) -> None:
        self._times, self._losses, self._fails_at = (slow_ms, fixed_ms), (slow_loss, 1.5), fails_at
        self.launched = 0

    def __call__(self, scenario: Scenario, plan: Plan) -> Launched:
        self.launched += 1
        if self.launched - 1 == self._fails_at:
            raise LaunchError("rank 0 of the recorded training failed: out of luck")
        (plan.run / "monitor").mkdir(parents=True)
        for rank in range(plan.ranks):
            plan.trace(rank).write_text(json.dumps({"host_name": "secret", "traceEvents": []}), encoding="utf-8")
            plan.step_log(rank).write_text('{"step": 0, "wall_ms": 1.0}\n', encoding="utf-8")
            head = json.dumps({"host": f"secret{rank}", "ring": "/dev/shm/secret"}).encode()
            steps = PREAMBLE.pack(STEPS_MAGIC, len(head)) + head + b"records"
            (plan.run / "monitor" / f"rank{rank}.steps").write_bytes(steps)
            (plan.run / "monitor" / f"rank{rank}.events.jsonl").write_text("{}\n", encoding="utf-8")
        turn = (self.launched - 1) % 2
        return Launched((self._times[turn],) * plan.steps, self._losses[turn], {"torch": "0"})


def pair() -> Job:
    (found,) = jobs_of_faults(["small_operators"], "images-strong")
    return found


def sweep(out: Path, run: FakeLaunch) -> Sweep:
    return Sweep(out, lambda _: None, run, measured_steps=6)


def test_a_pair_is_recorded_with_its_label_and_two_launches_of_each_world(tmp_path: Path) -> None:
    run = FakeLaunch()
    one = sweep(tmp_path, run)
    lines = one.do(pair(), again=False)
    assert run.launched == 4
    assert (one.done, one.failed) == ([pair().name], False)
    assert "before  100.00 [100.00, 100.00] ms per step (median)" in lines
    assert "after   50.00" in lines
    folder = tmp_path / "small_operators" / "images-strong"
    measured = json.loads((folder / "measured.json").read_text())
    assert (measured["saving_pct"]["median"], measured["label_holds"]) == (50.0, True)
    assert (measured["statistic"], measured["launches"], measured["steps_per_launch"]) == ("median", 2, 6)
    assert json.loads((folder / "label.json").read_text())["mechanism"] == "small_operators"
    names = sorted(path.relative_to(folder / "slow").as_posix() for path in (folder / "slow").rglob("*.*"))
    per_rank = [f"monitor/rank{rank}.{end}" for rank in (0, 1) for end in ("events.jsonl.gz", "steps.gz")]
    traces = [f"rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
    assert names == [*per_rank, *traces, "run.json", "steps_rank0.jsonl.gz", "steps_rank1.jsonl.gz"]


def test_nothing_recorded_names_the_machine(tmp_path: Path) -> None:
    sweep(tmp_path, FakeLaunch()).do(pair(), again=False)
    for file in tmp_path.rglob("*.*"):
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        assert b"secret" not in content, file.name
    steps = gzip.decompress((tmp_path / pair().name / "slow" / "monitor" / "rank1.steps.gz").read_bytes())
    magic, length = PREAMBLE.unpack_from(steps)
    assert (magic, steps[PREAMBLE.size + length :]) == (STEPS_MAGIC, b"records")
    assert json.loads(steps[PREAMBLE.size : PREAMBLE.size + length]) == {"host": "host1", "ring": ""}


def test_a_complete_pair_is_not_recorded_again_unless_asked(tmp_path: Path) -> None:
    sweep(tmp_path, FakeLaunch()).do(pair(), again=False)
    run = FakeLaunch()
    later = sweep(tmp_path, run)
    assert later.do(pair(), again=False).endswith("complete already")
    assert (run.launched, later.kept, later.failed) == (0, [pair().name], False)
    later.do(pair(), again=True)
    assert run.launched == 4


def test_a_pair_that_was_cut_short_is_recorded_again(tmp_path: Path) -> None:
    sweep(tmp_path, FakeLaunch()).do(pair(), again=False)
    (tmp_path / pair().name / "fixed" / "run.json").unlink()
    assert not complete(tmp_path / pair().name)
    run = FakeLaunch()
    sweep(tmp_path, run).do(pair(), again=False)
    assert run.launched == 4


def test_after_a_failure_the_others_are_recorded_and_the_failure_is_told(tmp_path: Path) -> None:
    one = sweep(tmp_path, FakeLaunch(fails_at=1))
    first, second = jobs_of_faults(["small_operators"], None)[:2]
    assert "FAILED, rank 0 of the recorded training failed: out of luck" in one.do(first, again=False)
    assert not (tmp_path / first.name).exists()
    one.do(second, again=False)
    assert (one.failures, len(one.done), one.failed) == ([first.name], 1, True)
    assert one.summary().splitlines()[1:] == [f"  failed: {first.name}"]


def test_a_fault_that_hardly_costs_anything_is_a_failure(tmp_path: Path) -> None:
    one = sweep(tmp_path, FakeLaunch(slow_ms=54.0, fixed_ms=50.0))
    assert "fixing saves less than 8 %" in one.do(pair(), again=False)
    assert one.failed
    assert not complete(tmp_path / pair().name)


def test_worlds_that_should_compute_the_same_and_do_not_are_a_failure(tmp_path: Path) -> None:
    one = sweep(tmp_path, FakeLaunch(slow_loss=1.6))
    assert "their losses differ" in one.do(pair(), again=False)
    assert (one.failures, complete(tmp_path / pair().name)) == ([pair().name], False)


def test_a_healthy_run_is_one_launch(tmp_path: Path) -> None:
    run = FakeLaunch()
    (control,) = jobs_of_faults(["healthy"], "images-alone")
    assert control.kind == HEALTHY
    assert not sweep(tmp_path, run).do(control, again=False).count("FAILED")
    assert run.launched == 1
    label = json.loads((tmp_path / "healthy" / "images-alone" / "label.json").read_text())
    assert (label["verdict"], label["split"]) == ("healthy", "dev")
    assert complete(tmp_path / "healthy" / "images-alone")


def test_a_sweep_that_did_nothing_has_failed(tmp_path: Path) -> None:
    assert sweep(tmp_path, FakeLaunch()).failed


def test_jobs_of_a_split_are_of_that_split_only() -> None:
    dev, everything = jobs("dev"), jobs(None)
    assert {job.split for job in dev} == {"dev"}
    assert len(dev) + len(jobs("test")) == len(everything)
    unseen = ("sounds", "experts_narrow", "stages_narrow")
    assert not [job.name for job in dev if job.label["workload"] in unseen]


def test_a_file_names_the_jobs(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("one_core/images-strong\nhealthy/images-usual\n", encoding="utf-8")
    assert [job.name for job in jobs(None, tmp_path / "jobs")] == ["one_core/images-strong", "healthy/images-usual"]
    (tmp_path / "jobs").write_text("one_core/images-huge\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no job 'one_core/images-huge'"):
        jobs(None, tmp_path / "jobs")
    (tmp_path / "jobs").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="nothing is to be recorded"):
        jobs(None, tmp_path / "jobs")


def test_list_prints_every_fault_with_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    first = capsys.readouterr().out.splitlines()[0].split()
    assert first[:3] == ["heavy_transform", "slow_data_processing/heavy_transform", "images-strong"]


def test_an_unknown_fault_is_a_usage_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["record", "rain", "--out", str(tmp_path)]) == int(UsageError("").exit_code)
    assert "no fault 'rain'" in capsys.readouterr().err


def test_what_needs_a_gpu_says_so_where_there_is_none(tmp_path: Path) -> None:
    from evals.lab.__main__ import has_gpu

    if has_gpu():
        pytest.skip("this machine has a GPU")
    one = sweep(tmp_path, FakeLaunch())
    gpu = jobs_of_faults(["launch_blocking"], None)[0]
    assert one.do(gpu, again=False).endswith("no GPU that PyTorch can use")
    assert (len(one.skipped), one.failed) == (1, True)
