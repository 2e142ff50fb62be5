"""Answers that are one figure, and answers that are not given because they are beside the question."""

from __future__ import annotations

import pytest

from hermes_agent.questions.answers.figures import answers
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import reply
from hermes_agent.questions.kinds import FIGURE
from hermes_agent.questions.reading.asked import asked
from hermes_agent.questions.reading.question import read_question
from tests.collective_runs import late_run
from tests.hermes_agent.questions import discussed
from tools.metrics.calls import kind_each_ms, kind_pct
from tools.metrics.communication.collectives import collective_each_ms


@pytest.fixture(scope="module")
def loader() -> Discussion:
    return discussed.slow_loader()


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("How long does rank 0 wait for data?", "Waiting for data: 40.0 ms"),
        ("What share of the step waits for data?", "Waiting for data: 40.0 %"),
        ("what percent of a step does rank 0 spend waiting for its loader?", "Waiting for data: 40.0 %"),
        ("how long is the longest kernel?", "Kernels, the longest single one: 59.8 ms"),
        ("how long do the sgemm kernels run?", "Kernels whose name holds `sgemm`: 59.8 ms"),
        ("shortest step?", "Step time, the shortest: 100 ms"),
        ("which profiled step is the longest?", "Step time in step 0: 100 ms"),
        ("how long is the GPU busy in a step?", "Time in which the device runs kernels: 59.8 ms"),
        ("how long does one batch take to load?", "Making batches in the data loader: 40.0 ms"),
    ],
)
def test_the_figure_that_is_asked_for_is_given_first(loader: Discussion, text: str, figure: str) -> None:
    answer = reply(loader, text)
    assert answer.text.startswith(figure)
    assert discussed.unsupported(answer.text, loader) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("what did garbage collection cost?", "the time of garbage collection: the run has no monitor records"),
        ("were any packets retransmitted?", "the share of retransmitted packets: the run has no monitor samples"),
        ("how long before the first kernel starts?", "narrowed by `before`, `first` and `starts`"),
        ("how long do flux capacitors take?", "`flux` and `capacitors`"),
        ("total time waiting for data over all steps", "means per step"),
    ],
)
def test_what_has_no_answer_is_declined_without_another_figure(loader: Discussion, text: str, reason: str) -> None:
    answer = reply(loader, text)
    assert answer.intent == FIGURE
    assert "no answer to exactly that" in answer.text
    assert reason in answer.text
    assert answer.evidence == ()


def test_an_answer_with_another_statistic_quantity_or_rank_is_no_answer() -> None:
    longest = asked(read_question("how long is the longest all-reduce on rank 6?"))
    assert longest is not None
    assert answers(longest, "All-reduces on rank 6, the longest single one: 0.92 ms.", (0, 6))
    assert not answers(longest, "All-reduces on rank 6 take 0.58 ms as the mean.", (0, 6))
    assert not answers(longest, "The longest of the all-reduces on rank 0 takes 0.92 ms.", (0, 6))
    assert not answers(longest, "The longest all-reduce on rank 6 is 12.0 % of the step.", (0, 6))
    assert answers(longest, "There are no collectives in the recorded steps.", (0, 6))
    least = asked(read_question("which rank waits least for data?"))
    assert least is not None
    assert not answers(least, "Rank 1 waits most for data: 60.0 ms per step.", (0, 1))


def test_the_rank_with_least_is_named_with_the_next_ones() -> None:
    run = discussed.discuss(late_run(lambda rank, _: 3_000.0 if rank == 2 else 0.0))
    ranks = {rank: run.measure("collective_busy_ms", rank=rank).value for rank in run.ranks}
    text = reply(run, "which rank spends the least time in collectives?").text
    first = min(ranks, key=lambda rank: ranks[rank])
    assert f"on rank {first}:" in text.splitlines()[0]
    assert "the least of" in text.splitlines()[0]


def test_single_events_and_shares_of_a_kind_are_measured(loader: Discussion) -> None:
    profile = loader.profile()
    whole = kind_each_ms(profile, 0, "kernel", statistic="min").value, kind_each_ms(profile, 0, "kernel").value
    assert whole == pytest.approx((59.84, 59.84))
    assert kind_pct(profile, 0, "kernel").value == pytest.approx(59.84)
    assert kind_pct(profile, 0, "kernel", of="busy").value == pytest.approx(100.0)
    assert kind_pct(profile, 0, "operator", "mm|add", without="mm").value == 0.0


def test_single_collectives_are_measured() -> None:
    profile = late_run(lambda rank, _: 3_000.0 if rank == 2 else 0.0)
    times = [collective_each_ms(profile, statistic=each).value for each in ("min", "median", "max")]
    assert times == sorted(times)
    assert times[0] > 0
