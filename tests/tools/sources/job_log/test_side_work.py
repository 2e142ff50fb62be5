"""Lines on saving and evaluating: which are read, with which step, and which are of other work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read
from tools.sources.job_log.recognise import is_job_log
from tools.sources.job_log.side_work import SideWork, side_work


@pytest.mark.parametrize(
    ("text", "kind", "step"),
    [
        ("09:54:45 INFO saved checkpoint at step 10", "save", 10),
        ("saving checkpoint at iteration     500 to /data", "save", 500),
        ("Saving model checkpoint to out/checkpoint-500", "save", 500),
        ("saved ckpt_20.pt in 0.81s", "save", 20),
        ("wrote model weights, step 30", "save", 30),
        ("CHECKPOINT 1200 | step 1200", "save", 1200),
        ("checkpoint took 3.2 s", "save", None),
        ("validation at step 100: loss 2.30 acc 0.51", "evaluation", 100),
        ("[eval] iter 200: val_loss 3.2", "evaluation", 200),
        ("step 5 train 543.82 val 543.75", "evaluation", 5),
    ],
)
def test_lines_that_name_a_step_or_time_of_saving_or_evaluating(text: str, kind: str, step: int | None) -> None:
    found = side_work(text)
    assert found is not None
    assert (found.kind, found.step) == (kind, step)


@pytest.mark.parametrize(
    "text",
    [
        "step 5 loss 2.77",
        "Saving checkpoint every 100 steps",
        "save_interval: 100, step 0",
        "Step 100: checkpoint loaded in 12.5 s",
        "Resuming from checkpoint at step 100",
        "removed checkpoint of step 90",
        "value 0.3 at step 7",
        "the model was written by us",
        "saved " + "x" * 2000 + " step 5",
    ],
)
def test_steps_settings_and_older_states_are_none(text: str) -> None:
    assert side_work(text) is None


def test_a_log_without_times_keeps_its_notes_with_their_lines(tmp_path: Path) -> None:
    lines = [f"step {step} loss 1.0" for step in range(1, 7)]
    lines[3:3] = ["saved state at step 3"]
    lines += ["validation at step 6: 0.8"]
    log = read(tmp_path, "\n".join(lines))
    assert [(each.step, each.line) for each in log.saves] == [(3, 4)]
    assert [(each.step, each.line) for each in log.evaluations] == [(6, 8)]


def test_a_log_of_saves_alone_is_recognised_and_a_text_that_mentions_one_is_not(tmp_path: Path) -> None:
    log, text = tmp_path / "train.log", tmp_path / "notes.txt"
    log.write_text("".join(f"saved checkpoint at step {step}\n" for step in (10, 20, 30)), encoding="utf-8")
    text.write_text("We saved a checkpoint at step 10.\nThat was all.\n", encoding="utf-8")
    assert [is_job_log(path) for path in (log, text)] == [True, False]


def test_the_words_that_were_found_are_kept() -> None:
    assert side_work("now saved checkpoint, step 4") == SideWork("save", 4, "saved checkpoint")
