"""Samples that a job printed into its output before its first step."""

from __future__ import annotations

from tools.run.model import Run

# The parts of a pasted text: lines keep their numbers in both.
PASTED_LOG, PASTED_TABLES = "pasted.log", "pasted-device-table.log"


def first_step_line(run: Run, name: str) -> int | None:
    """The line of the first step in an output of that name; None where it holds no steps, or several have the name."""
    log = run.job_log
    places = [] if log is None else [place for place, own in enumerate(log.files) if _last(own) == name]
    if log is None or len(places) != 1:
        return None
    lines = log.steps.loc[(log.steps["file"] == places[0]).to_numpy(), "line"]
    return None if lines.empty else int(lines.min())


def sampled_before_steps(run: Run) -> frozenset[int]:
    """The files of samples, by place, whose readings are in a job's output and all before its first step line."""
    if run.counters is None:
        return frozenset()
    found = set()
    for file, source in enumerate(run.counters.sources):
        name = _last(source.path)
        first = first_step_line(run, PASTED_LOG if name == PASTED_TABLES else name)
        lines = run.counters.samples.loc[(run.counters.samples["file"] == file).to_numpy(), "line"]
        if first is not None and len(lines) and int(lines.max()) < first:
            found.add(file)
    return frozenset(found)


def _last(path: str) -> str:
    return path.rpartition("/")[2]
