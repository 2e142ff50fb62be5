"""``hermes-dx whatif``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from hermes_agent.cli.commands import whatif
from tests.hermes_agent.cli.execution import execute
from tools.errors import UsageError
from tools.whatif.asked_changes import FORMS

RUN = str(Path(__file__).parents[4] / "evals/lab/recorded/too_few_workers/tokens-mild/slow")


def test_the_help_lists_every_form() -> None:
    parser = argparse.ArgumentParser()
    whatif.add_arguments(parser)
    assert all(form.written in parser.format_help() for form in FORMS)


def test_the_answer_gives_step_range_and_what_it_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(whatif, RUN, "num_workers=1", "--no-cache", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    predicted = record["predicted"]
    assert (record["schema"], record["changes"]) == ("hermes-dx/whatif/1", ["num_workers=1"])
    assert predicted["low_ms"] < predicted["step_ms"] < predicted["high_ms"] < record["step_ms"]
    assert predicted["speedup"] == pytest.approx(record["step_ms"] / predicted["step_ms"])
    assert [(each["change"], each["basis"]) for each in record["rests_on"]] == [("num_workers=1", "formula")]


def test_the_most_that_a_change_can_bring_is_given_without_a_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each step waits 2 s of 2.5 s; no line shows one that does not wait."""
    log = tmp_path / "train.log"
    log.write_text(
        "".join(
            f"2026-01-01 10:00:00 | INFO | trainer:1 - epoch: 1/9, iter: {n}/900, mem: 90Mb, iter_time: 2.500s, "
            "data_time: 2.000s, total_loss: 5.1, lr: 1e-3\n"
            for n in (200, 210, 220, 230)
        )
    )
    words = (str(log), "without slow_data_processing", "--no-cache")
    assert execute(whatif, *words) == 0
    text = capsys.readouterr().out
    assert "Predicted step: at least 500 ms, speedup at most 5.00x\n" in text
    assert "prediction intervals" not in text
    assert execute(whatif, *words, "--json") == 0
    predicted = json.loads(capsys.readouterr().out)["predicted"]
    assert (predicted["at_most"], predicted["high_ms"], predicted["speedup_low"]) == (True, None, None)


def test_a_refusal_is_an_answer_and_fails_only_where_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    words = (RUN, "batch_size=8", "num_workers=1", "--no-cache")
    assert execute(whatif, *words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "Predicted step: not assessable from this run"
    assert lines[2].startswith("  batch_size=8: ")
    assert "what it needs: a few steps with the new setting" in lines[2]
    assert execute(whatif, *words, "--strict") == 4


def test_the_grammar_is_read_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean num_workers=N"):
        execute(whatif, str(tmp_path / "none"), "num_worker=8")
    with pytest.raises(UsageError, match="name a run and a change"):
        execute(whatif)


def test_the_schema_needs_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(whatif, "--schema") == 0
    assert len(json.loads(capsys.readouterr().out)["anyOf"]) == len(FORMS)
