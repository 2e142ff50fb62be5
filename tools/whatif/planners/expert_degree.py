"""Number of chunks of an expert layer for which its all-to-alls and experts overlap best.

PipeMoE: with r chunks one all-to-all takes ``t_d(r) = alpha + beta * bytes / r``, the experts ``t_e(r)`` likewise.
FSMoE adds gather and scatter inside a node and the gradients' all-reduce. MPMoE gives the memory that chunks save, and
FasterMoE the experts worth a copy on every device.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from tools.whatif.planners.linear_cost import Line, fit_line
from tools.whatif.planners.record import (
    FASTEST_BYTES_PER_MS,
    FASTEST_OPERATIONS_PER_MS,
    MOST_MS,
    Bytes,
    Given,
    Milliseconds,
    NoPlanError,
    Operations,
    Plan,
    Planned,
)
from tools.whatif.timeline import Bar

MOST_CHUNKS = 4096  # every degree is looked at, so the choice is exact
MOST_TOKENS = 10**12  # a larger number is a slip
ROUNDING = 1e-12  # relative; equal times are computed no worse than this
BACKWARD_GEMMS = 2.0  # for each matrix product of the forward pass: gradients of inputs and of weights (FSMoE)


class TransferPoint(Given):
    """A measured transfer."""

    bytes: Bytes
    ms: Milliseconds


class Transfer(Given):
    """A collective over all chunks: its cost (alpha and beta, or points to fit them to) and the bytes of one pass."""

    alpha_ms: Milliseconds | None = None
    beta_ms_per_byte: Annotated[float | None, Field(ge=0, le=MOST_MS)] = None
    points: list[TransferPoint] | None = None
    bytes: Bytes

    @model_validator(mode="after")
    def _has_cost(self) -> Transfer:
        self.line()
        return self

    def line(self) -> Line:
        """Time of one transfer by its bytes."""
        points = None if self.points is None else [(each.bytes, each.ms) for each in self.points]
        line = _line(self.alpha_ms, self.beta_ms_per_byte, points, "beta_ms_per_byte")
        if 0 < line.beta_ms_per_unit < 1 / FASTEST_BYTES_PER_MS:
            raise ValueError(
                f"beta_ms_per_byte: {line.beta_ms_per_unit:g} is a link faster than 1 PB/s; check the unit"
            )
        return line


class ExpertPoint(Given):
    """A measured run of the experts."""

    operations: Operations
    ms: Milliseconds


class Experts(Given):
    """The experts' computation on one device: its cost (alpha and beta, or points) and the operations of one pass."""

    alpha_ms: Milliseconds | None = None
    beta_ms_per_operation: Annotated[float | None, Field(ge=0, le=MOST_MS)] = None
    points: list[ExpertPoint] | None = None
    operations: Operations

    @model_validator(mode="after")
    def _has_cost(self) -> Experts:
        self.line()
        return self

    def line(self) -> Line:
        """Time of one kernel by its operations."""
        points = None if self.points is None else [(each.operations, each.ms) for each in self.points]
        line = _line(self.alpha_ms, self.beta_ms_per_operation, points, "beta_ms_per_operation")
        if 0 < line.beta_ms_per_unit < 1 / FASTEST_OPERATIONS_PER_MS:
            raise ValueError(
                f"beta_ms_per_operation: {line.beta_ms_per_unit:g} is a device of more than "
                f"{FASTEST_OPERATIONS_PER_MS:g} operations per ms; check the unit"
            )
        return line


class Buffers(Given):
    """Sizes that memory follows from: tokens per device, widths, bytes per element, and what may be used."""

    tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)]
    model_width: Annotated[int, Field(ge=1, le=MOST_TOKENS)]
    hidden_width: Annotated[int, Field(ge=1, le=MOST_TOKENS)]
    bytes_per_element: Annotated[int, Field(ge=1, le=8)] = 4
    memory_bytes: Bytes | None = None

    def needed_bytes(self, chunks: int) -> float:
        """Activations and gradient buffers (MPMoE): chunks share two buffers of each end and one of the middle."""
        ends, middle = (4 * self.model_width / chunks, self.hidden_width / chunks)
        if chunks == 1:
            ends = 2 * self.model_width
        return 2 * self.tokens * self.bytes_per_element * (ends + middle)


