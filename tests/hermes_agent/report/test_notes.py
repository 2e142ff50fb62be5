"""What a reader has to know is told once, and never dropped because something else was told."""

from __future__ import annotations

from hermes_agent.demo.data import demo_run
from hermes_agent.model.request import Request
from hermes_agent.report.lines import notes_of
from hermes_agent.workflow.diagnose import diagnose


def test_a_note_is_dropped_only_when_a_file_says_the_same_of_itself() -> None:
    diagnosis = diagnose(Request(paths=(demo_run(),)), lambda _: None)
    source = diagnosis.run.sources[0].model_copy(
        update={"path": "run/a.json", "note": "its rank is not told; 0 was assumed"}
    )
    clocks = "not all traces record the time of day, so times of different ranks may not be comparable"
    told = diagnosis.model_copy(
        update={
            "run": diagnosis.run.model_copy(update={"sources": [source]}),
            "notes": ["a.json: its rank is not told", clocks, "b.json was left out: it is empty", clocks],
        }
    )
    assert notes_of(told) == [
        "run/a.json: its rank is not told; 0 was assumed",
        clocks,
        "b.json was left out: it is empty",
    ]
