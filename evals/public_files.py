"""Hermes on every entry of the manifest of public files: ``python -m evals.public_files [PATTERN ...]``.

For each: which reader took it, verdict and first cause against the label, and every figure of ``facts`` that has a
metric (``public_files.yaml``). What the manifest does not label is shown and not judged.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from evals.results.tables import table
from evals.suite.run_places import Places
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.report.headline import headline_cause
from hermes_agent.workflow.diagnose import diagnose
from tools.documents import parse_yaml
from tools.errors import HermesError
from tools.judgement.catalog import measure
from tools.sources.load import load_run
from tools.views.profile import Profile

HELD = Path(__file__).with_suffix(".yaml")
ROUNDING = 0.51  # of the last digit that a fact states


class HeldFact(BaseModel):
    """How a fact is measured; without ``of_run`` on the first rank unless the arguments name one."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    metric: str
    arguments: dict[str, str | int] = {}
    times: float = 1.0
    of_run: bool = False


class HeldFile(BaseModel):
    """What is asked of one entry, apart from its label: the cause that the headline names is the first one."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    formats: tuple[str, ...] = ("kineto",)
    cause: str = ""
    verdicts: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    what: str = ""
    defined_otherwise: dict[str, float] = {}  # our figure of a fact that its author defines otherwise


class Held(BaseModel):
    """The file of both."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    facts: dict[str, HeldFact]
    files: dict[str, HeldFile]


class Label(BaseModel):
    """The label of an entry; what is not listed here is a remark."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    verdict: str = ""
    cause: str = ""
    mechanism: str = ""
    family: str = ""
    fault_ranks: tuple[int, ...] = ()


class Entry(BaseModel):
    """One entry of the manifest."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    path: str
    what: str = ""
    label: Label = Label()
    facts: dict[str, Any] = {}


@dataclass(frozen=True)
class Outcome:
    """What Hermes says of one entry; ``faults`` is what differs from label and facts."""

    path: str
    formats: tuple[str, ...] = ()
    verdict: str = ""
    cause: str = ""
    figures: int = 0  # facts that agree
    otherwise: tuple[str, ...] = ()  # figures that agree with ours, where the author defines the fact otherwise
    faults: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)


def manifest(folder: Path) -> list[Entry]:
    """The entries of the manifest in a folder."""
    listed: Any = yaml.safe_load((folder / "manifest.yaml").read_text("utf-8"))
    return [Entry.model_validate(each) for each in listed]


def held() -> Held:
    """What is asked of the entries."""
    return Held.model_validate(parse_yaml(HELD.read_text("utf-8")))


def judged(folder: Path, entry: Entry, asked: Held) -> Outcome:
    """Diagnose one entry, and hold its label and facts against the answer."""
    begun = time.perf_counter()
    path, own = folder / entry.path, asked.files.get(entry.path, HeldFile())
    try:
        found = diagnose(Request((path,)), lambda _: None)
    except HermesError as error:
        wrong = () if not own.formats else (f"not read: {error}",)
        return Outcome(entry.path, verdict="refused", faults=wrong, seconds=time.perf_counter() - begun)
    formats = tuple(dict.fromkeys(each.format for each in found.run.sources if each.status != "excluded"))
    facts = {name: value for name, value in entry.facts.items() if name in asked.facts and name not in own.skip}
    stated = {name: value for name, value in facts.items() if name not in own.defined_otherwise}
    ours = {name: value for name, value in own.defined_otherwise.items() if name in facts}
    off = list(_figures(path, stated, asked.facts) if stated else ())
    off_ours = list(_figures(path, ours, asked.facts) if ours else ())
    differing = {each.partition(" ")[0].rstrip(":") for each in off_ours}
    return Outcome(
        path=entry.path,
        formats=formats,
        verdict=found.verdict,
        cause=_first(found),
        figures=len(stated) - len(off),
        otherwise=tuple(f"{name} {ours[name]}, stated {facts[name]}" for name in ours if name not in differing),
        faults=(*_reader(formats, own), *_label(found, entry.label, own), *off, *off_ours),
        seconds=time.perf_counter() - begun,
    )


def _first(found: Diagnosis) -> str:
    if (first := headline_cause(found)) is None:
        return ""
    ranks = f" on ranks {', '.join(map(str, first.ranks))}" if first.ranks else ""
    return f"{first.cause}{f'/{first.mechanism}' if first.mechanism else ''}{ranks}"


def _reader(formats: Sequence[str], own: HeldFile) -> Iterator[str]:
    if missing := [each for each in own.formats if not any(name.startswith(each) for name in formats)]:
        yield f"read as {', '.join(formats) or 'nothing'}, not {', '.join(missing)}"


def _label(found: Diagnosis, label: Label, own: HeldFile) -> Iterator[str]:
    wanted = own.verdicts or ((label.verdict,) if label.verdict else ())
    if wanted and found.verdict not in wanted:
        yield f"verdict {found.verdict}, labelled {' or '.join(wanted)}"
    first = headline_cause(found)
    cause = label.cause or own.cause
    if cause and (first is None or first.cause != cause):
        yield f"first cause {'none' if first is None else first.cause}, labelled {cause}"
    elif label.mechanism and first is not None and first.mechanism != label.mechanism:
        yield f"mechanism {first.mechanism or 'none'}, labelled {label.mechanism}"
    if label.family and label.family not in {each.family for each in found.causes}:
        yield f"no cause of the family {label.family}"
    if label.fault_ranks:
        named = "ranks " + " and ".join(map(str, label.fault_ranks))
        if not any(named.lower() in text.lower() for text in (found.headline, *found.answer)):
            yield f"the answer does not name {named}"


def _figures(path: Path, facts: Mapping[str, float], known: Mapping[str, HeldFact]) -> Iterator[str]:
    """The facts that are measured otherwise: by more than the last digit that they state."""
    profile = Profile(load_run([path]))
    ranks = profile.run.rank_numbers
    for name, value in facts.items():
        how = known[name]
        own = {} if how.of_run or "rank" in how.arguments or not ranks else {"rank": ranks[0]}
        try:
            measured = how.times * measure(profile, how.metric, **{**how.arguments, **own}).value
        except HermesError as error:
            yield f"{name}: {error}"
            continue
        if abs(measured - value) > ROUNDING * 10.0 ** -_decimals(value):
            yield f"{name} {measured:.6g}, stated {value}"


def _decimals(value: float) -> int:
    return len(str(value).partition(".")[2])


def main(patterns: Sequence[str]) -> int:
    """Print the table; 1 where anything differs."""
    folder, asked = Places.from_environment(os.environ).traces, held()
    if not (folder / "manifest.yaml").is_file():
        sys.stderr.write(f"{folder} holds no manifest.yaml; set HERMES_TRACES to the folder of the public files\n")
        return 2
    entries = [each for each in manifest(folder) if not patterns or any(fnmatchcase(each.path, p) for p in patterns)]
    rows = [judged(folder, each, asked) for each in entries]
    head = ("file", "read as", "verdict", "first cause", "figures", "defined otherwise", "s", "differs")
    cells = [
        (
            *(row.path, ", ".join(row.formats), row.verdict, row.cause, row.figures),
            *("; ".join(row.otherwise), f"{row.seconds:.1f}", "; ".join(row.faults)),
        )
        for row in rows
    ]
    sys.stdout.write("\n".join(table(head, cells)))
    wrong = sum(bool(row.faults) for row in rows)
    sys.stdout.write(f"{len(rows) - wrong} of {len(rows)} entries as labelled\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