class Shadowing(Given):
    """FasterMoE: tokens per expert; compute and transfer of one token, and sending the weights of one expert."""

    expert_tokens: Annotated[list[Annotated[int, Field(ge=0, le=MOST_TOKENS)]], Field(min_length=1, max_length=100_000)]
    compute_ms_per_token: Milliseconds
    transfer_ms_per_token: Milliseconds
    send_ms: Milliseconds


class Input(Given):
    """One pass over an expert layer; with ``gradient_all_reduce_ms`` it is the backward pass."""

    all_to_all: Transfer
    experts: Experts
    max_degree: Annotated[int, Field(ge=1, le=MOST_CHUNKS)]
    gather: Transfer | None = None
    scatter: Transfer | None = None
    gradient_all_reduce_ms: Milliseconds = 0.0
    buffers: Buffers | None = None
    shadowing: Shadowing | None = None


class Shadowed(Plan):
    """Experts to copy to every device, and the predicted time without and with the copies."""

    experts: list[int]
    before_ms: float
    after_ms: float


class DegreePlan(Plan):
    """Chunks of this pass and its time per degree; the same with the backward pass' experts; memory; shadowing."""

    degree: int
    times_ms: dict[str, float]
    backward_degree: int
    backward_times_ms: dict[str, float]
    alpha_beta: dict[str, tuple[float, float]]
    memory_bytes: float | None
    memory_saved_bytes: float | None
    shadowing: Shadowed | None


def plan(given: Input) -> Planned:
    """Return the degree with the least time; every degree up to ``max_degree`` is looked at, at most 4,096."""
    times = regime_times_ms(given, 1.0)
    total = times.max(axis=0)
    backward = regime_times_ms(given, BACKWARD_GEMMS).max(axis=0)
    allowed = _degrees_that_fit(given)
    degree = _best(total, allowed)
    names = {"all_to_all": given.all_to_all, "experts": given.experts, "gather": given.gather, "scatter": given.scatter}
    lines = {name: part.line() for name, part in names.items() if part is not None}
    buffers = given.buffers
    needed = None if buffers is None else buffers.needed_bytes(degree)
    return Planned(
        planner="expert-degree",
        plan=DegreePlan(
            degree=degree,
            times_ms=_by_degree(total),
            backward_degree=_best(backward, allowed),
            backward_times_ms=_by_degree(backward),
            alpha_beta={name: (line.alpha_ms, line.beta_ms_per_unit) for name, line in lines.items()},
            memory_bytes=needed,
            memory_saved_bytes=None if buffers is None or needed is None else buffers.needed_bytes(1) - needed,
            shadowing=None if given.shadowing is None else shadowed(given.shadowing),
        ),
        before_ms=float(total[0]),
        after_ms=float(total[degree - 1]),
        gap_ms=0.0,
        bound=_REGIMES[int(times[:, degree - 1].argmax())],
        assumptions=[
            "Before is one chunk. Routing is balanced: every device sends and computes the same.",
            "Overlapping kernels do not slow each other; with one launch connection half of the gain can be lost.",
            f"The backward pass computes {BACKWARD_GEMMS:g} times as much in the experts.",
        ],
        bars=None
        if _more_than_experts(given)
        else lambda: [*_bars(given, 1, "present"), *_bars(given, degree, "planned")],
    )


def _more_than_experts(given: Input) -> bool:
    """Whether other collectives take part, whose regimes are known, but not the order within them."""
    return bool(given.gather or given.scatter or given.gradient_all_reduce_ms)


def _bars(given: Input, degree: int, group: str) -> list[Bar]:
    """All first all-to-alls, experts as chunks arrive, then the second all-to-alls (PipeMoE's order)."""
    exchange_ms = given.all_to_all.line().time_ms(given.all_to_all.bytes / degree)
    expert_ms = given.experts.line().time_ms(given.experts.operations / degree)
    bars, free_ms = list[Bar](), 0.0
    for chunk in range(degree):
        arrived_ms = (chunk + 1) * exchange_ms
        start_ms = max(free_ms, arrived_ms)
        free_ms = start_ms + expert_ms
        bars.append(
            Bar("network", f"first all-to-all {chunk}", "all-to-all", arrived_ms - exchange_ms, arrived_ms, group)
        )
        bars.append(Bar("experts", f"experts {chunk}", "experts", start_ms, free_ms, group))
    free_ms = degree * exchange_ms
    for chunk, done in enumerate([each for each in bars if each.lane == "experts"]):
        start_ms = max(free_ms, done.end_ms)
        free_ms = start_ms + exchange_ms
        bars.append(Bar("network", f"second all-to-all {chunk}", "all-to-all", start_ms, free_ms, group))
    return bars


