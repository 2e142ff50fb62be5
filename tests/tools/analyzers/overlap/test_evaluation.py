"""Evaluation inside the steps: with and without gradients, and what looks alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.asked import ask
from tests.synthetic import RankBuilder, profile_of
from tools.views.host.phases import evaluation
from tools.views.profile import Profile

LAYERS, OPERATOR_US, STEP_US, STEPS = 4, 100.0, 10_000.0, 15


class Training:
    """A training on the host: passes of ``LAYERS`` operators one after another, each step 10 ms apart."""

    def __init__(self) -> None:
        self.rank = RankBuilder(device=None)
        self.sequence, self.now_us = 0, 0.0

    def forward(self, layers: int = LAYERS, gradients: bool = True) -> list[int]:
        """A forward pass; gives the sequence numbers of its operators."""
        numbers = list(range(self.sequence, self.sequence + layers)) if gradients else [-1] * layers
        self.sequence += layers if gradients else 0
        for number in numbers:
            self._operator("aten::addmm", number)
        return numbers

    def backward(self, numbers: Sequence[int], again: bool = False) -> None:
        """The backward nodes of these operators; ``again``: with the operators inside, as in checkpointing."""
        for number in reversed(numbers):
            start = self.now_us
            if again:
                self._operator("aten::addmm", self.sequence)
                self.sequence += 1
            self.now_us = start
            self._operator("autograd::engine::evaluate_function: AddmmBackward0", number, 2 * OPERATOR_US)

    def _operator(self, name: str, number: int, duration_us: float = OPERATOR_US) -> None:
        dims = [[1], [8, 8], [8, 8]] if name.startswith("aten") else []
        self.rank.operator(name, self.now_us, duration_us - 1.0, dims=dims, sequence=number)
        self.now_us += duration_us


def _run(step_of: Callable[[Training, int], None], steps: int = STEPS) -> Profile:
    training = Training()
    for step in range(steps):
        training.now_us = step * STEP_US
        step_of(training, step)
        assert training.now_us <= (step + 1) * STEP_US
        training.rank.step(step, step * STEP_US, (step + 1) * STEP_US)
    return profile_of(training.rank)


def _evaluating(at: Sequence[int], gradients: bool) -> Callable[[Training, int], None]:
    def step_of(training: Training, step: int) -> None:
        training.backward(training.forward())
        if step in at:
            for _ in range(8):
                training.forward(gradients=gradients)

    return step_of


@pytest.mark.parametrize(("gradients", "said"), [(True, "without `torch.no_grad()`"), (False, "without gradients")])
def test_forward_passes_at_one_distance_that_no_backward_pass_follows_are_an_evaluation(
    gradients: bool, said: str
) -> None:
    (found,) = ask(_run(_evaluating((4, 9, 14), gradients)), "overlap.evaluation").findings
    assert found.steps == (4, 9, 14)
    assert said in found.claim.template
    # A step trains for 4 x 0.1 + 4 x 0.2 ms; from there to its end it evaluates.
    steps, each, cost = (fact.value for fact in found.claim.facts)
    assert (steps, each, cost) == pytest.approx((3, 8.8, 8.8 * 3 / STEPS), rel=1e-3)
    assert [detail.template for detail in found.details if "inference_mode" in detail.template] == (
        [found.details[0].template] if gradients else []
    )


def test_an_evaluation_before_the_training_of_its_step_ends_where_the_training_begins() -> None:
    def step_of(training: Training, step: int) -> None:
        for _ in range(3 if step in (5, 10) else 0):
            training.forward()
        training.backward(training.forward())

    found = evaluation(_run(step_of), 0)
    assert found is not None
    assert found.steps == (5, 10)
    assert (found.moments[:, 1] - found.moments[:, 0]).tolist() == pytest.approx([1.2e6, 1.2e6], rel=1e-3)


def test_an_evaluation_is_found_next_to_a_frozen_layer_in_each_step() -> None:
    def step_of(training: Training, step: int) -> None:
        training.backward(training.forward()[1:])
        for _ in range(4 if step in (4, 9, 14) else 0):
            training.forward()

    found = evaluation(_run(step_of), 0)
    assert found is not None
    assert (found.steps, found.gradients, len(found.rows)) == ((4, 9, 14), True, 3 * 4 * LAYERS)


@pytest.mark.parametrize("gradients", [True, False])
def test_a_compiler_that_runs_the_model_to_learn_its_operators_is_no_evaluation(gradients: bool) -> None:
    def step_of(training: Training, step: int) -> None:
        training.backward(training.forward())
        if step in (4, 9, 14):
            begun_us = training.now_us
            for _ in range(8):
                training.forward(gradients=gradients)
            training.rank.annotation("_compile.compile_inner (dynamo_timed)", begun_us, training.now_us - begun_us)

    assert evaluation(_run(step_of), 0) is None


def _accumulating(training: Training, step: int) -> None:
    """The losses of five steps are summed, and one backward pass follows in the last of them."""
    numbers = training.forward()
    if step % 5 == 4:
        training.backward(range(numbers[-1] - 5 * LAYERS + 1, numbers[-1] + 1))


def _cut_accumulation(training: Training, step: int) -> None:
    """The same, but every step trains, and the last one's second backward pass is no longer recorded."""
    training.backward(training.forward())
    numbers = training.forward()
    if step < STEPS - 1:
        training.backward(numbers)


def _checkpointing(training: Training, step: int) -> None:
    """Every fifth step is checkpointed: the operators run again inside the backward nodes."""
    training.backward(training.forward(), again=step % 5 == 4)


def _discriminator(training: Training, step: int) -> None:
    """A generator whose output is detached in every step, trained itself in every fifth."""
    training.forward()
    training.backward(training.forward())
    if step % 5 == 4:
        training.backward(training.forward(2 * LAYERS))


def _auxiliary(training: Training, step: int) -> None:
    """Every fifth step, a head of one layer is run whose loss is not used."""
    training.backward(training.forward())
    if step % 5 == 4:
        training.forward(1)


def _first(training: Training, step: int) -> None:
    """The first step alone runs the model once more, as a warm-up does."""
    if step == 0:
        training.forward()
    training.backward(training.forward())


def _irregular(training: Training, step: int) -> None:
    """At no distance a whole pass is thrown away, as after a loss that is not finite."""
    numbers = training.forward()
    training.backward(numbers)
    if step in (1, 2, 9):
        training.forward()


def _skipped(training: Training, step: int) -> None:
    """Every fifth step has no backward pass at all: its loss is dropped, and nothing is trained in it."""
    numbers = training.forward()
    if step % 5 != 4:
        training.backward(numbers)


@pytest.mark.parametrize(
    "step_of",
    [_accumulating, _cut_accumulation, _checkpointing, _discriminator, _auxiliary, _first, _irregular, _skipped],
    ids=lambda step_of: step_of.__name__.strip("_"),
)
def test_what_looks_like_an_evaluation_with_gradients_is_none(step_of: Callable[[Training, int], None]) -> None:
    assert ask(_run(step_of), "overlap.evaluation").status == "clean"
