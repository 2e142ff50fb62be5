"""Where one missing source would decide between hypotheses a person is asked once; nobody else ever waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import CheckFinished, Event, Notice, SourceWanted
from hermes_agent.model.request import Request
from hermes_agent.workflow.runner import run
from hermes_agent.workflow.way import Way
from hermes_agent.workflow.workspace import Workspace
from tests.tools.judgement.test_leads import computing, pausing
from tools.analyzers.registry import CHECKS
from tools.errors import InputError
from tools.judgement.hypotheses import Hypothesis
from tools.judgement.wanted_source import WantedSource, wanted_source
from tools.views.profile import Profile

ATTACHED = Path("/more")


class SwappingWorkspace(Workspace):
    """A workspace in which an attached source makes another run of it."""

    after: Profile | None = None

    def attach(self, paths: Sequence[Path]) -> None:
        assert list(paths) == [ATTACHED]
        if self.after is None:
            raise InputError(f"{ATTACHED}: no further source of this run is there")
        self._profiles = (self.after, None)


def answered(
    profile: Profile, cache: Path, answers: list[list[Path]] | None, after: Profile | None = None
) -> tuple[Diagnosis, list[Event], list[SourceWanted]]:
    """The diagnosis of a profile, what was heard after the question, and what was asked."""
    heard: list[Event] = []
    asked: list[SourceWanted] = []

    def ask(wanted: SourceWanted) -> list[Path]:
        assert answers is not None
        asked.append(wanted)
        heard.clear()
        return answers.pop(0)

    workspace = SwappingWorkspace(Request((Path("run"),), cache_dir=cache), _profiles=(profile, None))
    workspace.after = after
    try:
        state: dict[str, Any] = run(workspace, heard.append, Way(ask=None if answers is None else ask), "")
    finally:
        workspace.close()
    return Diagnosis.model_validate(state["diagnosis"]), heard, asked


@pytest.fixture(scope="module")
def without(shared_cache: Path) -> Diagnosis:
    return answered(pausing(200.0), shared_cache, None)[0]


def test_who_skips_gets_the_answer_that_nobody_was_asked_for(shared_cache: Path, without: Diagnosis) -> None:
    diagnosis, heard, (wanted,) = answered(pausing(200.0), shared_cache, [[]])
    assert diagnosis == without
    assert wanted.source == "monitor records"
    assert wanted.decides.endswith("(lead 1)")
    assert not [event for event in heard if isinstance(event, CheckFinished)]


def test_after_an_attached_source_only_changed_checks_are_reported_and_nobody_is_asked_again(
    shared_cache: Path,
) -> None:
    other = pausing(0.0)
    diagnosis, heard, asked = answered(pausing(200.0), shared_cache, [[ATTACHED]], other)
    assert len(asked) == 1
    changed = {event.analyzer for event in heard if isinstance(event, CheckFinished)}
    assert 0 < len(changed) < len(CHECKS)
    expected = answered(pausing(0.0), shared_cache, None)[0]
    assert (diagnosis.checks, diagnosis.leads) == (expected.checks, expected.leads)
    assert diagnosis.hypotheses == expected.hypotheses


def test_a_source_that_cannot_be_read_costs_one_notice(shared_cache: Path, without: Diagnosis) -> None:
    diagnosis, heard, asked = answered(pausing(200.0), shared_cache, [[ATTACHED]])
    assert diagnosis == without
    assert len(asked) == 1
    (notice,) = [event.text for event in heard if isinstance(event, Notice)]
    assert notice == "Not attached: /more: no further source of this run is there"


def test_a_single_hypothesis_is_no_reason_to_ask() -> None:
    profile = computing(2_000.0, True)
    contention = Hypothesis(1, "cpu_contention", None, (0,), 1, "compute", "every step", 10.0, 50.0, 0.3, "")
    other = replace(contention, number=2, cause="compute_bound")
    assert wanted_source(profile, [contention, other]) == WantedSource("monitor records", (), "CPU contention (lead 1)")
    assert wanted_source(profile, [contention]) is None
    assert wanted_source(profile, [contention, replace(other, status="refuted")]) is None
    assert wanted_source(profile, [other, replace(other, cause="underutilization")]) is None  # records decide neither
