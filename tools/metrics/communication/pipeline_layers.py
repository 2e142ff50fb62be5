"""The input of ``pipeline-memory`` from a recorded pipeline: the layers that its stages repeat, and their times.

The forward operators that leave work to autograd, of one micro-batch and stage after stage, are the model in order. Its
layers are the run of operators that repeats (names and shapes); what is before the first and behind the last counts
to these. A backward node belongs to the forward operator with its sequence number. What else a stage computes (adding
up gradients, the update) is shared out to its layers in proportion, so that their sum is the stage's recorded compute.
Bytes are not recorded: only compute is planned, as if all activations fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tools.errors import InputError, UsageError
from tools.metrics.communication.pipeline import SELECTOR, Stages, pipeline
from tools.metrics.measurement import Measurement, metric, of_ranks
from tools.run.links import enclosing
from tools.views.communication.collectives import point_to_point
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile
from tools.whatif.planners.pipeline_memory import MOST_LAYERS, Input, Layer, PipelinePlan, plan
from tools.whatif.planners.record import FASTEST_BYTES_PER_MS, MOST_BYTES, Planned

NS_PER_MS = 1e6
FEWEST_LAYERS = 2
LEAST_SHARE = 0.5  # of the computation: with less in layers that repeat, moving them says little about the stages
MOST_OPERATORS = 20_000  # of one micro-batch; every distance between two of them is tried

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class RepeatedLayers:
    """Layers of equal make-up: the ranks in order of stages, layers of each, and times of a micro-batch per layer."""

    ranks: tuple[int, ...]
    per_stage: tuple[int, ...]
    forward_ms: Numbers
    backward_ms: Numbers
    micro_batches: int


@dataclass(frozen=True)
class PlannedStages:
    """The plan of a recorded pipeline, and the layers per stage now and planned."""

    layers: RepeatedLayers
    made: Planned
    per_stage: tuple[int, ...]

    @property
    def heaviest_ms(self) -> float:
        """Compute per step of the heaviest stage as planned."""
        return self.made.after_ms * self.layers.micro_batches

    @property
    def moves(self) -> bool:
        """Whether the plan moves layers."""
        return self.per_stage != self.layers.per_stage


@dataclass(frozen=True)
class _Pass:
    """What a stage computes of one micro-batch: its forward operators in order, with the time of both directions."""

    rank: int
    begin_ns: float
    signatures: tuple[str, ...]
    forward_ns: Numbers
    backward_ns: Numbers


@memoized
def planned_stages(profile: Profile) -> PlannedStages:
    """The best cut of the recorded layers into stages; InputError that names what the run lacks."""
    found = recorded_layers(profile)
    made = plan(as_input(found))
    assert isinstance(made.plan, PipelinePlan)
    behind = [*made.plan.first_layers[1:], len(found.forward_ms)]
    counts = tuple(end - first for first, end in zip(made.plan.first_layers, behind, strict=True))
    assumptions = [
        *made.assumptions,
        f"{len(found.forward_ms)} layers repeat, {listed(found.per_stage)} on the stages of the ranks "
        f"{listed(found.ranks)}; a layer takes as long on another stage. Times are of one micro-batch.",
        "Bytes are not recorded and counted as 0: check that the planned stages fit into memory.",
    ]
    return PlannedStages(found, replace(made, assumptions=assumptions), counts)


def possible_stages(profile: Profile) -> PlannedStages | None:
    """The same; None where the run lacks something."""
    try:
        return planned_stages(profile)
    except InputError:
        return None


def listed(numbers: Sequence[int]) -> str:
    """Numbers as they stand in a sentence."""
    return ", ".join(map(str, numbers))


def as_input(found: RepeatedLayers) -> Input:
    """The layers as the planner reads them, with memory that holds everything."""
    current = np.cumsum([0, *found.per_stage[:-1]]).tolist()
    return Input(
        layers=[
            Layer(forward_ms=ahead, backward_ms=back, activation_bytes=0.0, weight_bytes=0.0, optimizer_bytes=0.0)
            for ahead, back in zip(found.forward_ms.tolist(), found.backward_ms.tolist(), strict=True)
        ],
        stages=len(found.per_stage),
        device_memory_bytes=MOST_BYTES,
        host_link_bytes_per_ms=FASTEST_BYTES_PER_MS,
        current=current,
        micro_batches=found.micro_batches,
    )


def recorded_layers(profile: Profile) -> RepeatedLayers:
    """The layers of a recorded pipeline; InputError that names what the run lacks."""
    stages = pipeline(profile)
    if stages is None:
        raise InputError("the traces show no pipeline of stages; add the traces of all stages for the same steps")
    if stages.count != len(stages.table):
        raise InputError(
            f"{len(stages.table)} traced ranks form a pipeline of {stages.count} stages; give one trace per stage"
        )
    passes = sorted(
        (_pass(profile.rank(rank), stages) for rank in stages.table.index.tolist()), key=lambda each: each.begin_ns
    )
    signatures = [each for one in passes for each in one.signatures]
    if len(signatures) > MOST_OPERATORS:
        raise InputError(f"a micro-batch has more than {MOST_OPERATORS} forward operators; give the layers as JSON")
    cuts = np.cumsum([len(one.signatures) for one in passes])[:-1]
    first, period, count = _repeated(np.unique(signatures, return_inverse=True)[1], cuts)
    layer_of = np.clip((np.arange(len(signatures)) - first) // period, 0, count - 1)
    scaled = [_of_compute(one, stages) for one in passes]
    forward, backward = (
        np.bincount(layer_of, weights=np.concatenate(parts), minlength=count).astype(np.float64)
        for parts in zip(*scaled, strict=True)
    )
    edges = [0, *((cuts - first) // period).tolist(), count]
    per_stage = tuple(int(edge - before) for before, edge in pairwise(edges))
    if min(per_stage) < 1:
        empty = passes[per_stage.index(min(per_stage))].rank
        raise InputError(f"the stage of rank {empty} holds none of the layers that repeat; give the layers as JSON")
    if count > MOST_LAYERS:
        raise InputError(f"{count} layers repeat, more than the {MOST_LAYERS} that the planner cuts")
    ranks = tuple(one.rank for one in passes)
    return RepeatedLayers(ranks, per_stage, forward, backward, round(stages.micro_batches))


def _of_compute(one: _Pass, stages: Stages) -> tuple[Numbers, Numbers]:
    """Times in ms that add up to the stage's recorded compute of a micro-batch."""
    recorded_ms = float(stages.table["compute_ms"].loc[one.rank]) / round(stages.micro_batches)
    scale = recorded_ms / max(float(one.forward_ns.sum() + one.backward_ns.sum()), 1.0)
    return one.forward_ns * scale, one.backward_ns * scale


