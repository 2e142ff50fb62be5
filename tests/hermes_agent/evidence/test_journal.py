"""What answers added to a diagnosis, stored for other programs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hermes_agent.evidence import journal as module
from hermes_agent.evidence.journal import Journal, journal_of
from hermes_agent.evidence.ledger import ContinuedLedger
from hermes_agent.model.diagnosis import EvidenceRecord, SourceSelector
from tests.hermes_agent.statements.slow_loader import diagnosis
from tools.findings import Fact

LAST = 7


def fact(rank: int, value: float = 1.0) -> Fact:
    return Fact("part_ms", (("part", "host"), ("rank", rank)), value, "ms", (rank,), (0,), None, "trace", "rows")


def known() -> list[EvidenceRecord]:
    source = SourceSelector(path="trace", selector="rows")
    return [
        EvidenceRecord(
            id=f"E{LAST}",
            metric="step_time_ms",
            arguments={},
            value=1.0,
            unit="ms",
            ranks=[0],
            steps=[0],
            window_ns=None,
            source=source,
        )
    ]


def ledger(path: Path | None) -> ContinuedLedger:
    return ContinuedLedger(known(), Journal(path))


def test_the_numbers_go_on_where_an_earlier_program_ended(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    first = ledger(path)
    assert [first.cite(fact(0)), first.cite(fact(1)), first.cite(fact(0))] == ["E8", "E9", "E8"]
    second = ledger(path)
    assert [record.id for record in second.added()] == ["E8", "E9"]
    assert [second.cite(fact(2)), second.cite(fact(1))] == ["E10", "E9"]
    assert second.added()[0].value == 1.0


def test_a_figure_that_has_changed_since_gets_a_new_id(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    assert ledger(path).cite(fact(0, 1.0)) == "E8"
    assert ledger(path).cite(fact(0, 2.0)) == "E9"


def test_two_at_the_same_time_never_give_one_id_twice(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    given: list[list[str]] = [[] for _ in range(4)]

    def work(place: int) -> None:
        own = ledger(path)
        given[place] = [own.cite(fact(100 * place + number)) for number in range(25)]

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [name for each in given for name in each]
    assert len(set(names)) == len(names) == 100
    assert len(ledger(path).added()) == 100


def test_a_damaged_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    ledger(path).cite(fact(0))
    with path.open("ab") as file:
        file.write(b'{"evidence": {"id": "E9", "met\xff')
    after = ledger(path)
    assert after.cite(fact(1)) == "E9"
    assert [record.id for record in ledger(path).added()] == ["E8", "E9"]


@pytest.mark.parametrize("name", ["E", "Eone", "X9", "E٣"])
def test_an_id_that_is_none_is_not_taken_in(tmp_path: Path, name: str) -> None:
    path = tmp_path / "j.jsonl"
    ledger(path).cite(fact(0))
    path.write_text(path.read_text(encoding="utf-8").replace('"E8"', f'"{name}"'), encoding="utf-8")
    assert ledger(path).added() == ()


def test_a_long_journal_forgets_the_oldest_and_goes_on_counting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LINES", 10)
    path = tmp_path / "j.jsonl"
    own = ledger(path)
    names = [own.cite(fact(number)) for number in range(25)]
    assert names == [f"E{LAST + 1 + number}" for number in range(25)]
    stored = [record.id for record in ledger(path).added()]
    assert len(stored) <= 10
    assert stored[-1] == names[-1]


def test_a_folder_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    own = ledger(blocked / "j.jsonl")
    assert [own.cite(fact(0)), own.cite(fact(1))] == ["E8", "E9"]
    assert [record.id for record in own.added()] == ["E8", "E9"]


def test_each_diagnosis_has_its_own_journal_and_without_a_cache_none(tmp_path: Path) -> None:
    other = diagnosis().model_copy(update={"headline": "another"})
    for each in (diagnosis(), other):
        ContinuedLedger(each.evidence, journal_of(tmp_path, each)).cite(fact(0))
    assert len(list((tmp_path / module.FOLDER).glob("*.jsonl"))) == 2
    assert journal_of(None, diagnosis()).evidence() == ()
