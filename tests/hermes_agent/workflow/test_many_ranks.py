"""A run of many traced ranks: all are summarized, some are read in full, and the answer is that of all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evals.benchmarks.many_ranks import ManyRanks, write
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import ignore
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from hermes_agent.workflow.workspace import screener_of
from tools.run.model import Run
from tools.sources.load import load_run
from tools.sources.options import LoadOptions, Silent
from tools.summaries.screen import Selection
from tools.views.arrivals import blame
from tools.views.profile import Profile

MANY = {"screened_from_ranks": 8.0, "most_ranks_in_full": 8.0}
RUN = ManyRanks(ranks=16, per_host=4, steps=3, layers=1, straggler=6, straggler_strength=0.4)
SLOW_HOST = (12, 13, 14, 15)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four hosts of four ranks; rank 6 has a slow device, the ranks of the last host wait for storage."""
    target = tmp_path_factory.mktemp("many")
    write(RUN, target)
    return target


@pytest.fixture(scope="module")
def request_of_many(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Request:
    """Asks for the diagnosis of the run with a lower limit; its summaries are made once."""
    cache = tmp_path_factory.mktemp("cache")
    return Request((folder,), thresholds=MANY, workers=1, cache_dir=cache)


@pytest.fixture(scope="module")
def screened(request_of_many: Request) -> Run:
    """The run as it is read for that request."""
    return screener_of(request_of_many).read(request_of_many.paths, Selection(), Silent())


@pytest.fixture(scope="module")
def diagnosis(request_of_many: Request, screened: Run) -> Diagnosis:
    """The diagnosis by screening; the summaries are there."""
    assert screened.screening is not None
    return diagnose(request_of_many, ignore)


def test_few_ranks_are_read_in_full_and_all_are_compared(screened: Run) -> None:
    screening = screened.screening
    assert screening is not None
    assert (screening.found, screening.summarized) == (16, 16)
    assert len(screened.ranks) <= 8
    assert tuple(sorted(screening.why)) == screened.rank_numbers
    assert len(screened.sources) == 16
    assert [group.ranks for group in screening.groups if group.differs] == [(6,), SLOW_HOST]


def test_the_first_cause_and_its_ranks_are_those_of_the_full_diagnosis(folder: Path, diagnosis: Diagnosis) -> None:
    full = diagnose(Request((folder,), workers=1, thresholds=MANY, ranks=tuple(range(16))), ignore)
    assert len(full.run.ranks) == 16
    assert diagnosis.verdict == full.verdict == "problem"
    first, expected = diagnosis.causes[0], full.causes[0]
    assert (first.cause, first.mechanism, first.ranks) == (expected.cause, expected.mechanism, expected.ranks)
    assert first.ranks == [6]
    assert first.impact_ms_per_step == pytest.approx(expected.impact_ms_per_step, rel=0.1)


def test_who_is_waited_for_is_as_among_all_ranks(folder: Path, screened: Run) -> None:
    expected = blame(Profile(load_run([folder], LoadOptions(workers=1))))
    found = blame(Profile(screened))
    assert found.index.tolist() == list(screened.rank_numbers)
    for column in ("caused_ns", "share", "steps", "waited_ns"):
        assert found[column].tolist() == pytest.approx(expected[column].loc[found.index].tolist())


def test_named_ranks_are_read_in_full_and_no_others(request_of_many: Request) -> None:
    run = screener_of(request_of_many).read(request_of_many.paths, Selection(ranks=(3, 9)), Silent())
    assert run.rank_numbers == (3, 9)
    assert run.screening is None
    assert len(run.sources) == 2


def test_fewer_ranks_than_the_limit_are_all_read_in_full(request_of_many: Request) -> None:
    few = replace(request_of_many, thresholds={"screened_from_ranks": 17.0})
    run = screener_of(few).read(few.paths, Selection(steps=(10, 11)), Silent())
    assert len(run.ranks) == 16
    assert run.screening is None
