"""A run of many traced ranks: all are summarized, some are read in full, and the answer is that of all."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import pytest

from evals.benchmarks.many_ranks import ManyRanks, write
from hermes_agent.config.settings import Settings
from hermes_agent.evidence.ledger import Ledger, render
from hermes_agent.locations.reading import read_run, screener_of
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.display import rank_list
from hermes_agent.model.events import DiagnosisReady, Event, NotStored, ignore
from hermes_agent.model.request import Request
from hermes_agent.report.answer_basis import screened
from hermes_agent.report.markdown import render_markdown
from hermes_agent.report.text import render_text
from hermes_agent.session import Session
from hermes_agent.workflow.diagnose import diagnose
from tests.asked import ask
from tools.errors import InputError, UsageError
from tools.run.model import Run
from tools.sources.load import load_run
from tools.sources.options import LoadOptions, Silent
from tools.sources.workers import Lost
from tools.sources.workers import Request as Work
from tools.summaries.executor import Executor
from tools.views.communication.arrivals import blame
from tools.views.profile import Profile

MANY = {"screened_from_ranks": 8.0, "most_ranks_in_full": 8.0}
FEW = {"screened_from_ranks": 8.0, "most_ranks_in_full": 4.0}  # where it does not matter which are read in full
RUN = ManyRanks(ranks=16, per_host=4, steps=3, layers=1, straggler=6, straggler_strength=0.4)
SLOW_HOST = (12, 13, 14, 15)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four hosts of four ranks; rank 6 has a slow device, the ranks of the last host wait for storage."""
    target = tmp_path_factory.mktemp("many")
    write(RUN, target)
    return target


