"""Sessions outlive their process: turns and requests come back as they were, and a damaged file is one sentence."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.model.diagnosis import EvidenceRecord, HypothesisRecord, SourceSelector
from hermes_agent.model.request import Request
from hermes_agent.model.turn import ToolCallRecord, Turn
from hermes_agent.sessions import store as module
from hermes_agent.sessions.store import LONGEST_RESULT, SessionStore
from tools.errors import InputError, UsageError

CALL = ToolCallRecord(handle="R1", name="gaps", arguments={"rank": 3}, seconds=0.1, size=20, rows=2)
TURN = Turn(question="why?", answer="Rank 3 [E7].", ranks=[3], ids=["E7"], calls=[CALL])


def test_a_session_comes_back_as_it_was_left(tmp_path: Path) -> None:
    request = Request((tmp_path / "run",), steps=(2, 5), ranks=(0, 3), thresholds={"confidence": 0.6})
    store = SessionStore(tmp_path)
    identifier = store.new(request, "slow run")
    store.add_turn(identifier, TURN)
    store.set_pending(identifier, "Attach the log of rank 1?")
    store.close()
    again = SessionStore(tmp_path)
    session = again.open(identifier)
    assert (session.request.paths, session.request.steps) == (request.paths, (2, 5))
    assert (session.request.ranks, session.request.thresholds) == ((0, 3), {"confidence": 0.6})
    assert session.request.cache_dir == tmp_path
    assert (session.title, session.turns, session.pending) == ("slow run", (TURN,), "Attach the log of rank 1?")
    (row,) = again.sessions()
    assert (row.id, row.title, row.paths, row.turns) == (identifier, "slow run", [str(tmp_path / "run")], 1)
    assert row.started <= row.last_used


def test_the_list_begins_with_the_session_used_last(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    first, second = (store.new(Request((Path(name),))) for name in ("a", "b"))
    assert [row.id for row in store.sessions()] == [second, first]
    store.open(first)
    assert [row.title for row in store.sessions()] == ["a", "b"]


def test_sessions_of_one_conversation_are_one_line_and_open_together(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    before = store.new(Request((tmp_path / "before",)), "before")
    alone = store.new(Request((tmp_path / "alone",)), "alone")
    after = store.new(Request((tmp_path / "after",)), "after", conversation=before)
    gone = store.new(Request((tmp_path / "gone",)), "gone", conversation=before)
    for session, question in ((before, "1"), (after, "2"), (alone, "other"), (before, "3")):
        store.add_turn(session, Turn(question=question, answer=""))
    store.forget(gone)
    together, other = store.sessions()
    assert (together.id, together.title, together.turns) == (before, "before, after", 3)
    assert together.paths == [str(tmp_path / "before"), str(tmp_path / "after")]
    assert (other.id, other.turns) == (alone, 1)
    for named in (after, before, before):
        found = store.conversation(named)
        assert (found.id, found.front) == (before, before)
        assert [each.title for each in found.sessions] == ["before", "after"]
        assert [(session, turn.question) for session, turn in found.said] == [
            (before, "1"),
            (after, "2"),
            (before, "3"),
        ]
    assert [turn.question for _, turn in store.conversation(alone).said] == ["other"]
    with pytest.raises(UsageError, match="there is no session"):
        store.conversation(gone)


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SESSIONS", 2)
    monkeypatch.setattr(module, "MOST_TURNS", 3)
    monkeypatch.setattr(module, "LONGEST_TURN", 4000)
    store = SessionStore(tmp_path)
    identifiers = [store.new(Request((Path(str(number)),))) for number in range(3)]
    for number in range(5):
        store.add_turn(identifiers[2], Turn(question=str(number), answer="\n" * 3900 if number == 4 else ""))
    assert [row.id for row in store.sessions()] == [identifiers[2], identifiers[1]]
    turns = store.open(identifiers[2]).turns
    assert [turn.question for turn in turns] == ["2", "3", "4"]
    assert turns[2].answer.endswith("… (cut)")
    assert len(turns[2].model_dump_json()) <= 4000
    with pytest.raises(UsageError, match="there is no session"):
        store.open(identifiers[0])


def test_only_the_user_can_read_the_file(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "cache")
    store.new(Request((Path("run"),)))
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


def test_a_damaged_file_is_one_sentence_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "sessions" / "sessions.sqlite"
    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 500)
    with pytest.raises(InputError, match=r"sessions\.sqlite: sessions cannot be kept or read there .*move the file"):
        SessionStore(tmp_path)


def test_a_changed_row_is_one_sentence_that_names_the_file(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    identifier = store.new(Request((Path("run"),)))
    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE sessions SET request = '{\"paths\": 7}'")
    for asked in (store.sessions, lambda: store.open(identifier)):
        with pytest.raises(InputError, match="its content is not what was stored"):
            asked()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "sessions.sqlite").symlink_to(target)
    with pytest.raises(InputError):
        SessionStore(tmp_path)
    assert not target.exists()


WRITER = """
import os, signal, sys
from pathlib import Path
from hermes_agent.model.request import Request
from hermes_agent.model.turn import Turn
from hermes_agent.sessions.store import SessionStore
store = SessionStore(Path(sys.argv[1]))
identifier = store.new(Request((Path("run"),)), "killed")
store.set_pending(identifier, "unfinished")
for number in range(3):
    store.add_turn(identifier, Turn(question=str(number), answer="yes"))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_no_finished_turn(tmp_path: Path) -> None:
    own = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], env=os.environ | own, check=False)
    assert done.returncode == -signal.SIGKILL
    store = SessionStore(tmp_path)
    (row,) = store.sessions()
    session = store.open(row.id)
    assert [turn.question for turn in session.turns] == ["0", "1", "2"]
    assert session.pending == SessionStore.UNFINISHED


