"""Trials of the live loop: a fault starts on one of two ranks in the middle of a training; is it noticed and explained?

``python -m evals.lab.live_trials --out FOLDER`` (extra ``lab``) starts trainings of ``evals.lab.live_training``, whose
script calls ``monitor.step()`` and nothing else, watches each with ``hermes-dx monitor`` and diagnoses the last capture
that was made while the fault was there. Every kind of fault has the same number of mild and strong trials; healthy ones
of the same length count false alarms and captures spent on nothing.
``--busy 1`` keeps a core busy meanwhile, as another job would. Trials that are recorded in FOLDER stay.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose

RANKS, FAULTY_RANK = 2, 1
STEPS, FAULT_AT = 400, 220
STRENGTHS = {"mild": 0.15, "strong": 0.60}  # of the usual step
HEALTHY = "healthy"
LIMIT_S = 180.0
RUN, LINES = "run", "anomalies.json"
COLUMNS = (
    *("fault", "trials", "noticed", "steps until then", "captured", "right rank", "right place"),
    *("wrong ranks named", "captures of nothing"),
)
# Other work on the machine is a fact of its own: it may rightly stand before the fault.
OF_THE_MACHINE = frozenset({"cpu_contention"})
# What names the place of a fault: the function that holds it, or the cause that says which part of the step it is.
PLACES = {"host": ("count_words",), "data": ("read_slowly", "data loader", "data wait"), "sleep": ("send_metrics",)}


@dataclass(frozen=True)
class Trial:
    """What came of one trial. Steps count from the fault's first; None where it did not happen."""

    fault: str
    strength: str
    number: int
    noticed_after: int | None = None  # steps until an anomaly named the faulty rank
    noticed_kind: str = ""
    captured_after: int | None = None  # steps until the first profiled one of a capture of the faulty rank
    false_suspects: int = 0  # anomalies that name a rank before the fault, or another rank after it
    false_captures: int = 0  # captures before the fault, or without the faulty rank
    first: str = ""  # what the diagnosis of the capture puts first: a cause, else a lead
    first_ranks: tuple[int, ...] = ()
    right_rank: bool = False
    right_place: bool = False
    step_ms: float = 0.0

    @property
    def name(self) -> str:
        """The trial's folder."""
        return "-".join(filter(None, (self.fault, self.strength, str(self.number))))


def main(argv: Sequence[str] | None = None) -> int:
    """Record the trials that are missing, at most ``--at-most`` of them, and print a table of all."""
    parser = argparse.ArgumentParser(prog="python -m evals.lab.live_trials", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--trials", type=int, default=5, help="of each fault and strength (5)")
    parser.add_argument("--at-most", type=int, default=1000, metavar="N", help="record at most N now")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="other processes that each burn a core (0)")
    parser.add_argument("--record-only", action="store_true", help="leave the diagnoses to a later call")
    parser.add_argument("--python", default=sys.executable, help="interpreter with torch that runs the trainings")
    args = parser.parse_args(argv)
    faults = [(HEALTHY, ""), *((fault, strength) for fault in PLACES for strength in STRENGTHS)]
    wanted = [Trial(*fault, number) for number in range(args.trials) for fault in faults]
    unrecorded = [each for each in wanted if not (args.out / each.name / LINES).exists()]
    for trial in unrecorded[: args.at_most]:
        folder = args.out / trial.name
        shutil.rmtree(folder, ignore_errors=True)  # of a recording that was cut off
        (folder / RUN).mkdir(parents=True)
        with other_jobs(args.busy):
            lines = record(folder / RUN, trial, args.python)
        (folder / LINES).write_text(json.dumps(lines, indent=1), encoding="utf-8")
    if args.record_only:
        return 0
    recorded = [each for each in wanted if (args.out / each.name / LINES).exists()]
    trials = [judged(each, args.out / each.name) for each in recorded]
    (args.out / "trials.json").write_text(json.dumps([asdict(each) for each in trials], indent=1), encoding="utf-8")
    print(table(trials))
    return 0


@contextmanager
def other_jobs(count: int) -> Iterator[None]:
    """Keep so many processes computing that are no part of the run."""
    words = [sys.executable, "-m", "evals.lab.environment_faults.programs", "busy", ""]
    jobs = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for each in jobs:
            each.kill()
            each.wait()


