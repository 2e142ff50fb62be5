from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from hermes_agent.monitor.session import Monitor
from hermes_agent.watch.agent import AgentOptions, NodeAgent, Noticed
from hermes_agent.watch.anomaly import AnomalyKind, Foreign
from hermes_agent.watch.rings import RequestLimits
from hermes_agent.watch.view import line_of, picture
from tests.hermes_agent.monitor.monitored import BrokenProfiler, options, start_script
from tools.sources.monitor.reader import read_monitor

# Two processes that wait for each other after every step; rank 1's data gets slow at step 200.
TWO_RANKS = """
import multiprocessing, sys, time
from hermes_agent.monitor import Monitor
from tests.hermes_agent.monitor.monitored import options

def items(rank):
    for step in range(int(sys.argv[2])):
        time.sleep(0.02 if rank == 1 and step >= 200 else 0.001)
        yield step

def train(rank, barrier):
    with Monitor(sys.argv[1], rank=rank, options=options()) as monitor:
        for _ in monitor.loader(items(rank)):
            time.sleep(0.005)
            with monitor.waiting():
                barrier.wait(30)
            monitor.step()

context = multiprocessing.get_context("fork")
barrier = context.Barrier(2)
ranks = [context.Process(target=train, args=(rank, barrier)) for rank in (0, 1)]
for each in ranks:
    each.start()
for each in ranks:
    each.join()
sys.exit(max(each.exitcode for each in ranks))
"""


def nobody(_: set[int]) -> tuple[Foreign, ...]:
    return ()


def test_a_fault_at_step_200_is_noticed_within_ten_steps_and_the_right_rank_profiled(run_folder: Path) -> None:
    agent = NodeAgent(
        run_folder,
        AgentOptions(
            limits=RequestLimits(per_hour=20, apart_s=0.0), foreign=lambda _: (Foreign("other-training", 350.0),)
        ),
    )
    training = start_script(TWO_RANKS, str(run_folder), "300")
    noticed: list[Noticed] = []
    deadline = time.monotonic() + 60
    while training.poll() is None and time.monotonic() < deadline:
        noticed += agent.poll()
        time.sleep(agent.pause_s)
    assert training.communicate(timeout=10)[1] == ""
    assert training.returncode == 0
    changes = [
        each
        for each in noticed
        if each.anomaly.deviation.kind is AnomalyKind.CHANGE and each.anomaly.deviation.noticed >= 200
    ]
    assert changes, [each.anomaly.claim for each in noticed]
    assert changes[0].anomaly.deviation.noticed < 210
    assert changes[0].anomaly.rank == 1
    assert changes[0].anomaly.suspect is not None
    assert changes[0].anomaly.suspect.part == "data wait"
    assert changes[0].capture is not None
    assert changes[0].capture.ranks == (1, 0)  # the suspect, and a rank to compare it with
    trace = run_folder / f"capture-{changes[0].capture.request:04d}" / "rank1.pt.trace.json.gz"
    steps = [int(word) for word in trace.read_text(encoding="utf-8").split()]
    assert len(steps) == 3
    assert 200 < steps[0] < 300
    assert (trace.parent / "rank0.pt.trace.json.gz").read_text(encoding="utf-8").split() == trace.read_text().split()
    records = read_monitor(run_folder)
    assert list(
        records.captures.loc[records.captures["request"] == changes[0].capture.request, "rank"].sort_values()
    ) == [0, 1]
    reported = records.anomalies[records.anomalies["kind"] == "change"]
    assert 1 in set(reported["rank"])
    assert set(reported["foreign"]) == {"other-training 350 %"}
    assert records.steps.groupby("rank").size().to_dict() == {0: 300, 1: 300}


def steady(monitor: Monitor, steps: int, seconds: float) -> None:
    for _ in range(steps):
        time.sleep(seconds)
        monitor.step()


def test_captures_are_not_asked_for_more_often_than_allowed(run_folder: Path) -> None:
    clock = [100.0]
    agent = NodeAgent(
        run_folder,
        AgentOptions(limits=RequestLimits(per_hour=1), foreign=nobody, clock=lambda: clock[0]),
    )
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        asked = []
        for seconds in (0.001, 0.01, 0.05):
            steady(monitor, 50, seconds)
            clock[0] += 61
            asked += [each.capture for each in agent.poll() if each.capture]
    made = [each for each in asked if not each.refused]
    assert len(made) == 1
    assert {each.refused for each in asked if each.refused} <= {"1 captures were made within the hour"}
    assert len(asked) >= 2


