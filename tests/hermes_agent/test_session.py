"""A session on the bundled run: figures measured again, ids that stay, and questions that are cancelled."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_fixed_run, demo_run
from hermes_agent.evidence.citations import written
from hermes_agent.evidence.index import EvidenceIndex
from hermes_agent.evidence.session_ids import figure_key
from hermes_agent.model.diagnosis import EvidenceRecord, HypothesisRecord, SourceSelector
from hermes_agent.model.events import Event, Notice, StageProgress, ToolCalled, ignore
from hermes_agent.model.request import Request
from hermes_agent.model.turn import ToolCallRecord, Turn
from hermes_agent.questions.answers.evidence_lookup import OF_EARLIER
from hermes_agent.session import Cancelled, Session
from hermes_agent.sessions.store import SessionStore
from hermes_agent.statements.question import earlier_turns
from hermes_agent.workflow.way import Kept
from tools.errors import InputError, UsageError


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Path:
    return Path(shutil.copytree(prepared, tmp_path_factory.mktemp("cache"), dirs_exist_ok=True))


@pytest.fixture
def session(cache: Path) -> Iterator[Session]:
    with opened(cache) as session:
        yield session


def opened(cache: Path) -> Session:
    session = Session(Request(paths=(demo_run(),), cache_dir=cache), Settings(cache_dir=cache))
    session.diagnose(ignore)
    return session


def test_every_figure_of_the_diagnosis_comes_out_the_same_when_measured_again(session: Session) -> None:
    shown = [session.show(record.id) for record in session.diagnosis.evidence]
    assert [each.id for each in shown if not each.agrees] == []
    assert [each.again for each in shown] == pytest.approx([record.value for record in session.diagnosis.evidence])


def test_at_most_twenty_rows_are_shown_with_their_total(session: Session) -> None:
    tables = [table for record in session.diagnosis.evidence if (table := session.show(record.id).table)]
    assert max(len(table.rows) for table in tables) <= 20
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
    assert all(table.total >= len(table.rows) for table in tables)
    assert max(table.total for table in tables) > 20


def test_a_stored_figure_that_is_off_is_called_out(session: Session, cache: Path) -> None:
    first = session.diagnosis.evidence[0]
    wrong = first.model_copy(update={"value": first.value * (1 + 1e-6)})
    altered = session.diagnosis.model_copy(update={"evidence": [wrong, *session.diagnosis.evidence[1:]]})
    with Session(session.request, Settings(cache_dir=cache), altered) as other:
        shown = other.show(first.id)
    assert shown.agrees is False
    assert shown.again == first.value
    assert any("NOT what is stored" in line for line in shown.lines)


def test_a_metric_that_no_longer_exists_is_named(session: Session, cache: Path) -> None:
    first = session.diagnosis.evidence[0].model_copy(update={"metric": "gone_ms"})
    altered = session.diagnosis.model_copy(update={"evidence": [first]})
    with (
        Session(session.request, Settings(cache_dir=cache), altered) as other,
        pytest.raises(UsageError, match="gone_ms"),
    ):
        other.show(first.id)


def test_figures_measured_for_an_answer_can_be_shown_later(session: Session) -> None:
    last = session.diagnosis.evidence[-1].id
    answer = session.ask("breakdown of rank 1", ignore)
    new = [record.id for record in answer.evidence if int(record.id[1:]) > int(last[1:])]
    assert new
    assert all(session.show(name).agrees for name in new)


def test_the_session_says_that_it_reads_the_run_again_and_only_once(session: Session) -> None:
    events: list[Event] = []
    session.ask("breakdown of rank 0", events.append)
    session.ask("breakdown of rank 1", events.append)
    assert len([event for event in events if isinstance(event, Notice)]) == 1


def test_a_question_that_the_diagnosis_answers_reads_nothing(cache: Path) -> None:
    diagnosis = opened(cache).diagnosis
    request = Request(paths=(Path("/nowhere/at/all"),))
    with Session(request, Settings(cache_dir=cache), diagnosis) as session:
        assert session.ask("why is it slow?", ignore).text.startswith(diagnosis.headline)
        with pytest.raises(InputError, match="nowhere"):
            session.ask("breakdown of rank 0", ignore)


def test_a_cancelled_question_stops_and_the_next_one_is_answered(session: Session) -> None:
    with pytest.raises(Cancelled):
        session.ask("breakdown of rank 0", ignore, lambda: True)
    assert session.ask("breakdown of rank 0", ignore).intent == "breakdown"


def test_a_reading_that_was_interrupted_is_begun_anew(cache: Path) -> None:
    class Stop(Exception):
        pass

    def interrupting(event: Event) -> None:
        if isinstance(event, StageProgress):
            raise Stop

    request = Request(paths=(demo_run(),))  # a cached run is read at once
    with Session(request, Settings(cache_dir=cache), opened(cache).diagnosis) as session:
        with pytest.raises(Stop):
            session.ask("breakdown of rank 0", interrupting)
        assert session.ask("breakdown of rank 0", ignore).intent == "breakdown"


def test_a_late_rank_with_a_slow_loader_is_a_symptom(session: Session) -> None:
    text = session.ask("why is it not a straggler?", ignore).text
    assert "Found as a symptom of heavy data transforms: a straggler." in text


@pytest.mark.parametrize("name", ["A1", "a1", "[A1]", "C1", "slow_device", "straggler", "io.data_loader"])
def test_advice_cases_causes_and_checks_can_be_shown(session: Session, name: str) -> None:
    shown = session.show(name)
    assert shown.id.lower() == name.strip("[]").lower()
    assert shown.lines
    assert shown.agrees is None


def test_an_advice_is_shown_with_how_risk_and_verification(session: Session) -> None:
    item = session.diagnosis.advice[0]
    text = "\n".join(session.show("A1").lines)
    assert all(part in text for part in (item.how, item.risk, item.verify, item.text))


def test_a_case_is_shown_with_its_source(session: Session) -> None:
    text = "\n".join(session.show("C1").lines)
    assert session.diagnosis.cases[0].url in text
    assert "no evidence for this run" in text


def test_an_unknown_id_names_those_there_are(session: Session) -> None:
    last = [*session.diagnosis.evidence, *session.discussion.ledger.added()][-1].id
    with pytest.raises(UsageError, match=f"evidence E1 to {last}"):
        session.show("E999")


def test_a_hypothesis_is_shown_as_it_stands_with_what_it_was_before(cache: Path) -> None:
    open_ = HypothesisRecord(id="H1", cause="straggler", ranks=[7], status="open", next_test="the traces of all ranks")
    refuted = open_.model_copy(update={"status": "refuted", "judged_by": "Waiting: 1 ms", "next_test": ""})
    request, settings = Request(paths=(demo_run(),), cache_dir=cache), Settings(cache_dir=cache)
    with opened(cache) as session:
        first = session.diagnosis.model_copy(update={"hypotheses": [open_]})
        later = session.diagnosis.model_copy(update={"hypotheses": [refuted]})
    with Session(request, settings, first) as session:
        shown = session.show("H1")
        assert shown.title.endswith("on rank 7: open")
        assert shown.lines == ("Would decide: the traces of all ranks",)
        cited = session.cited
    with Session(request, settings, later) as session:
        session.go_on((), cited)
        shown = session.show("h1")
        assert shown.title.endswith("on rank 7: refuted")
        assert shown.lines == ("Waiting: 1 ms", "It was open in an earlier diagnosis of this session.")


def test_without_a_diagnosis_there_is_nothing_to_ask(cache: Path) -> None:
    session = Session(Request(paths=(demo_run(),)), Settings(cache_dir=cache))
    with pytest.raises(UsageError, match="diagnose the run first"):
        session.ask("why?", ignore)


def test_an_empty_question_is_refused(session: Session) -> None:
    with pytest.raises(UsageError, match="empty"):
        session.ask("  \n", ignore)


def test_thresholds_of_the_settings_reach_the_diagnosis(cache: Path) -> None:
    chosen = Settings(cache_dir=cache, thresholds={"fluctuation_pct": 42.0})
    assert Session(Request(paths=(demo_run(),)), chosen).request.thresholds == {"fluctuation_pct": 42.0}


def test_ids_that_one_call_printed_are_known_to_the_next_and_never_given_twice(own_cache: Path) -> None:
    with opened(own_cache) as first:
        asked = first.ask("breakdown of rank 1", ignore)
        printed = {record.id: record for record in asked.evidence}
    with opened(own_cache) as second:
        shown = {name: second.show(name) for name in printed}
        other = second.ask("breakdown of rank 0", ignore)
    added = {record.id for record in first.discussion.ledger.added()}
    assert added
    assert added <= set(printed)
    assert all(each.agrees for each in shown.values())
    assert [shown[name].again for name in printed] == pytest.approx([record.value for record in printed.values()])
    new = {record.id: record for record in other.evidence}
    assert all(printed[name] == new[name] for name in printed.keys() & new.keys())
    assert not added & new.keys()
    assert new.keys() - printed.keys()


def test_without_a_cache_nothing_is_kept_between_calls(tmp_path: Path) -> None:
    request = Request(paths=(demo_run(),))
    with Session(request, Settings(cache_dir=tmp_path)) as session:
        session.diagnose(ignore)
        assert session.ask("breakdown of rank 1", ignore).evidence
    assert list(tmp_path.iterdir()) == []


def test_rows_of_an_answer_and_results_of_tools_can_be_opened(session: Session) -> None:
    session.ask("forward against backward", ignore)
    turn = session.turns[-1]
    assert [call.name for call in turn.calls] == ["phases"]
    handle = turn.calls[0].handle
    assert session.show(handle).lines == tuple(session.result(handle).splitlines())
    row = next(line.split(" | ")[0].strip("| ") for line in turn.answer.splitlines() if line.startswith("| p"))
    assert any(row in line for line in session.show(row).lines)
    with pytest.raises(UsageError, match="R1"):
        session.result("R99")


def test_a_handle_of_the_diagnosis_or_of_a_kept_conversation_means_nothing_else(tmp_path: Path) -> None:
    calls: list[ToolCallRecord] = []

    def listen(event: Event) -> None:
        if isinstance(event, ToolCalled):
            calls.append(event.call)

    with Session(Request(paths=(demo_run(),)), Settings(cache_dir=tmp_path)) as session:
        session.diagnose(listen)
        session.ask("forward against backward", listen)
        assert len({call.handle for call in calls}) == len(calls) > 0
        assert all(session.result(call.handle) for call in calls)
        turns = session.turns
        made = session.diagnosis
    (kept,) = turns[0].calls
    with Session(Request(paths=(demo_run(),)), Settings(cache_dir=tmp_path), made) as later:
        later.go_on(turns)
        with pytest.raises(UsageError, match=rf"text of {kept.handle} is no longer kept"):
            later.result(kept.handle)
        later.ask("forward against backward", ignore)
        assert later.turns[-1].calls[0].handle == f"R{int(kept.handle[1:]) + 1}"


def test_a_short_question_refers_to_the_turn_before(session: Session) -> None:
    session.ask("how long is a step of rank 0?", ignore)
    answer = session.ask("and rank 1?", ignore)
    assert answer.text.startswith("Understood as “How long is a step of rank 1?”.")
    assert {each.arguments.get("rank") for each in answer.evidence} == {1}
    assert session.turns[-1].question == "and rank 1?"


def test_ids_of_a_kept_conversation_keep_their_meaning_after_the_run_has_changed(
    own_cache: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(demo_run(), tmp_path / "run"))
    request, settings = Request(paths=(run,), cache_dir=own_cache), Settings(cache_dir=own_cache)
    with Session(request, settings) as first:
        first.diagnose(ignore)
        asked = first.ask("breakdown of rank 1", ignore)
        first.ask("forward against backward", ignore)
        before = {record.id: record for record in (*first.diagnosis.evidence, *asked.evidence)}
        advice = first.diagnosis.advice[0]
        turns, cited, results = first.turns, first.cited, dict(first.results)
    (kept,) = turns[1].calls
    shutil.rmtree(run)
    shutil.copytree(demo_fixed_run(), run)
    with Session(request, settings) as later:
        later.go_on(turns, cited, results)
        diagnosis = later.diagnose(ignore)
        later.ask("breakdown of rank 1", ignore)
        now = {record.id: record for record in diagnosis.evidence}
        same = now.keys() & before.keys()
        assert {name: figure_key(now[name]) for name in same} == {name: figure_key(before[name]) for name in same}
        assert now.keys() - before.keys()
        for name in before.keys() - same:
            shown = later.show(name)
            assert written(before[name].value, before[name].unit) in shown.title
            assert shown.agrees or shown.lines[0] == OF_EARLIER
        assert later.show(advice.id).lines[0] == OF_EARLIER
        assert later.show(advice.id).title.endswith(advice.optimization)
        assert advice.id not in {each.id for each in diagnosis.advice}
        assert later.result(kept.handle) == results[kept.handle]
        changed = next(name for name in sorted(before) if later.show(name).lines[0] == OF_EARLIER)
        assert "an earlier diagnosis of this session" in later.ask(f"show {changed}", ignore).text


def test_what_a_resumed_conversation_measures_is_shown_by_other_programs(own_cache: Path) -> None:
    request, settings = Request(paths=(demo_run(),), cache_dir=own_cache), Settings(cache_dir=own_cache)
    with opened(own_cache) as first:
        first.ask("breakdown of rank 1", ignore)
        turns, cited, results, made = first.turns, first.cited, first.results, first.diagnosis
    with Session(request, settings) as resumed:
        resumed.go_on(turns, cited, results)
        resumed.diagnose(ignore)
        new = {each.id: each for each in resumed.ask("breakdown of rank 0", ignore).evidence}
    added = new.keys() - {each.id for each in cited}
    assert added
    with Session(request, settings, made) as elsewhere:
        assert {name: elsewhere.discussion.evidence[name] for name in added} == {name: new[name] for name in added}
        other = elsewhere.ask("backward vs forward time", ignore)
        assert not {each.id for each in other.evidence if each not in new.values()} & new.keys()


def test_a_conversation_whose_ids_mean_something_else_shares_none(own_cache: Path) -> None:
    request, settings = Request(paths=(demo_run(),), cache_dir=own_cache), Settings(cache_dir=own_cache)
    with opened(own_cache) as session:
        made = session.diagnosis
    own = made.evidence[0].model_copy(update={"id": f"E{len(made.evidence) + 1}", "value": 7.0})
    with Session(request, settings, made) as resumed:
        resumed.go_on((), (own,))
        asked = resumed.ask("breakdown of rank 1", ignore)
        assert own.id not in {each.id for each in asked.evidence}
    with Session(request, settings, made) as elsewhere:
        assert elsewhere.discussion.ledger.added() == ()


def test_a_model_is_not_given_figures_of_an_earlier_diagnosis() -> None:
    turn = Turn(question="why?", answer="It takes 52.0 ms [E7].", ids=["E7"])
    index = EvidenceIndex({})
    assert "52.0" not in earlier_turns([turn], index)
    known = EvidenceIndex({"E7": record("E7")})
    assert "52.0 ms [E7]" in earlier_turns([turn], known)


def record(identifier: str) -> EvidenceRecord:
    of = SourceSelector(path="rank0.json", selector="steps")
    scope: dict[str, object] = {"ranks": [], "steps": [], "window_ns": None, "source": of}
    return EvidenceRecord.model_validate(
        {"id": identifier, "metric": "m", "arguments": {}, "value": 52.0, "unit": "ms"} | scope
    )


def test_skipping_where_another_chat_has_dropped_the_session_is_no_error(tmp_path: Path) -> None:
    request, store = Request((demo_run(),), cache_dir=tmp_path), SessionStore(tmp_path)
    with Session(request, Settings(cache_dir=tmp_path), asks=True) as session:
        session.kept = Kept(store, store.new(request))
        store.set_pending(session.kept.session, "a question")
        session.skip()
        assert store.pending(session.kept.session) == ""
        store.forget(session.kept.session)
        session.skip()
    store.close()


def test_a_source_attached_unasked_outlives_a_kill_and_goes_with_an_interrupted_diagnosis(tmp_path: Path) -> None:
    log, request = tmp_path / "rank1.log", Request(paths=(demo_run(),), cache_dir=tmp_path / "cache")
    log.touch()
    store = SessionStore(tmp_path)
    kept = Kept(store, store.new(request))
    seen: list[tuple[Path, ...]] = []

    def interrupt(event: Event) -> None:
        seen.append(store.open(kept.session).request.paths)  # what another process would find after a kill
        raise KeyboardInterrupt

    with Session(request, Settings(cache_dir=tmp_path / "cache")) as session:
        session.kept = kept
        with pytest.raises(KeyboardInterrupt):
            session.attach((log,), interrupt)
        assert session.request.paths == (demo_run(),)
    assert seen == [(demo_run().absolute(), log)]
    assert store.open(kept.session).request.paths == (demo_run().absolute(),)
    store.close()