FIGURE = EvidenceRecord(
    id="E7",
    metric="step_time_ms",
    arguments={"rank": 3},
    value=52.0,
    unit="ms",
    ranks=[3],
    steps=[1, 2],
    window_ns=None,
    source=SourceSelector(path="rank3.json", selector="steps"),
)


def test_what_ids_stand_for_and_results_of_tools_come_back_and_keep_their_first_meaning(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    identifier = store.new(Request((Path("run"),)))
    hypothesis = HypothesisRecord(id="H1", cause="slow_link", status="open")
    store.keep(identifier, [FIGURE, hypothesis], {"R1": "p50 1 ms"})
    store.keep(
        identifier, [FIGURE.model_copy(update={"value": 9.0})], {"R1": "other", "R2": "x" * (LONGEST_RESULT + 1)}
    )
    more = Request((Path("/run"), Path("/records")))
    store.set_request(identifier, more)
    store.close()
    kept = SessionStore(tmp_path).open(identifier)
    assert kept.records == (FIGURE, hypothesis)
    assert kept.results["R1"] == "p50 1 ms"
    assert kept.results["R2"].startswith("x" * LONGEST_RESULT + "\n… (cut")
    assert kept.request.paths == more.paths


def test_records_and_results_of_a_session_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 3)
    monkeypatch.setattr(module, "MOST_RESULT_CHARS", 25)
    store = SessionStore(tmp_path)
    identifier, other = (store.new(Request((Path(name),))) for name in ("a", "b"))
    long = FIGURE.model_copy(update={"id": "E1", "steps": list(range(20_000))})
    store.keep(identifier, [long, *(FIGURE.model_copy(update={"id": f"E{n}"}) for n in (2, 3))], {})
    assert [(each.id, each.steps) for each in store.open(identifier).records if isinstance(each, EvidenceRecord)] == [
        ("E1", []),
        ("E2", [1, 2]),
        ("E3", [1, 2]),
    ]
    store.keep(other, [FIGURE], {"R1": "kept"})
    store.keep(identifier, [FIGURE.model_copy(update={"id": "E4"})], {f"R{n}": "0123456789" for n in range(1, 5)})
    assert [each.id for each in store.open(identifier).records] == ["E2", "E3", "E4"]
    assert list(store.open(identifier).results) == ["R3", "R4"]
    every = [FIGURE.model_copy(update={"id": f"E{n}"}) for n in range(1, 6)]
    for _ in range(3):  # what was dropped is given again each time and stays dropped
        store.keep(identifier, every, {f"R{n}": "0123456789" for n in range(1, 6)})
        assert [each.id for each in store.open(identifier).records] == ["E3", "E4", "E5"]
        assert list(store.open(identifier).results) == ["R4", "R5"]
    assert (store.open(other).records, dict(store.open(other).results)) == ((FIGURE,), {"R1": "kept"})