@pytest.fixture(scope="module")
def request_of_many(folder: Path, tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Request:
    """Asks for the diagnosis of the run with a lower limit; its summaries are made once."""
    cache = shutil.copytree(prepared, tmp_path_factory.mktemp("cache"), dirs_exist_ok=True)
    return Request((folder,), thresholds=MANY, workers=1, cache_dir=cache)


@pytest.fixture(scope="module")
def read(request_of_many: Request) -> Run:
    """The run as it is read for that request."""
    return read_run(request_of_many, Silent())


@pytest.fixture(scope="module")
def diagnosis(request_of_many: Request, read: Run) -> Diagnosis:
    """The diagnosis by screening; the summaries are there."""
    assert read.screening is not None
    return diagnose(request_of_many, ignore)


def test_few_ranks_are_read_in_full_and_all_are_compared(read: Run) -> None:
    screening = read.screening
    assert screening is not None
    assert (screening.found, screening.summarized) == (16, 16)
    assert len(read.ranks) <= 8
    assert tuple(sorted(screening.why)) == read.rank_numbers
    assert len(read.sources) == 16
    assert [group.ranks for group in screening.groups if group.differs] == [(6,), SLOW_HOST]


def test_the_first_cause_and_its_ranks_are_those_of_the_full_diagnosis(
    request_of_many: Request, diagnosis: Diagnosis
) -> None:
    full = diagnose(replace(request_of_many, ranks=tuple(range(16))), ignore)
    assert len(full.run.ranks) == 16
    assert diagnosis.verdict == full.verdict == "problem"
    first, expected = diagnosis.causes[0], full.causes[0]
    assert (first.cause, first.mechanism, first.ranks) == (expected.cause, expected.mechanism, expected.ranks)
    assert first.ranks == [6]
    assert first.impact_ms_per_step == pytest.approx(expected.impact_ms_per_step, rel=0.1)


def test_who_is_waited_for_is_as_among_all_ranks(folder: Path, read: Run) -> None:
    expected = blame(Profile(load_run([folder], LoadOptions(workers=1))))
    found = blame(Profile(read))
    assert found.index.tolist() == list(read.rank_numbers)
    for column in ("caused_ns", "share", "steps", "waited_ns"):
        assert found[column].tolist() == pytest.approx(expected[column].loc[found.index].tolist())


def test_named_ranks_are_read_in_full_and_no_others(request_of_many: Request) -> None:
    run = read_run(replace(request_of_many, ranks=(3, 9)), Silent())
    assert run.rank_numbers == (3, 9)
    assert run.screening is None
    assert len(run.sources) == 2


def test_a_rank_compared_by_summary_says_how_to_read_it_in_full(read: Run) -> None:
    unread = next(rank for rank in range(16) if rank not in read.rank_numbers)
    with pytest.raises(UsageError, match=f"^rank {unread} was compared by summary .*; add --ranks {unread}$"):
        read.rank(unread)
    with pytest.raises(UsageError, match="the run has no rank 16"):
        read.rank(16)


def test_ranks_asked_about_share_a_sentence_and_those_read_are_not_called_unread(
    request_of_many: Request, diagnosis: Diagnosis
) -> None:
    cache = request_of_many.cache_dir
    assert cache is not None
    read = [rank for rank in SLOW_HOST if rank in diagnosis.run.ranks]
    unread = [rank for rank in SLOW_HOST if rank not in read]
    assert read
    assert unread
    with Session(request_of_many, Settings(cache_dir=cache)) as session:
        session.diagnose(ignore)
        of_host = session.ask("why are ranks 12 to 15 slow?", ignore).text
        of_two = session.ask("why are ranks 6 and 12 to 15 slow?", ignore).text
    expected = rank_list(unread).capitalize()
    assert of_host.startswith(f"{expected} {'was' if len(unread) == 1 else 'were'} compared by summary only; ")
    assert of_host.count("compared by summary only") == of_two.count("compared by summary only") == 1
    assert f"of these, {rank_list(read)} read in full" in of_host
    assert "Rank 6 was read in full; it looks like rank 6 (1)" in of_two


def test_a_rank_of_the_job_without_a_trace_is_noted_unless_ranks_were_chosen(
    folder: Path, tmp_path: Path, request_of_many: Request, diagnosis: Diagnosis
) -> None:
    assert not any("have a trace" in note for note in diagnosis.notes)
    run = tmp_path / "run"
    shutil.copytree(folder, run)
    (run / "rank9.pt.trace.json.gz").unlink()
    found = diagnose(replace(request_of_many, paths=(run,), thresholds=FEW), ignore)
    assert any("15 of the job's 16 ranks have a trace that could be read (rank 9 has" in each for each in found.notes)
    assert "15 of 16 ranks (" in render_text(found).splitlines()[0]
    assert "rank 9 has none" in render_text(found)
    two = diagnose(replace(request_of_many, ranks=(3, 9)), ignore)
    assert not any("have a trace" in note for note in two.notes)


def test_both_bases_of_the_waiting_for_a_straggler_are_named(read: Run) -> None:
    said = [each.claim.template for each in ask(Profile(read), "communication.arrival_skew").findings]
    assert any("the ranks read in full wait {0} per step for it" in text for text in said)
    assert any("{1} of the waiting of all ranks" in text for text in said)


def test_fewer_ranks_than_the_limit_are_all_read_in_full(request_of_many: Request) -> None:
    few = replace(request_of_many, thresholds={"screened_from_ranks": 17.0}, steps=(10, 11))
    run = read_run(few, Silent())
    assert len(run.ranks) == 16
    assert run.screening is None


def test_the_answer_says_on_how_many_ranks_it_rests_and_lists_groups(diagnosis: Diagnosis) -> None:
    record = diagnosis.run.screening
    assert record is not None
    assert (record.found, record.summarized) == (16, 16)
    assert [each.rank for each in record.read_in_full] == diagnosis.run.ranks
    assert [(each.ranks, each.count) for each in record.groups if each.differs] == [([(6, 6)], 1), ([(12, 15)], 4)]
    assert record.waited_for[0].rank == 6
    said = " ".join(diagnosis.answer)
    assert re.search(r"rests on 16 \[E\d+\] of 16 \[E\d+\] traced ranks, compared by summary; \d \[E\d+\] were", said)
    for text in (render_text(diagnosis), render_markdown(diagnosis), render_text(diagnosis, verbose=True)):
        assert "ranks 12 to 15" in text
        assert "rank 6" in text
    assert "16 ranks (" in render_text(diagnosis).splitlines()[0]


def test_figures_of_the_ranks_read_in_full_are_not_said_of_all(read: Run) -> None:
    profile = Profile(read)
    level, exposed = (ask(profile, name).support[0].template for name in ("step_time.level", "communication.exposed"))
    assert "among those read in full" in level
    assert exposed.startswith("On the ranks read in full: ")


def test_ranks_of_the_job_without_a_trace_are_said_next_to_the_ranks_an_answer_rests_on(read: Run) -> None:
    missing = replace(read, layout=replace(read.layout, world_size=17))
    assert not any("no trace" in each.template for each in screened(Profile(read)))
    assert screened(Profile(missing))[0].template.endswith("Other ranks of the job have no trace.")


def test_a_cause_on_ranks_that_stand_for_a_group_names_the_group(tmp_path: Path, shared_cache: Path) -> None:
    host = ManyRanks(ranks=16, per_host=4, steps=3, layers=1, straggler_strength=0.001, slow_host_strength=0.6)
    write(replace(host, straggler=6), tmp_path)
    found = diagnose(Request((tmp_path,), thresholds=FEW, workers=1, cache_dir=shared_cache), ignore)
    first = found.causes[0]
    assert first.stands_for == [(12, 15)]
    assert set(first.ranks) < set(SLOW_HOST)
    assert "on ranks 12 to 15" in found.headline
    assert first.where.startswith("ranks 12 to 15")
    assert any("look alike by summary" in detail for detail in first.details)


def test_a_trace_that_cannot_be_read_is_counted_and_named(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder, run)
    (run / "rank9.pt.trace.json.gz").write_bytes(b"no trace")
    found = read_run(Request((run,), thresholds=MANY, workers=1), Silent())
    assert found.screening is not None
    assert (found.screening.found, found.screening.summarized) == (16, 15)
    assert [each.name for each in found.screening.unread] == ["rank9.pt.trace.json.gz"]
    said = [render(each, Ledger()) for each in screened(Profile(found))]
    assert said[1] == "Not read: `rank9.pt.trace.json.gz` (-v says why)."


def test_ranks_that_exchange_nothing_are_screened_without_a_failing_check(
    folder: Path, tmp_path: Path, shared_cache: Path
) -> None:
    for path in folder.glob("*.gz"):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        names = [each.get("name", "").lower() for each in trace["traceEvents"]]
        alone = [not ("nccl" in name or "record_param" in name) for name in names]
        trace["traceEvents"] = list(compress(trace["traceEvents"], alone))
        (tmp_path / path.name).write_bytes(gzip.compress(json.dumps(trace).encode()))
    made = diagnose(Request((tmp_path,), thresholds=FEW, workers=1, cache_dir=shared_cache), ignore)
    assert made.run.screening is not None
    assert not [check for check in made.checks if "stopped" in check.reason]


@dataclass(frozen=True)
class Losing:
    """Answers in this process, all but some places, as if their workers were killed."""

    places: tuple[int, ...]

    def map(self, requests: Sequence[Work]) -> Iterator[tuple[int, object]]:
        """Yield place and answer, in order."""
        for place, request in enumerate(requests):
            yield place, Lost(2) if place in self.places else request.answer()


def use(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Summaries are made by this executor."""
    monkeypatch.setattr(
        "hermes_agent.locations.reading.screener_of", lambda each: replace(screener_of(each), executor=executor)
    )


def test_a_rank_lost_with_its_worker_is_tried_again(request_of_many: Request, index_only: Path) -> None:
    wanted, events = replace(request_of_many, cache_dir=index_only, thresholds=FEW), list[Event]()
    with pytest.MonkeyPatch.context() as patch:
        use(Losing((3, 9)), patch)
        lost = diagnose(wanted, events.append)
    assert lost.run.screening is not None
    assert (lost.run.screening.found, lost.run.screening.summarized) == (16, 14)
    assert [event.text for event in events if isinstance(event, NotStored)] == [
        "A trace that was left out may be read the next time, so this answer was not stored."
    ]
    whole = diagnose(wanted, ignore)
    assert whole.run.screening is not None
    assert (whole.run.screening.found, whole.run.screening.summarized) == (16, 16)
    diagnose(wanted, events.append)
    last = events[-1]
    assert isinstance(last, DiagnosisReady)
    assert last.cached


def test_ranks_that_kill_every_worker_are_not_read_in_this_process(
    request_of_many: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Losing(tuple(range(16))), monkeypatch)
    with pytest.raises(InputError, match=r"none of the 16 files can be used; the first: .* was killed"):
        read_run(request_of_many, Silent())


def test_a_named_folder_that_takes_no_summary_ends_the_work(request_of_many: Request, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: takes no file"):
        read_run(replace(request_of_many, summaries=str(tmp_path / "file")), Silent())


def test_a_cache_that_takes_no_summary_costs_a_note(request_of_many: Request, read: Run, tmp_path: Path) -> None:
    (tmp_path / "summaries").write_text("")
    found = read_run(replace(request_of_many, cache_dir=tmp_path), Silent())
    assert found.screening is not None
    assert (found.screening.summarized, found.rank_numbers) == (16, read.rank_numbers)
    assert [note for note in found.notes if "takes no file" in note] == [
        f"{tmp_path / 'summaries'}: takes no file; check its permissions and the space left; "
        "the summaries of this run were not kept"
    ]


def test_summaries_are_made_in_the_folder_that_is_named_also_where_the_answer_is_stored(
    request_of_many: Request, diagnosis: Diagnosis, tmp_path: Path
) -> None:
    found = diagnose(replace(request_of_many, summaries=str(tmp_path)), ignore)
    assert len(list(tmp_path.iterdir())) == 16
    assert found.headline == diagnosis.headline


def test_of_many_cut_traces_the_first_are_read(folder: Path, tmp_path: Path, shared_cache: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = diagnose(Request((tmp_path,), thresholds=MANY, workers=1, cache_dir=shared_cache), ignore)
    assert (found.verdict, found.run.cut_ranks) == ("inconclusive", list(range(16)))
