"""The frame in which a late rank's training thread is stands in the cause and the lead that name this rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.py_spy.test_stacks import DATA, STEP, dump, speedscope
from tools.findings import Finding, Sentence
from tools.judgement.lead import EVERY_STEP, Lead, Place
from tools.judgement.ranking import ranking
from tools.judgement.stack_places import placed_finding, placed_lead
from tools.sources.load import load_run
from tools.views.profile import Profile

LATE = Sentence("The others wait for {n0}.", (), ("rank 1",))


def profile_of(tmp_path: Path, text: str, name: str = "py-spy-rank1.json") -> Profile:
    (tmp_path / "train.log").write_text(megatron(*((step, 500.0) for step in range(1, 41))))
    (tmp_path / name).write_text(text)
    return Profile(load_run([tmp_path]))


def straggler(*ranks: int, cause: str = "straggler") -> Finding:
    return Finding(cause=cause, claim=LATE, confidence=0.9, ranks=ranks, impact_ms=10.0, impact_method="measured")


def lead(part: str, impact_ms: float, *ranks: int) -> Lead:
    return Lead(Place(part, ranks, EVERY_STEP), impact_ms, impact_ms / 5.0, LATE, (), "a trace")


def test_a_straggler_names_the_function_of_its_thread_with_its_share(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, speedscope((DATA, 160), (STEP, 40)))
    claim = placed_finding(profile, straggler(1)).claim
    assert claim.template.endswith("its training thread is in {n1} in {0} of the samples.")
    assert claim.names == ("rank 1", "decode (images.py:12)")
    assert [fact.value for fact in claim.facts] == pytest.approx([80.0])


@pytest.mark.parametrize(
    "finding",
    [straggler(0), straggler(0, 1), straggler(), straggler(1, cause="slow_data_processing")],
    ids=["another rank", "several ranks", "no rank", "a cause that says what the rank does"],
)
def test_other_findings_stay_as_they_are(tmp_path: Path, finding: Finding) -> None:
    assert placed_finding(profile_of(tmp_path, speedscope((DATA, 160), (STEP, 40))), finding) is finding or (
        placed_finding(profile_of(tmp_path, speedscope((DATA, 160), (STEP, 40))), finding).claim == LATE
    )


def test_few_samples_and_a_thread_that_is_in_many_places_name_no_function(tmp_path: Path) -> None:
    assert placed_finding(profile_of(tmp_path, speedscope((DATA, 16), (STEP, 4))), straggler(1)).claim == LATE
    spread = [((*STEP[:1], f"f{at} (/home/u/train.py:{at})"), 40) for at in range(5)]
    assert placed_finding(profile_of(tmp_path, speedscope(*spread)), straggler(1)).claim == LATE


def test_leads_on_one_rank_name_it_once_and_those_on_computation_do_not(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, speedscope((DATA, 160), (STEP, 40)))
    placed = placed_lead(profile, lead("exposed_communication", 20.0, 1))
    assert placed.claim.names[1] == "decode (images.py:12)"
    assert placed_lead(profile, placed) is placed
    assert placed_lead(profile, lead("compute", 20.0, 1)).claim == LATE


def test_one_stack_is_stated_of_a_rank_that_blocks_and_of_no_other(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, dump(7, "decode (/home/u/images.py:12)", "main (train.py:70)"), "py-spy-rank1.txt")
    said = placed_lead(profile, lead("step", 0.0, 1)).claim
    assert said.template.endswith("At one moment, by the sampled stacks of rank 1, its training thread was in {n1}.")
    assert said.names[1] == "decode (images.py:12)"
    assert placed_lead(profile, lead("host", 20.0, 1)).claim == LATE
    assert placed_finding(profile, straggler(1)).claim == LATE


WRITES = (*STEP[:1], "write_log (/mnt/shared/logger.py:12)")
COLLECTIVE = (*STEP[:1], "all_reduce (/x/site-packages/torch/distributed/distributed_c10d.py:99)")
LOADS = (*STEP[:1], "decode (/home/u/images.py:12)")


def ranks_of(path: Path, *stacks: tuple[tuple[str, ...], ...], log: bool = True) -> Profile:
    """Each rank's samples evenly over its stacks, next to even steps."""
    for rank, own in enumerate(stacks):
        (path / f"py-spy-rank{rank}.json").write_text(speedscope(*((stack, 200 // len(own)) for stack in own)))
    if log:
        (path / "train.log").write_text(megatron(*((step, 500.0) for step in range(1, 41))))
    return Profile(load_run([path]))


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize(("stack", "second"), [(WRITES, "checkpoint_stall"), (LOADS, "slow_data_processing")])
def test_the_rank_whose_stacks_differ_is_the_first_lead(
    tmp_path: Path, stack: tuple[str, ...], second: str, log: bool
) -> None:
    lead = ranking(ranks_of(tmp_path, (STEP,), (STEP,), (stack,), (STEP,), log=log)).leads[0]
    assert (lead.place.ranks, lead.place.frame, lead.impact_ms) == ((2,), stack[-1], 0.0)
    assert [each.cause for each in lead.candidates[:2]] == ["straggler", second]
    assert lead.claim.template.startswith("Rank 2 is elsewhere")


@pytest.mark.parametrize(
    "stacks",
    [
        ((STEP,), (STEP,), (STEP,)),
        ((STEP,), (WRITES,)),
        ((STEP,), (WRITES,), (LOADS,)),
        ((STEP, WRITES), (STEP, WRITES), (WRITES,)),
        ((STEP,), (STEP,), (COLLECTIVE,)),
    ],
    ids=["all alike", "two ranks", "each elsewhere", "others are there too", "it waits for the others"],
)
def test_no_rank_is_elsewhere_where_it_does_not_stand_out_or_waits(
    tmp_path: Path, stacks: tuple[tuple[tuple[str, ...], ...], ...]
) -> None:
    leads = ranking(ranks_of(tmp_path, *stacks)).leads
    assert not [each for each in leads if each.place.frame]


def test_the_step_lies_in_a_function_only_where_all_sampled_ranks_are_in_it(tmp_path: Path) -> None:
    (tmp_path / "alike").mkdir()
    (tmp_path / "apart").mkdir()
    alike, apart = ranks_of(tmp_path / "alike", (STEP,), (STEP,)), ranks_of(tmp_path / "apart", (STEP,), (WRITES,))
    assert "By the sampled stacks" in placed_lead(alike, lead("step", 500.0, 0)).claim.template
    assert placed_lead(apart, lead("step", 500.0, 0)).claim == LATE
