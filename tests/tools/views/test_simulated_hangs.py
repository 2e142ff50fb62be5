"""Hangs of simulated jobs: the rank whose host stopped is named, or nobody, and never another one."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.flight_dumps import dump, records_of, write
from tests.hang_simulation import job, run
from tools.views.communication.collective_hang import Hang, find_hang

LENGTH = 160


def hang_of(folder: Path, random: Random, stopped: dict[int, int], *, keep: int, status: bool, lost: int = -1) -> Hang:
    made = job(random, LENGTH)
    calls = run(made, random, stopped)
    dumps = {rank: dump(each, made.of(rank), keep=keep, status=status) for rank, each in calls.items() if rank != lost}
    return find_hang(records_of(write(folder, dumps)))


@pytest.mark.parametrize("seed", range(12))
def test_the_rank_whose_host_stops_is_named(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    rank = random.randrange(8)
    found = hang_of(tmp_path, random, {rank: random.randrange(3, 12)}, keep=0, status=True)
    assert found.holding_up == (rank,)
    assert found.waiting != ()
    assert rank not in found.waiting or found.missing == ()


@pytest.mark.parametrize("seed", range(12, 24))
def test_what_dumps_have_forgotten_makes_no_other_rank_guilty(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    rank = random.randrange(8)
    stop = {rank: random.randrange(20, 40)}
    found = hang_of(tmp_path, random, stop, keep=10, status=seed % 2 == 0, lost=(rank + 3) % 8 if seed % 3 else rank)
    assert set(found.holding_up) <= {rank}
