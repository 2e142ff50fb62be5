"""Checks that the debug mode of torch.distributed makes before each collective, by what a trace shows."""

from __future__ import annotations

import pytest

from tests.asked import ask
from tests.synthetic import RankBuilder, profile_of
from tools.views.communication.collective_checks import collectives_checked
from tools.views.profile import Profile

CALLS = 30


def exchanging(checked: bool, gathers: int = 2) -> Profile:
    """Two ranks that exchange each of thirty gradients; ``checked``: after a barrier and gathers inside the call."""
    ranks = [RankBuilder(number, device=None) for number in range(2)]
    for rank in ranks:
        gloo = rank.host_thread("gloo")
        for call in range(CALLS):
            at = 1_000.0 * call
            rank.operator("torch::autograd::AccumulateGrad", at, 5)
            rank.operator("c10d::allreduce_", at + 10, 900)
            if checked:
                rank.annotation("gloo:send", at + 20, 30)
                rank.annotation("gloo:recv", at + 60, 100)
                for gather in range(gathers):
                    rank.annotation("gloo:all_gather", at + 200 + 150 * gather, 140, track=gloo)
            rank.annotation("gloo:all_reduce", at + 600, 280, track=gloo)
        rank.step(0, 0, 1_000.0 * CALLS + 5_000)
    return profile_of(*ranks)


def test_a_barrier_and_two_gathers_in_each_call_are_the_debug_mode() -> None:
    profile = exchanging(checked=True)
    assert all(collectives_checked(profile, rank) for rank in (0, 1))
    (finding,) = ask(profile, "cpu.environment").findings
    assert (finding.cause, finding.mechanism, finding.ranks) == ("environment_configuration", "debug_variable", (0, 1))
    assert finding.claim.names == ("TORCH_DISTRIBUTED_DEBUG",)
    assert finding.details[0].facts[0].value == 2 * CALLS


def test_collectives_alone_or_with_one_gather_of_the_program_are_not_checked() -> None:
    for profile in (exchanging(checked=False), exchanging(checked=True, gathers=1)):
        assert not collectives_checked(profile, 0)
        assert ask(profile, "cpu.environment").status == "cannot_answer"


def test_messages_after_debug_checks_show_no_saving_and_others_cost_what_they_take_themselves() -> None:
    assert ask(exchanging(checked=True), "communication.small_packet").findings == ()
    (gathering,) = ask(exchanging(checked=True, gathers=1), "communication.small_packet").findings
    (plain,) = ask(exchanging(checked=False), "communication.small_packet").findings
    assert (gathering.cause, plain.cause) == ("small_packet", "small_packet")
    assert gathering.saving is not None
    assert plain.saving is not None
    exposed, theirs = gathering.claim.facts[1].value, 280.0 / (280.0 + 140.0 + 130.0)
    assert gathering.saving.saved_ms == pytest.approx(exposed * theirs * (1.0 - 1.0 / CALLS))
    assert plain.saving.saved_ms == pytest.approx(plain.claim.facts[1].value * (1.0 - 1.0 / CALLS))