def _pass(view: RankProfile, stages: Stages) -> _Pass:
    rank, details = view.rank.rank, view.events.details.operators
    known = details["row"].to_numpy()[(details["sequence"] >= 0).to_numpy()]
    rows = view.outermost(view.in_steps(known[~view.named("communication_operator")[known]]))
    nodes, calls = (rows[view.named("backward_node")[rows] == wanted] for wanted in (True, False))
    if not len(nodes) or not len(calls):
        raise InputError(
            f"the trace of rank {rank} has no forward and backward operators with sequence numbers, which the layers "
            "follow from; record host activities with record_shapes=True"
        )
    if len(np.unique(view.track[calls])) > 1:
        raise InputError(f"several threads of rank {rank} run the forward pass; give the layers as JSON")
    sequence = details.set_index("row")["sequence"]
    ahead, back = sequence.loc[calls].to_numpy(), sequence.loc[nodes].to_numpy()
    if (np.diff(ahead) < 0).any():
        raise InputError(f"the sequence numbers of rank {rank} do not rise with time; give the layers as JSON")
    own = (back >= ahead[0]) & (back < np.iinfo(np.int64).max)
    of_call = np.searchsorted(ahead, back[own], side="right") - 1  # the last call before the node's number was given
    busy_ns = _computing_ns(view, np.concatenate([calls, nodes[own]]))
    backward_ns = np.bincount(of_call, weights=busy_ns[len(calls) :], minlength=len(calls))
    trained = np.unique(of_call)
    calls, forward_ns, backward_ns = calls[trained], busy_ns[trained], backward_ns[trained]
    dims = details.set_index("row")["dims"].loc[calls].astype(str)
    signatures = np.array([f"{name} {shape}" for name, shape in zip(view.names(calls), dims, strict=True)])
    passing, whole = round(stages.micro_batches) * len(view.steps), len(calls)
    if whole % passing or (signatures.reshape(passing, -1) != signatures[: whole // passing]).any():
        raise InputError(f"the micro-batches of rank {rank} do not all run the same operators; give the layers as JSON")
    each = (float(view.start[calls].reshape(len(view.steps), -1)[:, 0].mean()), tuple(signatures[: whole // passing]))
    means = (part.reshape(passing, -1).mean(axis=0) for part in (forward_ns, backward_ns))
    return _Pass(rank, *each, *means)


def _computing_ns(view: RankProfile, rows: NDArray[np.int64]) -> Numbers:
    """Computation of each operator: its kernels, or without a device its own duration."""
    if not view.rank.has_device:
        return np.asarray(view.end[rows] - view.start[rows], dtype=np.float64)
    links = view.launches[~np.isin(view.launches["device_row"], view.communication_kernels)]
    order = np.sort(rows)
    around = enclosing(view.events, links["launch_row"].to_numpy(), order)
    busy = np.zeros(len(view.start))
    np.add.at(busy, around[around >= 0], (links["end_ns"] - links["start_ns"]).to_numpy()[around >= 0])
    return np.asarray(busy[rows], dtype=np.float64)


def _repeated(codes: NDArray[np.int64], cuts: NDArray[np.int64]) -> tuple[int, int, int]:
    """First operator, operators and number of the layers that repeat, so that stages begin with a layer.

    Of all distances at which the model equals itself the one whose repetitions hold most operators, the shorter of
    equals.
    """
    best = (0, 0, 0)
    for period in range(1, len(codes) // FEWEST_LAYERS + 1):
        equal = np.concatenate([[False], codes[period:] == codes[:-period], [False]])
        begins, ends = (np.flatnonzero(equal[1:] & ~equal[:-1]), np.flatnonzero(~equal[1:] & equal[:-1]))
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            if end - begin < (FEWEST_LAYERS - 1) * period or end - begin + period <= best[1] * best[2]:
                continue
            inside = cuts[(cuts > begin) & (cuts < end + period)]
            first = begin if not len(inside) else begin + int(inside[0] - begin) % period
            count = (end + period - first) // period
            fits = not ((inside - first) % period).any()
            if fits and count >= FEWEST_LAYERS and count * period > best[1] * best[2]:
                best = (first, period, count)
    if best[1] * best[2] < LEAST_SHARE * len(codes):
        raise InputError(
            "the stages hold no layers that repeat and that the stages are cut between; give the layers as JSON"
        )
    return best


@metric("ms", "compute of the heaviest planned stage per step", "How long would the heaviest stage compute as planned?")
def planned_stage_ms(profile: Profile) -> Measurement:
    """Compute per step of the heaviest stage in the best cut of whole layers into stages (planner pipeline-memory)."""
    try:
        found = planned_stages(profile)
    except InputError as error:
        raise UsageError(str(error)) from None
    return of_ranks(profile, found.heaviest_ms, point_to_point(profile), SELECTOR)
