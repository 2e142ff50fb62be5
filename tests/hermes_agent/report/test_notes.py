"""A note is printed once, and never dropped because of another one."""

from __future__ import annotations

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.report.sections import notes_of


def test_a_note_is_dropped_only_when_a_file_says_the_same_of_itself(demo_diagnosis: Diagnosis) -> None:
    source = demo_diagnosis.run.sources[0].model_copy(
        update={"path": "run/a.json", "note": "its rank is not named; 0 was assumed"}
    )
    clocks = "not all traces record the time of day, so times of different ranks may not be comparable"
    noted = demo_diagnosis.model_copy(
        update={
            "run": demo_diagnosis.run.model_copy(update={"sources": [source]}),
            "notes": ["a.json: its rank is not named", clocks, "b.json was left out: it is empty", clocks],
        }
    )
    assert notes_of(noted) == [
        "run/a.json: its rank is not named; 0 was assumed",
        clocks,
        "b.json was left out: it is empty",
    ]
