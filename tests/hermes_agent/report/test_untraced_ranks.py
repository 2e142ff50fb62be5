"""Ranks of the job without a trace are named in a note and counted in the title."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.display import rank_count
from hermes_agent.report.records import untraced_note
from tests.synthetic import RankBuilder, profile_of
from tools.run.model import CutTrace, Layout, Run


def run_of(ranks: tuple[int, ...], world: int | None, cut: tuple[int, ...] = ()) -> Run:
    """A run with whole traces of these ranks and cut ones of others."""
    builders = [RankBuilder(number) for number in ranks]
    for each in builders:
        each.step(0, 0, 100)
    run = profile_of(*builders, layout=Layout(world_size=world)).run
    return replace(run, cut=tuple(CutTrace(Path(f"{rank}.json"), rank, "it ends early", 1, 1) for rank in cut))


@pytest.mark.parametrize(
    ("ranks", "world", "cut", "note"),
    [
        ((0, 1, 3), 4, (), "3 of the job's 4 ranks have a trace that could be read (rank 2 has none); waiting"),
        ((3,), 10**12, (), "1 of the job's 1,000,000,000,000 ranks has a trace that could be read (ranks 0 to 2 and 4"),
        ((0,), 4, (2,), "2 of the job's 4 ranks have a trace that could be read (ranks 1 and 3 have none)"),
        ((0, 1), 2, (), ""),
        ((0, 7), 2, (), ""),
        ((0, 1), None, (), ""),
    ],
)
def test_the_note_names_the_ranks_without_a_trace(
    ranks: tuple[int, ...], world: int | None, cut: tuple[int, ...], note: str
) -> None:
    said = " ".join(untraced_note(run_of(ranks, world, cut)))
    assert said.startswith(note)
    assert bool(said) == bool(note)


def test_the_title_counts_the_ranks_of_the_job(demo_diagnosis: Diagnosis) -> None:
    run = demo_diagnosis.run
    count = len(run.ranks)
    assert rank_count(run.model_copy(update={"layout": {"world_size": 64}})) == f"{count} of 64 ranks"
    assert rank_count(run.model_copy(update={"layout": {"world_size": count}})) == f"{count} ranks"
    assert rank_count(run.model_copy(update={"layout": {"world_size": None}})) == f"{count} ranks"
