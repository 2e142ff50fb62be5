"""A toy check, metric, cause and source are added through exactly the files that CONTRIBUTING names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("tools", "hermes_agent", "case_library", "prompts")

CHECK = '''
"""Are there toys?"""

from __future__ import annotations

from tools.analyzers.support.answers import found, say
from tools.analyzers.support.figures import saving
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding
from tools.metrics.registry import measure
from tools.views.profile import Profile


@check("parallel.toys", "Toys", "Are there toys in the steps?", causes=("toy_cause",), from_records="steps")
def toys(profile: Profile) -> Check:
    """Finds toys in every run."""
    claim = say("Toys take a part of {0}.", measure(profile, "toy_step_ms"))
    return found(Finding("toy_cause", claim, 0.9, ranks=(0,), saving=saving(profile, 20.0, 0.5, 1.1, "toys")))
'''
METRIC = '''

@metric("ms", "toy step time", "How long is a step with toys?")
def toy_step_ms(profile: Profile) -> Measurement:
    """The mean step, toys included."""
    assert profile.series is not None
    return Measurement(profile.series.mean_ms, (), "the steps of the toys")
'''
SOURCE = '''
"""Toy logs: one step time in ms per line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat


def read_toys(found: Sequence[FolderFiles], _: Anchor) -> Contribution:
    """The steps of one rank."""
    import pandas as pd

    from tools.run.model import Source

    path = found[0].files[0]
    wall = pd.Series([float(line) for line in path.read_text().split()])
    table = pd.DataFrame({"rank": 0, "step": range(len(wall)), "wall_ms": wall, "samples": 1.0, "tokens": 1.0})
    return Contribution(step_log=table.assign(loss=1.0), sources=(Source(path, "toys", (0,), "complete"),))


TOYS = RecordFormat("toys", re.compile(r"toys\\.txt\\Z"), read_toys)
'''
CAUSE = """
  toy_cause:
    title: Toys
    family: parallel
    source: field
    signals: [toys in the steps]
    optimizations: [put the toys away]
    advice:
      - optimization: Put the toys away
        how: put them into their box
        effort: 1
        risk: none
        verify: the steps are shorter
"""
PAGE = (ROOT / "case_library/playbooks/data_skew.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages with the toys added, and a run of one toy log."""
    root = tmp_path_factory.mktemp("extended")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package)
    (root / "docs").mkdir()
    (root / "run").mkdir()
    (root / "run/toys.txt").write_text("\n".join(str(100 + step % 3) for step in range(60)))
    # a check: its module and the registry (the page is written)
    (root / "tools/analyzers/overlap/toys.py").write_text(CHECK)
    checks = root / "tools/analyzers/registry.py"
    _import(checks, "from tools.analyzers.storage", "from tools.analyzers.overlap.toys import toys")
    _replace(checks, "    (critical_path.critical_path,),\n", "    (critical_path.critical_path, toys),\n")
    # a metric: its module
    with (root / "tools/metrics/step_time.py").open("a") as file:
        file.write(METRIC)
    # a cause: its entry and its page
    _replace(root / "tools/knowledge/causes.yaml", "\ncauses:\n", f"\ncauses:{CAUSE}")
    (root / "case_library/playbooks/toy_cause.md").write_text(PAGE)
    # a source: its module and the registry
    (root / "tools/sources/toys.py").write_text(SOURCE)
    registry = root / "tools/sources/registry.py"
    _replace(
        registry, "from tools.sources.step_log", "from tools.sources.toys import TOYS\nfrom tools.sources.step_log"
    )
    _replace(registry, "RECORDS: tuple[RecordFormat, ...] = (", "RECORDS: tuple[RecordFormat, ...] = (TOYS, ")
    return root


def _import(path: Path, before: str, line: str) -> None:
    _replace(path, before, f"{line}\n{before}")


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def run(root: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(root), "HERMES_DX_CACHE_DIR": str(root / "cache")}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_toys_are_read_found_and_ranked(extended: Path) -> None:
    diagnosis = json.loads(run(extended, "-m", "hermes_agent.cli.main", "diagnose", "run", "--json", "--no-llm"))
    assert [source["format"] for source in diagnosis["run"]["sources"]] == ["toys"]
    assert {check["analyzer"]: check["status"] for check in diagnosis["checks"]}["parallel.toys"] == "found"
    (cause,) = diagnosis["causes"]
    assert (cause["cause"], cause["family"], cause["check"]) == ("toy_cause", "parallel", "parallel.toys")
    assert diagnosis["advice"][0]["optimization"] == "Put the toys away"
    assert "toy_step_ms" in {evidence["metric"] for evidence in diagnosis["evidence"]}


def test_the_toys_are_on_the_page_and_in_what_is_looked_for(extended: Path) -> None:
    run(extended, "-m", "tools.analyzers.page", "--write")
    assert "| Toys<br>`parallel.toys` | Are there toys in the steps? | `toy_cause` |" in (
        extended / "docs/checks.md"
    ).read_text(encoding="utf-8")
    asked = "from tools.analyzers.registry import checks_for; print(checks_for('toy_cause'))"
    assert run(extended, "-c", asked).strip() == "('parallel.toys',)"