def record(run: Path, trial: Trial, python: str) -> list[dict[str, Any]]:
    """Train on two ranks under watch and return the agent's lines."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(RANKS), "OMP_NUM_THREADS": "1"}
    share = STRENGTHS.get(trial.strength, 0.0)
    words = [str(run), trial.fault, str(share), str(STEPS), str(FAULT_AT)]
    ranks = [
        subprocess.Popen(
            [python, "-m", "evals.lab.live_training", *words],
            env={**os.environ, **shared, "GLOO_SOCKET_IFNAME": "lo", "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.DEVNULL,
        )
        for rank in range(RANKS)
    ]
    watching = [sys.executable, "-m", "hermes_agent.cli.main", "monitor", str(run), "--until-end", "--json"]
    agent = subprocess.run(watching, stdout=subprocess.PIPE, timeout=LIMIT_S, check=True, text=True)
    for each in ranks:
        each.wait(LIMIT_S)
    return [json.loads(line) for line in agent.stdout.splitlines()]


def judged(trial: Trial, folder: Path) -> Trial:
    """Compare what the agent and the diagnosis said with the fault."""
    lines: list[dict[str, Any]] = json.loads((folder / LINES).read_text(encoding="utf-8"))
    faulty = trial.fault != HEALTHY
    named = [line for line in lines if line["rank"] >= 0 and line["kind"] != "silent_rank"]
    right = [each for each in named if faulty and each["rank"] == FAULTY_RANK and each["noticed_step"] >= FAULT_AT]
    asked = [line["capture"] for line in lines if line["capture"] and not line["capture"]["refused"]]
    made = [(first, each) for each in asked if (first := first_step(folder / RUN, each["request"])) is not None]
    useful = [pair for pair in made if faulty and pair[0] >= FAULT_AT and FAULTY_RANK in pair[1]["ranks"]]
    result = {
        **asdict(trial),
        "noticed_after": right[0]["noticed_step"] - FAULT_AT if right else None,
        "noticed_kind": right[0]["kind"] if right else "",
        "captured_after": useful[0][0] - FAULT_AT if useful else None,
        "false_suspects": len(named) - len(right),
        "false_captures": len(made) - len(useful),
        "step_ms": median([line["usual_ms"] for line in lines if line["kind"] in ("spike", "change")] or [0.0]),
    }
    if useful:
        capture = folder / RUN / f"capture-{useful[-1][1]['request']:04d}"
        answer = diagnose(Request(paths=(capture,)), lambda _: None)
        (folder / "diagnosis.json").write_text(answer.model_dump_json(indent=1), encoding="utf-8")
        result |= read_answer(answer, trial.fault)
    return Trial(**result)


def read_answer(answer: Diagnosis, fault: str) -> dict[str, Any]:
    """Read what the diagnosis puts first: its first cause in the training itself, else its first lead."""
    of_the_training = [each for each in answer.causes if each.cause not in OF_THE_MACHINE]
    if of_the_training:
        cause = of_the_training[0]
        first, ranks, text = cause.cause, cause.ranks, " ".join((cause.claim, cause.where, *cause.details))
    elif answer.leads:
        lead = answer.leads[0]
        first, ranks, text = f"lead: {lead.place.part}", lead.place.ranks, f"{lead.claim} {lead.place.frame}"
    else:
        return {"first": answer.verdict}
    right_rank = ranks == [FAULTY_RANK]
    place = right_rank and any(word in text for word in PLACES[fault])
    return {"first": first, "first_ranks": tuple(ranks), "right_rank": right_rank, "right_place": place}


def first_step(run: Path, request: int) -> int | None:
    """Return the first profiled step of a capture; None where it was refused."""
    for path in sorted((run / "monitor").glob("*.events.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["event"] == "capture" and event["request"] == request:
                return int(event["first_step"])
    return None


def table(trials: list[Trial]) -> str:
    """One line for each fault and strength."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for fault, strength in dict.fromkeys((each.fault, each.strength) for each in trials):
        group = [each for each in trials if (each.fault, each.strength) == (fault, strength)]
        after = [each.noticed_after for each in group if each.noticed_after is not None]
        steps = f"{median(after):.0f} (at most {max(after)})" if after else ""
        counts = [
            sum(each.captured_after is not None for each in group),
            sum(each.right_rank for each in group),
            sum(each.right_place for each in group),
            sum(each.false_suspects for each in group),
            sum(each.false_captures for each in group),
        ]
        lines.append(
            f"| {fault} {strength} | {len(group)} | {len(after)} | {steps} | " + " | ".join(map(str, counts)) + " |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
