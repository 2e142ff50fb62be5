"""The first line that has words of a topic, whether it is understood or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read

STEPS = "".join(f"step {step} time 100 ms\n" for step in range(20))


@pytest.mark.parametrize(
    ("line", "topic", "words"),
    [
        ("[eval] step 200 | loss 3.21", "evaluation", "eval"),
        ("epoch 3: val_loss 0.41", "evaluation", "val_loss"),
        ("  Max steps : 100,000", "length", "Max steps"),
        ("all of it took 17 minutes", "length", "took"),
        ("VRAM  : 79.2 GB", "memory", "VRAM"),
        ("   0/299     13.5G   0.0812   0.0612", "memory", "13.5G"),
        ("Effective batch size : 32", "batch", "Effective batch size"),
        ("dtype bf16", "precision", "bf16"),
        ("Saving state 12 to out", "save", "Saving"),
    ],
)
def test_a_line_with_words_of_a_topic_is_named(tmp_path: Path, line: str, topic: str, words: str) -> None:
    log = read(tmp_path, f"begin\r\n10%\r20%\n{line}\n{STEPS}")
    (found,) = (each for each in log.named_lines if each.topic == topic)
    assert (found.words, found.line) == (words, 3)


@pytest.mark.parametrize("line", ["evaluate later", "memory of a model", "no batch size", "medieval 1.5", "attention"])
def test_words_without_a_figure_or_within_others_are_none(tmp_path: Path, line: str) -> None:
    assert read(tmp_path, f"{line}\n{STEPS}").named_lines == ()


def test_the_line_is_found_in_any_block(tmp_path: Path) -> None:
    text = "x" * 99 + "\n"
    log = read(tmp_path, f"{STEPS}{text * 30_000}Max steps: 7\n{text * 10}")
    assert [(each.topic, each.line) for each in log.named_lines] == [("length", 30_021)]
