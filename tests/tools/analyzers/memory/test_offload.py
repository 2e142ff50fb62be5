"""Copies that bring offloaded data back between the kernels, and what looks like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.asked import asking
from tests.real_runs import real_profile
from tests.synthetic import RankBuilder, profile_of
from tools.judgement.hypotheses import outcome_of, propose
from tools.judgement.ranking import ranking
from tools.judgement.unseen import device_work_missing
from tools.run.events import EventKind
from tools.whatif.change import Scale

MB = 10**6
NAME = "Memcpy HtoD (Pinned -> Device)"
analyze = asking("memory.offload", "io.upload")


def copying(*sizes_mb: float, times: int, copy_us: float = 80.0, number: int = 0) -> RankBuilder:
    """One step of ``times`` layers; before each kernel of 20 us one of the sizes is copied for ``copy_us``."""
    rank, at = RankBuilder(number), 0.0
    for _ in range(times):
        for size in sizes_mb:
            rank.copy(NAME, start_us=at, duration_us=copy_us, call_us=at, bytes_=int(size * MB))
            rank.kernel("gemm", start_us=at + copy_us, duration_us=20, call_us=at + 1)
            at += copy_us + 20
    rank.step(0, 0, at)
    return rank


def test_layers_that_are_copied_one_after_another_are_offloaded() -> None:
    """20 times 201 and 67 MB: 5.36 GB and 40 copies of 80 us; the kernels take 40 times 20 us."""
    offload, upload = analyze(profile_of(copying(201, 67, times=20)))
    (finding,) = offload.findings
    assert (finding.cause, finding.mechanism) == ("memory_pressure", "offload_stall")
    assert [fact.value for fact in finding.claim.facts] == pytest.approx([5.36, 3.2])
    assert finding.saving is not None
    assert (finding.saving.saved_ms, finding.saving.least_ms) == pytest.approx((3.2, 1.6))
    assert finding.details[0].facts[0].value == pytest.approx(0.8)
    assert upload.status == "clean"


@pytest.mark.parametrize(
    "rank",
    [
        pytest.param(copying(50, times=40), id="a batch of each micro-batch"),
        pytest.param(copying(201, 67, times=4), id="few copies"),
        pytest.param(copying(0.2, 0.1, times=20), id="small copies"),
        pytest.param(copying(*(100 + size for size in range(40)), times=1), id="sizes that do not recur"),
    ],
)
def test_other_copies_to_the_device_are_not_offloaded_data(rank: RankBuilder) -> None:
    offload, upload = analyze(profile_of(rank))
    assert offload.status == "clean"
    assert upload.status == "found"


def test_copies_without_sizes_are_not_offloaded_data() -> None:
    rank = RankBuilder()
    for at in range(0, 4000, 100):
        rank.copy(NAME, start_us=at, duration_us=80, call_us=at)
        rank.kernel("gemm", start_us=at + 80, duration_us=20, call_us=at + 1)
    rank.step(0, 0, 4000)
    assert analyze(profile_of(rank))[0].status == "clean"


def test_prefetching_hides_copies_under_the_kernels_only() -> None:
    """3.2 ms of copies over 0.8 ms of kernels: three quarters of the copies' time stay."""
    (finding,) = analyze(profile_of(copying(50, times=40)))[1].findings
    (scale,) = finding.change
    assert isinstance(scale, Scale)
    assert scale.factor == pytest.approx(0.75)


def test_offloaded_layers_of_an_unmarked_recording_are_a_lead_of_unknown_cost(traces: Path) -> None:
    """By SQL over the export: 25.475 GB are copied to each device, and its kernels run for 22.4 ms of 969 ms."""
    profile = real_profile(traces / "nsys/h100_2gpu_1s.sqlite")
    assert profile.ranks[0].events.of_kind(EventKind.MEMCPY).shape[0] > 200
    assert device_work_missing(profile) == ""
    (finding,) = analyze(profile)[0].findings
    assert finding.claim.facts[0].value == pytest.approx(25.475, abs=0.001)
    assert finding.details[0].facts[0].value == pytest.approx(22.4, abs=0.1)
    assert finding.claim.template.startswith("On ranks 0 and 1 alike (figures of rank 1): {0} per step return")
    found = ranking(profile)
    assert not found.causes
    copies, offloading = found.leads
    assert (
        copies.claim.template
        == "Copying takes {0} of a step of rank 0 ({1}), and no well-supported cause accounts for it."
    )
    assert offloading.claim.template == finding.claim.template
    assert [each.cause for each in offloading.candidates] == ["memory_pressure"]
    (batches,) = [each for each in propose(profile, found, (), ()) if each.cause == "slow_data_fetching"]
    assert outcome_of(profile, batches) == (
        "upload_exposed_ms needs copies to the device that are not of offloaded data"
    )


def test_ranks_are_named_together_where_their_copies_differ_by_less_than_a_hundredth() -> None:
    near, far = (
        profile_of(copying(201, 67, times=20), copying(201, 67, times=20, copy_us=us, number=1)) for us in (80.5, 85)
    )
    claims = [analyze(profile)[0].findings[0].claim.template for profile in (near, far)]
    assert claims[0].startswith("On ranks 0 and 1 alike (figures of rank 1): {0} per step return")
    assert claims[1].startswith("{0} per step return")