def test_a_capture_that_has_to_wait_is_requested_when_the_pause_is_over_and_the_change_is_still_there(
    run_folder: Path,
) -> None:
    clock = [100.0]
    limits = RequestLimits(apart_s=15.0, worse=1000.0)
    agent = NodeAgent(run_folder, AgentOptions(limits=limits, foreign=nobody, clock=lambda: clock[0]))
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        steady(monitor, 50, 0.001)
        steady(monitor, 40, 0.01)
        first = [each.capture for each in agent.poll() if each.capture]
        steady(monitor, 40, 0.04)
        clock[0] += 5
        waiting = agent.poll()
        clock[0] += 11
        steady(monitor, 3, 0.04)
        retried = agent.poll()
    assert [each.refused for each in first] == [""]
    refused = [each.capture.refused for each in waiting if each.capture]
    assert refused == ["the last capture was less than 15 s ago"]
    (late,) = [each for each in retried if each.capture is not None]
    assert late.noticed_before
    assert late.capture is not None
    assert (late.capture.request, late.capture.refused) == (2, "")
    assert line_of(late).startswith("still there: change: since step ")
    journal = next((run_folder / "monitor").glob("anomalies-*.jsonl")).read_text(encoding="utf-8").splitlines()
    assert len(journal) == sum(not each.noticed_before for each in (*agent.snapshot().noticed,))


def test_a_capture_that_the_rank_cannot_make_is_tried_again(run_folder: Path) -> None:
    clock = [100.0]
    agent = NodeAgent(run_folder, AgentOptions(foreign=nobody, clock=lambda: clock[0]))
    asked: list[int] = []
    with Monitor(run_folder, rank=0, options=options(profiler=BrokenProfiler)) as monitor:
        steady(monitor, 50, 0.001)
        for _ in range(3):
            steady(monitor, 40, 0.01)
            asked += [each.capture.request for each in agent.poll() if each.capture and not each.capture.refused]
            clock[0] += 61
    assert asked == [1, 2]  # the last two would be without a suspect: so many are allowed in an hour


def test_a_rank_that_is_killed_is_reported_once_and_one_that_ends_is_not(run_folder: Path) -> None:
    script = """
    import os, signal, sys
    from hermes_agent.monitor import Monitor
    from tests.hermes_agent.monitor.monitored import options
    monitor = Monitor(sys.argv[1], rank=4, options=options())
    for _ in range(5):
        monitor.step()
    os.kill(os.getpid(), signal.SIGKILL)
    """
    with Monitor(run_folder, rank=0, options=options()) as ending:
        steady(ending, 5, 0.001)
        assert start_script(script, str(run_folder)).wait(30) == -signal.SIGKILL
        agent = NodeAgent(run_folder, AgentOptions(foreign=nobody))
        assert agent.poll() == []
    rings = agent._rings
    state = rings.state(4)
    assert not state.closed
    agent._rings = Later(rings)  # type: ignore[assignment]
    (noticed,) = agent.poll()
    assert noticed.anomaly.deviation.kind is AnomalyKind.SILENT
    assert noticed.anomaly.claim == "a rank is silent since step 4: rank 4"
    assert agent.poll() == []
    assert not agent.alive


class Later:
    """The rings as they look a minute later."""

    def __init__(self, rings: object) -> None:
        self._rings = rings

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._rings, name)
        return found

    def __getitem__(self, rank: int) -> object:
        return self._rings[rank]  # type: ignore[index]

    def state(self, rank: int) -> object:
        seen = self._rings.state(rank)  # type: ignore[attr-defined]
        return seen._replace(beat_clock_ns=seen.beat_clock_ns - 60_000_000_000)


