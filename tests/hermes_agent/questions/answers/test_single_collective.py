"""Questions about one collective, with what an Ascend profiler's table states of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes_agent.questions.intents import reply
from tests.hermes_agent.questions.discussed import discuss, unsupported
from tests.tools.sources.ascend.ascend_files import collective, communication, write_folder, write_trace_view
from tools.sources.load import load_run
from tools.views.profile import Profile


def test_waiting_and_transit_of_one_collective_are_those_of_the_profilers_table(tmp_path: Path) -> None:
    output = write_folder(tmp_path, 0)
    write_trace_view(output)
    table = communication(
        hcom_allReduce__586_0_1=collective(0.45, 0.01, 0.4), hcom_allReduce__586_1_1=collective(9.0, 8.0, 1.0)
    )
    (output / "communication.json").write_text(json.dumps(table))
    discussion = discuss(Profile(load_run([tmp_path])))
    answer = reply(discussion, "how long does the first all-reduce wait?")
    found = {each.arguments["part"]: each.value for each in answer.evidence if each.metric == "tabled_instance_ms"}
    assert found == pytest.approx({"elapse": 0.45, "wait": 0.4, "transit": 0.01, "idle": 0.04})
    assert unsupported(answer.text, discussion) == []


def test_without_the_table_nothing_is_said_of_it(tmp_path: Path) -> None:
    write_trace_view(write_folder(tmp_path, 0))
    text = reply(discuss(Profile(load_run([tmp_path]))), "how long does the first all-reduce wait?").text
    assert "The first all reduce of each rank" in text
    assert "profiler's table" not in text
