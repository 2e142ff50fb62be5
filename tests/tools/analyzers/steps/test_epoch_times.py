"""What is said of the times of whole epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tools.analyzers.registry import check_of
from tools.findings import Sentence
from tools.sources.load import load_run
from tools.views.profile import Profile


def said(folder: Path, text: str) -> tuple[Sentence, ...]:
    (folder / "job.out").write_text(text)
    check = check_of(Profile(load_run([folder])), "step_time.epochs")
    assert check is not None
    return check.support


def test_the_first_epoch_and_the_others_are_stated(tmp_path: Path) -> None:
    lines = "".join(f"Epoch time: {seconds} s\n" for seconds in (90.0, 41.0, 40.0, 44.0))
    (sentence,) = said(tmp_path, lines)
    assert [each.value for each in sentence.facts] == [90_000.0, 41_000.0, 40_000.0, 44_000.0]
    found = diagnose(Request((tmp_path,)), lambda event: None)
    assert found.headline.startswith("4 lines state the time of an epoch: the first 90.0 s")


def test_the_rank_whose_part_takes_far_longer_is_named(tmp_path: Path) -> None:
    text = "Part {}, Epoch Time(s): 9.0, sample+data_copy: {}, forward: 2.0\n"
    lines = "".join(text.format(rank, 5.0 if rank == 2 else 1.5 + 0.1 * rank) for rank in range(5))
    whole, parts, apart = said(tmp_path, lines)
    assert "5 lines of 5 parts" in whole.template
    assert [each.value for each in parts.facts] == pytest.approx([2000.0, 1800.0])
    assert parts.names == ("forward", "sample+data_copy")
    assert "Part 2 spends" in apart.template
    assert [each.value for each in apart.facts] == pytest.approx([5000.0, 1800.0])


@pytest.mark.parametrize(("own", "least", "most"), [(True, 8000.0, 14_000.0), (False, 8000.0, 8000.0)])
def test_files_that_each_name_their_part_are_all_of_the_job(
    tmp_path: Path, own: bool, least: float, most: float
) -> None:
    """Epochs of 8, 10, 12 and 14 s in four files; where all name one part, they are copies or other runs."""
    for rank in range(1, 4):
        wall = 8.0 + 2.0 * rank
        (tmp_path / f"rank{rank}.out").write_text(f"Part {rank if own else 0}, Epoch Time(s): {wall}\n" * 2)
    whole = said(tmp_path, "Part 0, Epoch Time(s): 8.0\n" * 2)[0]
    assert [each.value for each in whole.facts] == [least, most]
    assert whole.template.startswith("8 lines of 4 parts" if own else "Two lines state")


def test_two_lines_of_one_part_are_no_parts_of_the_job(tmp_path: Path) -> None:
    whole, _ = said(tmp_path, "".join(f"Part 0, Epoch Time(s): {wall}, forward: 2.0\n" for wall in (9.0, 8.0)))
    assert whole.template.startswith("Two lines state")
    assert [each.value for each in whole.facts] == [8000.0, 9000.0]


def test_what_a_bar_counts_is_not_taken_for_steps(tmp_path: Path) -> None:
    (sentence,) = said(tmp_path, "Epoch 1/9\n5000/5000 [========] - 130s - loss: 1.0\n")
    assert [each.value for each in sentence.facts] == pytest.approx([130_000.0, 26.0])
    assert "whether these are steps or samples is not stated" in sentence.template