def test_the_picture_shows_every_rank_and_texts_as_they_are(run_folder: Path) -> None:
    from rich.console import Console

    agent = NodeAgent(run_folder, AgentOptions(foreign=lambda _: (Foreign("[bold]x[/bold]", 99.0),)))
    with (
        Monitor(run_folder, rank=0, options=options()) as first,
        Monitor(run_folder, rank=11, options=options()) as two,
    ):
        steady(first, 2, 0.001)
        steady(two, 1, 0.001)
        agent.poll()
        console = Console(width=140, record=True, file=open("/dev/null", "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        console.print(picture(agent.snapshot()))
    text = console.export_text()
    assert "usual step: not known yet" in text
    assert "nothing noticed so far" in text
    assert any(line.split()[1:4:2] == ["11", "0"] for line in text.splitlines() if "│" in line and "11" in line)


def test_a_line_tells_the_anomaly_the_other_processes_and_the_capture() -> None:
    from hermes_agent.watch.anomaly import Anomaly, Deviation, Suspect
    from hermes_agent.watch.rings import RequestedCapture

    seen = Deviation(AnomalyKind.CHANGE, 200, 205, 100.0, 150.0)
    noticed = Noticed(
        Anomaly(seen, Suspect(1, "data wait", 48.0)), (Foreign("stress", 380.0),), RequestedCapture(7, (1,), 3)
    )
    assert line_of(noticed) == (
        "change: since step 200 a step takes 150.0 ms, 50 % over the 100.0 ms before; rank 1: data wait took 48.0 ms "
        "more; other processes: stress 380 %; capture 7 of rank 1 requested"
    )


def test_a_busy_process_outside_of_the_run_is_named_and_the_runs_own_is_not() -> None:
    from hermes_agent.watch.anomaly import foreign_processes

    spin = "import time, sys\nend = time.time() + 30\nwhile time.time() < end: pass\n"
    with start_script(spin) as own, start_script(spin) as other:
        try:
            # A detached process would be foreign; these are children of ours, hence of the family of this process.
            found = foreign_processes({own.pid}, window_s=0.3)
            assert all(each.cpu_pct >= 20 for each in found)
            seen = foreign_processes.__globals__["_cpu_seconds"]()
            assert {own.pid, other.pid} <= set(seen)
            family = foreign_processes.__globals__["_family"](
                {own.pid}, {pid: each.parent for pid, each in seen.items()}
            )
            assert own.pid in family
            assert other.pid not in family
        finally:
            own.kill()
            other.kill()


def test_anomalies_are_printed_as_json_lines(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hermes_agent.cli.commands import monitor as command
    from tests.hermes_agent.cli.execution import execute

    training = start_script(TWO_RANKS, str(run_folder), "260")
    deadline = time.monotonic() + 20
    while not list(run_folder.glob("monitor/*.steps")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert execute(command, str(run_folder), "--until-end", "--json") == 0
    assert training.wait(30) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    of_rank_1 = [line for line in lines if line["kind"] in ("change", "rank_change") and line["rank"] == 1]
    assert 200 <= of_rank_1[0]["noticed_step"] < 215


def test_a_capture_by_hand_waits_for_the_trace_and_prints_where_it_is(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from hermes_agent.cli.commands import monitor as command
    from tests.hermes_agent.cli.execution import execute

    training = start_script(TWO_RANKS, str(run_folder), "190")
    deadline = time.monotonic() + 20
    while len(list(run_folder.glob("monitor/*.steps"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    assert execute(command, "profile", str(run_folder), "--steps", "4", "--ranks", "1") == 0
    assert training.wait(30) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.name == "rank1.pt.trace.json.gz"
    assert len(path.read_text(encoding="utf-8").split()) == 4


def test_a_capture_of_a_rank_that_does_not_run_is_refused(run_folder: Path) -> None:
    from hermes_agent.cli.commands import monitor as command
    from tests.hermes_agent.cli.execution import execute
    from tools.errors import UsageError

    with Monitor(run_folder, rank=0, options=options()) as monitor:
        monitor.step()
        with pytest.raises(UsageError, match="rank 3 does not run"):
            execute(command, "profile", str(run_folder), "--ranks", "3")
    with pytest.raises(UsageError, match="no rank runs"):
        execute(command, "profile", str(run_folder))


def test_a_folder_called_like_the_action_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes_agent.cli.commands import monitor as command
    from tests.hermes_agent.cli.execution import execute
    from tools.errors import UsageError

    monkeypatch.chdir(tmp_path)
    (tmp_path / "profile").mkdir()
    with pytest.raises(UsageError, match=r"write `monitor \./profile` to watch that folder"):
        execute(command, "profile")
    with pytest.raises(UsageError, match="no rank runs"):
        execute(command, "profile", "profile")


def test_prometheus_serves_the_last_step_of_every_rank(run_folder: Path) -> None:
    pytest.importorskip("prometheus_client", reason="the extra `monitor` is not installed")
    from urllib.request import urlopen

    from hermes_agent.watch.view import PrometheusExport

    export = PrometheusExport(0)
    agent = NodeAgent(run_folder, AgentOptions(foreign=nobody))
    with Monitor(run_folder, rank=2, options=options()) as monitor:
        steady(monitor, 3, 0.001)
        agent.poll()
        export.show(agent.snapshot())
        with urlopen(f"http://127.0.0.1:{export.port}/metrics") as reply:
            text = reply.read().decode()
    export.close()
    assert 'hermes_dx_step{rank="2"} 2.0' in text
    assert 'hermes_dx_alive{rank="2"} 1.0' in text
    assert 'hermes_dx_anomalies{kind="change"} 0.0' in text
    assert 'hermes_dx_own_seconds{rank="2"}' not in text
