"""Copies of recorded runs in which something is missing, cut off, or put into the names by someone hostile."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.suite.case_schema import Case, Measured, RunEdit, RunRef
from evals.suite.run_sources import copy_of, files_of
from evals.synthetic.generate import fixed_step_ms, generate
from hermes_agent.demo.data import demo_fixed_run, demo_run
from tools.documents import parse_json
from tools.errors import InputError

TRACE = re.compile(r"^rank(\d+)\.pt\.trace\.json(?:\.gz)?$")
KEPT_OF_CUT_FILE = 0.6
EVERY = 40  # one name in so many gets a hostile text
OWN_MARKS = ("ProfilerStep#", "enumerate(", "gloo:", "nccl:", "c10d::", "Optimizer.")  # names that readers go by


def edited(run: Path, edit: RunEdit, target: Path) -> Path:
    """A copy of the run in ``target`` with the edit made; raises InputError when it has no such trace."""
    copy_of(run, edit.sources, target, linked=edit == RunEdit(sources=edit.sources))
    traces = {int(match[1]): file for file in sorted(target.iterdir()) if (match := TRACE.match(file.name))}
    for rank in (*edit.without_traces_of, *edit.cut_traces_of):
        if rank not in traces:
            raise InputError(f"{run} has no trace of rank {rank} to take away or cut; correct the case")
    gone = set(traces) if edit.without_traces else set(edit.without_traces_of)
    for rank in gone:
        traces.pop(rank).unlink()
    if edit.hostile_names:
        for file in traces.values():
            _changed(file, lambda data: _with_names(data, edit.hostile_names))
    for rank in edit.cut_traces_of:
        _changed(traces[rank], lambda data: data[: int(len(data) * KEPT_OF_CUT_FILE)])
    if edit.without_records:
        for file in (file for source in ("log", "records") for file in files_of(target)[source]):
            (target / file).unlink()
    return target


def _changed(file: Path, change: Callable[[bytes], bytes]) -> None:
    packed, data = file.suffix == ".gz", file.read_bytes()
    data = change(gzip.decompress(data) if packed else data)
    file.write_bytes(gzip.compress(data, 1, mtime=0) if packed else data)


def _with_names(data: bytes, names: tuple[str, ...]) -> bytes:
    document: dict[str, Any] = json.loads(data)
    for place, event in enumerate(document["traceEvents"]):
        name = str(event.get("name", ""))
        if place % EVERY == 0 and event.get("ph") == "X" and not name.startswith(OWN_MARKS):
            event["name"] = f"{name} {names[place // EVERY % len(names)]}"
    return json.dumps(document).encode()


ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "evals" / "lab" / "recorded"
HABITS = ROOT / "evals" / "lab" / "habits" / "recorded"


@dataclass(frozen=True)
class Places:
    """Folders of the runs; a folder that does not exist means that its cases are skipped."""

    traces: Path
    labs: tuple[Path, ...]  # the first one that holds a run is taken
    own_labs: bool = False  # they were named: what they do not hold is skipped, with a message
    others: Path = ROOT.parent / "shared" / "runs"  # runs that others recorded, with labels.yaml
    habits: tuple[Path, ...] = ()  # runs of the lab in other people's habits

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Places:
        """HERMES_TRACES, HERMES_RUNS, HERMES_LAB and HERMES_HABITS (the latter two hold several folders as in PATH).

        By default they lie next to and in the checkout. Raises InputError when one of the latter two names what is no
        folder: runs that were asked for are not skipped.
        """
        labs, habits = (_named(environment, name) for name in ("HERMES_LAB", "HERMES_HABITS"))
        return cls(
            traces=Path(environment.get("HERMES_TRACES", ROOT.parent / "shared" / "traces")),
            labs=labs or tuple(folder for folder in (RECORDED,) if folder.is_dir()),
            own_labs=bool(labs),
            others=Path(environment.get("HERMES_RUNS", cls.others)),
            habits=habits or tuple(folder for folder in (HABITS,) if folder.is_dir()),
        )


def _named(environment: Mapping[str, str], name: str) -> tuple[Path, ...]:
    folders = tuple(Path(folder) for folder in environment.get(name, "").split(os.pathsep) if folder)
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder} is no folder with recorded runs; correct {name} or unset it")
    return folders


@dataclass(frozen=True)
class Located:
    """The run's path, and step times before and after fixing where they are known."""

    path: Path
    measured: Measured | None = None


