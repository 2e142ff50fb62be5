"""Where one missing source would decide between hypotheses a person is asked once; nobody else ever waits."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import CheckFinished, Event, Notice, SourceWanted, ignore
from hermes_agent.model.request import Request
from hermes_agent.sessions.store import SessionStore
from hermes_agent.workflow.diagnose import diagnose
from hermes_agent.workflow.runner import run
from hermes_agent.workflow.way import Kept, Question, Way
from hermes_agent.workflow.workspace import Workspace
from tests.recorded_runs import records_of, step_rows
from tests.tools.judgement.test_leads import computing, pausing
from tools.analyzers.registry import CHECKS
from tools.analyzers.support.spec import CheckSpec
from tools.errors import InputError
from tools.findings import Check
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


@dataclass
class Answered:
    """The diagnoses before and after the answer, what was heard after it and asked, and which checks ran again."""

    first: Diagnosis
    last: Diagnosis
    heard: list[Event]
    asked: list[SourceWanted]
    again: list[str]


def answered(profile: Profile, cache: Path, answer: list[Path] | None, after: Profile | None = None) -> Answered:
    """Diagnose a profile; where a source is asked for, go on with the answer."""
    question = None if answer is None else Question()
    heard: list[Event] = []
    asked: list[SourceWanted] = []
    workspace = SwappingWorkspace(Request((Path("run"),), cache_dir=cache), _profiles=(profile, None))
    workspace.after = after
    state: dict[str, Any] = run(workspace, heard.append, Way(question=question), "")
    first = last = Diagnosis.model_validate(state["diagnosis"])
    while question is not None and question.wanted is not None:
        asked.append(question.wanted)
        heard.clear()
        question.answer = answer
        state = run(workspace, heard.append, Way(question=question), "")
        last = Diagnosis.model_validate(state["diagnosis"])
        if question.refused:
            assert question.wanted == asked[-1]
            break
    workspace.close()
    return Answered(first, last, heard, asked, state.get("asked_again", []))


def recorded_pausing(rare_ms: float) -> Profile:
    """The same run with monitor records, which show that its processes wait for a core half of the time."""
    steps = [step_rows(rank, [120.0, 120.0, 120.0, 120.0 + rare_ms] * 20) for rank in (0, 1)]
    rates = {rank: {"run_delay_us": 0.5e6, "training_run_delay_us": 0.5e6} for rank in (0, 1)}
    profile = pausing(rare_ms)
    return Profile(replace(profile.run, records=records_of(steps, rates)), profile.thresholds)


@pytest.fixture(scope="module")
def without(shared_cache: Path) -> Diagnosis:
    return answered(pausing(200.0), shared_cache, None).last


def test_who_skips_gets_the_answer_that_nobody_was_asked_for(shared_cache: Path, without: Diagnosis) -> None:
    found = answered(pausing(200.0), shared_cache, [])
    assert found.first == found.last == without
    (wanted,) = found.asked
    assert wanted.source == "monitor records"
    assert wanted.decides.endswith("(lead 1)")
    assert not [event for event in found.heard if isinstance(event, CheckFinished)]


def test_after_other_traces_all_is_asked_again_and_nobody_is_asked_a_second_time(
    shared_cache: Path, without: Diagnosis
) -> None:
    found = answered(pausing(200.0), shared_cache, [ATTACHED], pausing(0.0))
    assert len(found.asked) == 1
    assert found.first == without
    assert len(found.again) == len(CHECKS)
    assert found.last == answered(pausing(0.0), shared_cache, None).last


def test_after_monitor_records_only_the_checks_that_look_for_them_run_again(
    shared_cache: Path, without: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = recorded_pausing(200.0)
    ran: list[str] = []
    answer = CheckSpec.answer

    def counting(spec: CheckSpec, profile: Profile) -> Check | None:
        ran.append(spec.name)
        return answer(spec, profile)

    expected = answered(recorded_pausing(200.0), shared_cache, None).last
    monkeypatch.setattr(CheckSpec, "answer", counting)
    found = answered(pausing(200.0), shared_cache, [ATTACHED], recorded)
    assert sorted(ran[: len(CHECKS)]) == sorted(each.name for each in CHECKS)
    again = ran[len(CHECKS) :]
    assert sorted(again) == sorted(found.again)
    assert {"cpu.contention", "communication.retransmission"} <= set(again)
    assert not {"computation.precision", "memory.recomputation", "overlap.critical_path"} & set(again)
    assert found.first == without
    assert found.last == expected


def test_the_question_stays_after_a_source_that_adds_nothing(shared_cache: Path, without: Diagnosis) -> None:
    found = answered(pausing(200.0), shared_cache, [ATTACHED])
    assert found.last == without
    assert len(found.asked) == 1
    (notice,) = [event.text for event in found.heard if isinstance(event, Notice)]
    assert notice == "Not attached: /more: no further source of this run is there"


def test_a_single_hypothesis_is_no_reason_to_ask() -> None:
    profile = computing(2_000.0, True)
    contention = Hypothesis(1, "cpu_contention", None, (0,), 1, "compute", "every step", 10.0, 50.0, 0.3, "")
    other = replace(contention, number=2, cause="compute_bound")
    assert wanted_source(profile, [contention, other]) == WantedSource("monitor records", (), "CPU contention (lead 1)")
    assert wanted_source(profile, [contention]) is None
    assert wanted_source(profile, [contention, replace(other, status="refuted")]) is None
    assert wanted_source(profile, [other, replace(other, cause="underutilization")]) is None  # records decide neither


LINE = "iteration {step:8d}/ 1000 | samples: {samples} | elapsed time per iteration (ms): {ms:.1f} | lm loss: 2.0\n"


def write_log(path: Path, typical_ms: float, age_s: float) -> None:
    """The output of a job, written ``age_s`` seconds ago."""
    path.write_text(
        "".join(LINE.format(step=each, samples=512 * each, ms=typical_ms + 10 * (each % 5)) for each in range(1, 61))
    )
    os.utime(path, (time.time() - age_s,) * 2)


def step_ms(diagnosis: Diagnosis) -> int:
    return next(round(each.value) for each in diagnosis.evidence if each.metric == "series_step_ms")


@pytest.mark.parametrize("answer", [(), ("other.txt",)], ids=["skipped", "of no use"])
def test_an_answer_about_files_that_have_changed_begins_a_new_diagnosis(
    answer: tuple[str, ...], index_only: Path, tmp_path: Path
) -> None:
    log, other = tmp_path / "job.out", tmp_path / "other.txt"
    other.write_text("no trace\n")
    write_log(log, 2000.0, 100.0)
    request, question = Request((log,), cache_dir=index_only), Question()
    assert step_ms(diagnose(request, ignore, question=question)) == 2020
    assert question.wanted is not None
    write_log(log, 4000.0, 50.0)
    question.answer = [tmp_path / name for name in answer]
    assert step_ms(diagnose(request, ignore, question=question)) == 4020
    assert (question.wanted is not None) == bool(question.refused) == bool(answer)
    assert step_ms(diagnose(request, ignore)) == 4020  # what was stored


def test_an_answer_ends_with_the_call_that_failed(tmp_path: Path, index_only: Path) -> None:
    log = tmp_path / "job.out"
    write_log(log, 2000.0, 100.0)
    question = Question()
    diagnose(Request((log,), cache_dir=index_only), ignore, question=question)
    log.unlink()
    question.answer = [tmp_path / "records"]
    with pytest.raises(InputError, match=r"job\.out"):
        diagnose(Request((log,), cache_dir=index_only), ignore, question=question)
    assert question.answer is None


def test_a_question_outlives_its_process_and_is_answered_in_the_next(
    tmp_path: Path, shared_cache: Path, without: Diagnosis
) -> None:
    request = Request((Path("run"),), cache_dir=shared_cache)
    store = SessionStore(tmp_path)
    kept = Kept(store, store.new(request))

    def made(profile: Profile, question: Question) -> Diagnosis:
        workspace = SwappingWorkspace(request, _profiles=(profile, None))
        workspace.after = recorded_pausing(200.0)
        state = run(workspace, ignore, Way(kept=kept, question=question), "")
        workspace.close()
        return Diagnosis.model_validate(state["diagnosis"])

    assert made(pausing(200.0), Question()) == without
    later = Question()  # of another process, which has the stored state alone
    assert made(pausing(200.0), later) == without
    assert later.wanted is not None
    assert store.pending(kept.session) == later.wanted.question
    later.answer, later.workspace = [ATTACHED], None
    after = made(pausing(200.0), later)
    assert after == answered(recorded_pausing(200.0), shared_cache, None).last
    assert later.wanted is None
    store.close()
