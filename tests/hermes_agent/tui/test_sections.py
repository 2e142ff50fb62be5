"""A diagnosis as messages: what is said once, and how much of it."""

from __future__ import annotations

from hermes_agent.model.diagnosis import CaseRecord, Diagnosis
from hermes_agent.model.run_record import SourceRecord
from hermes_agent.tui import sections
from tests.hermes_agent.tui.fake_session import diagnosis


def source(rank: int, note: str) -> SourceRecord:
    return SourceRecord(path=f"run/rank{rank}.json", format="kineto", ranks=[rank], status="partial", note=note)


def with_notes(sources: list[SourceRecord], notes: list[str]) -> Diagnosis:
    made = diagnosis()
    return made.model_copy(update={"run": made.run.model_copy(update={"sources": sources}), "notes": notes})


def test_a_note_that_differs_only_in_numbers_is_told_once_for_all_files() -> None:
    told = [f"the trace does not tell its rank; {rank} was assumed" for rank in range(8)]
    sources = [source(rank, note) for rank, note in enumerate(told)]
    notes = [f"run/rank{rank}.json: {note}" for rank, note in enumerate(told)]
    (section,) = sections.notes(with_notes(sources, notes))
    assert section.paragraphs == ("- rank0.json: the trace does not tell its rank; 0 was assumed (and 7 more files).",)


def test_a_note_about_the_run_is_told_once_and_different_ones_stay_apart() -> None:
    notes = ["clocks are not aligned", "clocks are not aligned.", "run/rank0.json: cut off after 3 steps"]
    (section,) = sections.notes(with_notes([source(0, "clocks are not aligned")], notes))
    assert section.paragraphs == ("- clocks are not aligned.", "- rank0.json: cut off after 3 steps.")


def test_a_files_own_note_is_left_out_where_the_notes_of_the_run_have_all_of_it() -> None:
    notes = ["rank0.json: it names no rank", "rank0.json: its times have no unit"]
    both = source(0, "it names no rank; its times have no unit")
    (section,) = sections.notes(with_notes([both], notes))
    assert section.paragraphs == ("- rank0.json: it names no rank.", "- rank0.json: its times have no unit.")
    (section,) = sections.notes(with_notes([both], notes[:1]))
    assert section.paragraphs[1:] == ("- rank0.json: it names no rank; its times have no unit.",)


def test_without_notes_nothing_is_said() -> None:
    assert sections.notes(with_notes([], [])) == ()


def test_three_cases_are_shown_the_most_similar_first() -> None:
    made = diagnosis()
    several = [
        CaseRecord.model_validate({**made.cases[0].model_dump(), "id": f"C{place}", "similarity": similarity})
        for place, similarity in enumerate((0.5, 0.9, 0.7, 0.8), start=1)
    ]
    (section,) = sections.cases(made.model_copy(update={"cases": several}))
    assert [line[:4] for line in section.paragraphs] == ["[C2]", "[C4]", "[C3]"]