_REGIMES = (
    "the all-to-alls on the network",
    "the all-to-alls and the gradients' all-reduce on the network",
    "the experts' compute",
    "gather and scatter inside the node",
)


def regime_times_ms(given: Input, expert_factor: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the times of FSMoE's four regimes (rows) for 1 to ``max_degree`` chunks; the largest holds.

    Without gather, scatter and all-reduce that is PipeMoE's ``max(2 r t_d, 2 t_d + r t_e)``, and for one chunk the sum.
    """
    chunks = np.arange(1, given.max_degree + 1, dtype=float)

    def each_ms(part: Transfer | None) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        if part is None:
            return np.zeros_like(chunks)
        line = part.line()
        return line.alpha_ms + line.beta_ms_per_unit * part.bytes / chunks

    experts = given.experts.line()
    expert_ms = expert_factor * (experts.alpha_ms + experts.beta_ms_per_unit * given.experts.operations / chunks)
    exchange_ms, inside_ms = each_ms(given.all_to_all), each_ms(given.gather) + each_ms(given.scatter)
    return np.stack(
        [
            2 * chunks * exchange_ms + inside_ms,
            2 * chunks * exchange_ms + given.gradient_all_reduce_ms,
            2 * exchange_ms + inside_ms + chunks * expert_ms,
            2 * exchange_ms + chunks * inside_ms,
        ]
    )


def shadowed(given: Shadowing) -> Shadowed:
    """Return the experts to shadow: those with most tokens, as many as make the time least.

    With the k largest shadowed the time is ``3 * compute * B + 4 * transfer * B + k * send`` for the largest load B
    that is left.
    """
    order = sorted(range(len(given.expert_tokens)), key=lambda each: given.expert_tokens[each], reverse=True)
    left = [*(given.expert_tokens[each] for each in order), 0]
    per_token_ms = 3 * given.compute_ms_per_token + 4 * given.transfer_ms_per_token
    times_ms = [per_token_ms * tokens + copies * given.send_ms for copies, tokens in enumerate(left)]
    copies = min(range(len(times_ms)), key=lambda each: times_ms[each])
    return Shadowed(experts=order[:copies], before_ms=times_ms[0], after_ms=times_ms[copies])


def _line(alpha: float | None, beta: float | None, points: list[tuple[float, float]] | None, name: str) -> Line:
    if points is not None:
        if alpha is not None or beta is not None:
            raise ValueError(f"give points, or alpha_ms and {name}, not both")
        return fit_line([size for size, _ in points], [time for _, time in points])
    if alpha is None or beta is None:
        raise ValueError(f"{'alpha_ms' if alpha is None else name} is missing (or give measured points)")
    return Line(alpha, beta)


def _degrees_that_fit(given: Input) -> list[int]:
    degrees = list(range(1, given.max_degree + 1))
    buffers = given.buffers
    if buffers is None or buffers.memory_bytes is None:
        return degrees
    limit = buffers.memory_bytes
    allowed = [each for each in degrees if buffers.needed_bytes(each) <= limit]
    if not allowed:
        least = min(buffers.needed_bytes(each) for each in degrees)
        raise NoPlanError(
            f"no degree up to {given.max_degree} fits into buffers.memory_bytes = {limit:.15g}: at least {least:.15g} "
            f"bytes are needed, {least - limit:.15g} more"
        )
    return allowed


def _best(times_ms: np.ndarray[tuple[int], np.dtype[np.float64]], allowed: list[int]) -> int:
    """The smallest degree of those that are fastest."""
    least = min(float(times_ms[degree - 1]) for degree in allowed)
    return next(degree for degree in allowed if times_ms[degree - 1] <= least * (1 + ROUNDING))


def _by_degree(times_ms: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, float]:
    return {str(degree): float(time_ms) for degree, time_ms in enumerate(times_ms, start=1)}