def missing_folder(case: Case, places: Places) -> str:
    """Return why the case has to be skipped (an optional folder is absent, or lacks its run), or nothing."""
    for ref in filter(None, (case.run, case.baseline)):
        if ref.traces is not None and not places.traces.is_dir():
            return "the folder with real traces is absent; set HERMES_TRACES"
        if ref.others is not None and not places.others.is_dir():
            return "the folder with runs of others is absent; set HERMES_RUNS"
        if ref.habits is not None and not places.habits:
            return "the folder with the lab's runs in other people's habits is absent; record them"
        if ref.lab is not None and not places.labs:
            return "the folder with lab runs is absent; record them (make lab) or set HERMES_LAB"
        if ref.lab is not None and places.own_labs and not any((each / ref.lab).exists() for each in places.labs):
            return f"{ref.lab} is not among the recordings that HERMES_LAB names"
    return ""


LEAST_SAVING_PCT = 5.0  # a fault that costs less is no problem to be found


def check_label(case: Case, measured: Measured | None) -> None:
    """Raises InputError when a case calls a problem what, by its own measurement, fixing hardly betters."""
    if measured is None or case.expected.verdict != ("problem",):
        return
    saving_pct = 100.0 * (1.0 - measured.after_ms / measured.before_ms)
    if saving_pct < LEAST_SAVING_PCT:
        raise InputError(f"the label of {case.id} does not hold: fixing saves only {saving_pct:.1f} %; strengthen it")
    if measured.speedup_low is not None and measured.speedup_low <= 1.0:
        raise InputError(f"the label of {case.id} does not hold: its saving lies within the noise; record it again")


def locate(ref: RunRef, places: Places, scratch: Path) -> Located:
    """The run on disk; generated or edited ones in ``scratch``. Raises InputError when it is not there."""
    if ref.synthetic is not None:
        spec, made = ref.synthetic, generate(ref.synthetic, scratch)
        if not spec.faults or spec.omit or (spec.traced_ranks is not None and spec.records is None):
            return Located(scratch)
        return Located(scratch, Measured(before_ms=made.step_ms, after_ms=fixed_step_ms(spec)))
    if ref.traces is not None:
        return Located(_present([places.traces / ref.traces]))
    if ref.demo is not None:
        path = demo_run() if ref.demo == "slow" else demo_fixed_run()
    elif ref.others is not None:
        path = _present([places.others / ref.others])
    elif ref.habits is not None:
        path = _present([folder / ref.habits for folder in places.habits])
    else:
        path = _present([folder / str(ref.lab) for folder in places.labs])
    if ref.edit.nothing:
        return Located(path, _of_pair(path))
    measured = _of_pair(path) if ref.edit == RunEdit(sources=ref.edit.sources) else None
    return Located(edited(path, ref.edit, scratch), measured)


def _present(candidates: Sequence[Path]) -> Path:
    if found := next((path for path in candidates if path.exists()), None):
        return found
    places = " or ".join(str(path) for path in candidates)
    raise InputError(f"the run of a case is missing: {places}; correct the case or restore the run")


def _of_pair(folder: Path) -> Measured | None:
    """Return what the lab measured before and after the fix, for the slow run of a pair."""
    if folder.name != "slow":
        return None
    file = folder.parent / "measured.json"
    try:
        pair = parse_json(file.read_text(encoding="utf-8"))
        return Measured(
            before_ms=pair["before_ms"]["median"],
            after_ms=pair["after_ms"]["median"],
            speedup_low=pair["speedup"]["low"],
            speedup_high=pair["speedup"]["high"],
            statistic=pair.get("statistic", "median"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file} does not hold the pair's measured step times ({error}); record it again") from error
