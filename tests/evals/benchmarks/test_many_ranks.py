"""A generated run of many ranks: whole, consistent between ranks, and slow where it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evals.benchmarks.many_ranks import ManyRanks, write
from tools.sources.load import load_run
from tools.sources.options import LoadOptions
from tools.views.communication.arrivals import blame
from tools.views.communication.collectives import collectives
from tools.views.profile import Profile

RUN = ManyRanks(ranks=12, per_host=2, steps=2, layers=2, straggler=5)


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """The profile of the whole run."""
    folder = tmp_path_factory.mktemp("many_ranks")
    paths = write(RUN, folder)
    assert sorted(folder.iterdir()) == sorted(paths)
    return Profile(load_run([folder], LoadOptions(workers=1)))


def test_every_rank_has_its_own_groups_and_all_collectives_match(profile: Profile) -> None:
    assert profile.run.rank_numbers == tuple(range(12))
    assert (collectives(profile)["match"] >= 0).all()
    tensor = {group.ranks for group in profile.run.layout.groups if group.description == "tensor_parallel"}
    assert tensor == {(first, first + 1) for first in range(0, 12, 2)}
    assert profile.run.layout.data_parallel == 6


def test_the_straggler_and_the_slow_host_are_as_injected(profile: Profile) -> None:
    caused = blame(profile)["caused_ns"]
    assert caused.idxmax() == RUN.straggler
    assert caused[RUN.straggler] > 0.5 * caused.sum()
    sums = profile.breakdown.groupby("rank")[["compute_ns", "data_wait_ns"]].sum()
    usual = sums.median()
    assert sums["compute_ns"][RUN.straggler] == pytest.approx(1.3 * usual["compute_ns"], rel=0.05)
    waiting = sums["data_wait_ns"][sums["data_wait_ns"] > 3 * usual["data_wait_ns"]]
    assert tuple(waiting.index) == RUN.slow_ranks == (10, 11)


def test_copied_ranks_differ_and_their_kernels_do_not_overlap(profile: Profile) -> None:
    compute_ns = profile.breakdown.groupby("rank")["compute_ns"].sum()
    assert compute_ns.nunique() == 12
    for view in profile.ranks:
        rows = view.compute_kernels
        assert (view.start[rows][1:] >= view.end[rows][:-1]).all()
        assert np.unique(view.track[rows]).size == 1


def test_equal_runs_are_equal_files(tmp_path: Path) -> None:
    first, second = (write(RUN, tmp_path / name) for name in ("first", "second"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
