"""Data, tensor, pipeline and expert parallel sizes, micro-batches and shards that train a transformer fastest.

Closed forms: operations and activation memory of a layer as in Korthikanti et al. (Reducing Activation Recomputation,
2022) without the scores of attention, the 1F1B bubble ``(p - 1) / (m + p - 1)``, ring collectives, and Hermes'
multi-shard parallelism, in which a micro-batch is split so that one shard computes while another communicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, model_validator

from tools.whatif.planners.gradient_buckets import Link
from tools.whatif.planners.record import (
    FASTEST_OPERATIONS_PER_MS,
    MOST_MS,
    Bytes,
    Given,
    Milliseconds,
    NoPlanError,
    Plan,
    Planned,
)

MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)  # sequences per micro-batch that are tried
LISTED = 10  # layouts of the answer
ADAM_BYTES = 16.0  # per parameter in mixed precision: weight and gradient 2 each, master weight and two moments 4 each
BLOCKS = 2  # of a layer, each ended by an all-reduce over the tensor-parallel group: attention and feed-forward
BACKWARD = 2.0  # matrix products of the backward pass for each of the forward pass

Count = Annotated[int, Field(ge=1, le=1 << 20)]


class Model(Given):
    """A transformer; with several experts each feed-forward block is one expert of them."""

    layers: Annotated[int, Field(ge=1, le=4096)]
    hidden_width: Count
    feed_forward_width: Count | None = None
    heads: Count
    sequence_length: Count
    vocabulary: Count
    experts: Annotated[int, Field(ge=1, le=4096)] = 1
    experts_per_token: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _enough_experts(self) -> Model:
        if self.experts_per_token > self.experts:
            raise ValueError(
                f"experts_per_token: a token cannot use {self.experts_per_token} of {self.experts} experts"
            )
        return self


class Cluster(Given):
    """Devices, their memory and speed (as reached, not peak), and the links inside and between nodes.

    A kernel with fewer tokens than ``saturating_tokens`` takes as long as one with these; ``kernel_ms`` is the fixed
    cost of one block of a layer.
    """

    devices: Annotated[int, Field(ge=1, le=65_536)]
    devices_per_node: Annotated[int, Field(ge=1)]
    device_memory_bytes: Bytes
    operations_per_ms: Annotated[float, Field(ge=1, le=FASTEST_OPERATIONS_PER_MS)]
    inside_node: Link
    between_nodes: Link
    saturating_tokens: Annotated[int, Field(ge=0, le=1 << 40)] = 0
    kernel_ms: Milliseconds = 0.0


class Layout(Given):
    """Sizes of the parallel groups, sequences per micro-batch, its shards, and whether activations are recomputed."""

    data_parallel: Count
    tensor_parallel: Count
    pipeline_parallel: Count
    expert_parallel: Count = 1
    micro_batch: Count = 1
    shards: Count = 1
    recompute: bool = False


class Input(Given):
    """Model, cluster, sequences per step, and the present layout with its measured step where there is one."""

    model: Model
    cluster: Cluster
    global_batch: Count
    current: Layout | None = None
    measured_step_ms: Annotated[float | None, Field(gt=0, le=MOST_MS)] = None
    most_shards: Annotated[int, Field(ge=1, le=64)] = 8
    bytes_per_element: Annotated[int, Field(ge=1, le=8)] = 2
    state_bytes_per_parameter: Annotated[float, Field(ge=0, le=64)] = ADAM_BYTES

    @model_validator(mode="after")
    def _agrees(self) -> Input:
        if self.measured_step_ms is not None and self.current is None:
            raise ValueError("measured_step_ms: give the layout it was measured with as current")
        if self.current is not None and (reason := _Costs(self).refusal(self.current)):
            raise ValueError(f"current: {reason}")
        return self


class RankedLayout(Plan):
    """A layout with its predicted step, idle share of the pipeline, exposed communication and largest memory."""

    data_parallel: int
    tensor_parallel: int
    pipeline_parallel: int
    expert_parallel: int
    micro_batch: int
    micro_batches: int
    shards: int
    recompute: bool
    step_ms: float
    bubble: float
    communication_ms: float
    memory_bytes: float


class LayoutPlan(Plan):
    """The layouts that fit, fastest first, how many fit, and the present one."""

    layouts: list[RankedLayout]
    fitting: int
    current: RankedLayout | None


def plan(given: Input) -> Planned:
    """Return the fastest layouts that fit into memory.

    Every layout is looked at: divisors of the devices for tensor and pipeline, 7 micro-batch sizes, powers of two as
    shards, with and without recomputation; some thousands, about a million at worst (20 s).
    """
    costs = _Costs(given)
    every = [costs.ranked(each) for each in costs.candidates()]
    limit = given.cluster.device_memory_bytes
    fitting = sorted(
        (each for each in every if each.memory_bytes <= limit), key=lambda each: (each.step_ms, each.memory_bytes)
    )
    if not every:
        raise NoPlanError(
            f"no layout: {given.cluster.devices} devices cannot share {given.model.layers} layers, {given.model.heads} "
            f"heads and a global batch of {given.global_batch} evenly"
        )
    if not fitting:
        least = min(each.memory_bytes for each in every)
        raise NoPlanError(
            f"no layout fits into cluster.device_memory_bytes = {limit:.15g}: the smallest needs {least:.15g} bytes, "
            f"{least - limit:.15g} more; use more devices"
        )
    current = None if given.current is None else costs.ranked(given.current)
    scale = 1.0
    assumptions = [
        "Gradients are reduced after the last micro-batch; experts are used evenly; kernels overlap without loss.",
        "Attention keeps no scores (flash attention).",
    ]
    if current is not None and given.measured_step_ms is not None and current.step_ms:
        scale = given.measured_step_ms / current.step_ms
        assumptions.append(f"Times are scaled by {scale:.4g}, the measured over the predicted present step.")
    if current is not None and current.memory_bytes > limit:
        assumptions.append("The present layout should not fit into memory by this model: check its sizes.")
    listed = [_scaled(each, scale) for each in fitting[:LISTED]]
    return Planned(
        planner="layout",
        plan=LayoutPlan(
            layouts=listed, fitting=len(fitting), current=None if current is None else _scaled(current, scale)
        ),
        before_ms=None if current is None else scale * current.step_ms,
        after_ms=listed[0].step_ms,
        gap_ms=0.0,
        bound=_limit(listed[0]),
        assumptions=assumptions,
    )


@dataclass(frozen=True)
class _Block:
    """One of the two blocks of a layer: operations per token, and the time of the exchange that ends a shard."""

    operations: float
    exchange_ms: float


class _Costs:
    """Time and memory of layouts of one input."""

    def __init__(self, given: Input) -> None:
        self.given, self.model, self.cluster = given, given.model, given.cluster
        self.width = self.model.hidden_width
        self.inner = self.model.feed_forward_width or 4 * self.width

    def candidates(self) -> Iterator[Layout]:
        """All layouts that divide devices, layers, heads, experts and batch evenly."""
        devices = self.cluster.devices
        shards = [1 << power for power in range(self.given.most_shards.bit_length())]
        for tensor in _divisors(devices):
            for pipeline in _divisors(devices // tensor):
                data = devices // tensor // pipeline
                for expert in _divisors(data) if self.model.experts > 1 else [1]:
                    for micro_batch in MICRO_BATCHES:
                        for parts in shards if tensor > 1 or expert > 1 else [1]:
                            for recompute in (False, True):
                                layout = Layout(
                                    data_parallel=data,
                                    tensor_parallel=tensor,
                                    pipeline_parallel=pipeline,
                                    expert_parallel=expert,
                                    micro_batch=micro_batch,
                                    shards=parts,
                                    recompute=recompute,
                                )
                                if not self.refusal(layout):
                                    yield layout

    def refusal(self, layout: Layout) -> str:
        """Return the rule that a layout breaks, or nothing."""
        model = self.model
        needed = layout.data_parallel * layout.tensor_parallel * layout.pipeline_parallel
        rules = (
            (needed != self.cluster.devices, f"it needs {needed} devices, there are {self.cluster.devices}"),
            (model.layers % layout.pipeline_parallel, f"{model.layers} layers on {layout.pipeline_parallel} stages"),
            (model.heads % layout.tensor_parallel, f"{model.heads} heads on {layout.tensor_parallel} devices"),
            (layout.data_parallel % layout.expert_parallel, "expert_parallel does not divide data_parallel"),
            (model.experts % layout.expert_parallel, f"{model.experts} experts on {layout.expert_parallel} devices"),
            (
                self.given.global_batch % (layout.data_parallel * layout.micro_batch),
                f"a global batch of {self.given.global_batch} in micro-batches of {layout.micro_batch} on "
                f"{layout.data_parallel} devices",
            ),
            (layout.shards > layout.micro_batch * model.sequence_length, "more shards than tokens"),
        )
        return next((text for fault, text in rules if fault), "")

    def ranked(self, layout: Layout) -> RankedLayout:
        """Predict one layout by its slowest stage, the last one, which also computes the logits."""
        model, given = self.model, self.given
        micro_batches = given.global_batch // (layout.data_parallel * layout.micro_batch)
        stages, layers = layout.pipeline_parallel, model.layers // layout.pipeline_parallel
        forward_ms, exposed_ms = self._layer_ms(layout)
        passes = 1 + BACKWARD + layout.recompute
        tokens = layout.micro_batch * model.sequence_length
        logits = 2.0 * tokens * self.width * model.vocabulary / layout.tensor_parallel
        logits_ms = 3 * logits / self.cluster.operations_per_ms
        send_ms = self._send_ms(layout) if stages > 1 else 0.0
        compute_ms = layers * (passes * forward_ms) + logits_ms
        layer_exposed_ms = layers * (2 + layout.recompute) * exposed_ms
        stage_ms = compute_ms + layer_exposed_ms + 2 * send_ms
        reduce_ms = self._gradients_ms(layout)
        return RankedLayout(
            **layout.model_dump(),
            micro_batches=micro_batches,
            step_ms=(micro_batches + stages - 1) * stage_ms + reduce_ms,
            bubble=(stages - 1) / (micro_batches + stages - 1),
            communication_ms=micro_batches * (layer_exposed_ms + 2 * send_ms) + reduce_ms,
            memory_bytes=self._memory_bytes(layout, layers, min(stages, micro_batches)),
        )

    def _layer_ms(self, layout: Layout) -> tuple[float, float]:
        """Compute of one layer's forward pass, and its exposed communication.

        A block of n shards is a pipeline of two steps: ``t_c + (n - 1) max(t_c, t_d) + t_d``.
        """
        parts = layout.shards
        tokens = layout.micro_batch * self.model.sequence_length / parts
        kernel_tokens = max(tokens, self.cluster.saturating_tokens)
        compute_ms = exposed_ms = 0.0
        for block in self._blocks(layout, tokens):
            computing_ms = kernel_tokens * block.operations / self.cluster.operations_per_ms + self.cluster.kernel_ms
            compute_ms += parts * computing_ms
            exposed_ms += block.exchange_ms + (parts - 1) * max(0.0, block.exchange_ms - computing_ms)
        return compute_ms, exposed_ms

    def _blocks(self, layout: Layout, tokens: float) -> list[_Block]:
        model, tensor = self.model, layout.tensor_parallel
        attention = 8.0 * self.width**2 + 4.0 * model.sequence_length * self.width
        feed_forward = 4.0 * self.width * self.inner * model.experts_per_token
        size = tokens * self.width * self.given.bytes_per_element
        reduce_ms = self._all_reduce_ms(size, tensor, tensor)
        expert = layout.expert_parallel
        exchanges_ms = 0.0
        if expert > 1:
            link = self._link(tensor * expert)
            carried = size * model.experts_per_token / tensor * (expert - 1) / expert
            exchanges_ms = 2 * (link.alpha_ms + link.beta_ms_per_byte * carried)
        return [_Block(attention / tensor, reduce_ms), _Block(feed_forward / tensor, reduce_ms + exchanges_ms)]

    def _link(self, span: int) -> Link:
        """The slowest link inside a group that spans so many neighbouring devices."""
        inside = span <= self.cluster.devices_per_node
        return self.cluster.inside_node if inside else self.cluster.between_nodes

    def _all_reduce_ms(self, size: float, members: int, span: int) -> float:
        """Ring all-reduce: 2 (n - 1) messages of an n-th."""
        if members == 1:
            return 0.0
        link = self._link(span)
        return 2 * (members - 1) * (link.alpha_ms + link.beta_ms_per_byte * size / members)

    def _send_ms(self, layout: Layout) -> float:
        link = self._link(layout.tensor_parallel * layout.data_parallel * 2)
        size = layout.micro_batch * self.model.sequence_length * self.width * self.given.bytes_per_element
        return link.alpha_ms + link.beta_ms_per_byte * size / layout.tensor_parallel

    def _parameters(self, layout: Layout) -> tuple[float, float]:
        """Largest share of a device: parameters that all data-parallel ranks hold, and those of its experts."""
        layers = self.model.layers / layout.pipeline_parallel
        blocks = 4.0 * self.width**2
        experts = 2.0 * self.width * self.inner * self.model.experts
        embedding = float(self.width * self.model.vocabulary)
        if self.model.experts == 1:
            blocks, experts = blocks + experts, 0.0
        shared = (layers * blocks + embedding) / layout.tensor_parallel
        return shared, layers * experts / layout.tensor_parallel / layout.expert_parallel

    def _gradients_ms(self, layout: Layout) -> float:
        shared, experts = self._parameters(layout)
        span = layout.tensor_parallel * layout.data_parallel
        per_parameter = self.given.bytes_per_element
        copies = layout.data_parallel // layout.expert_parallel
        return self._all_reduce_ms(shared * per_parameter, layout.data_parallel, span) + self._all_reduce_ms(
            experts * per_parameter, copies, span
        )

    def _memory_bytes(self, layout: Layout, layers: int, in_flight: int) -> float:
        """State of the parameters, and activations of the first stage, which holds most micro-batches, or of the last.

        Per layer s b h (10 + 8 / t + 16 k f / (4 h) / t) bytes for 2 bytes per element, k experts of f columns a token;
        the last stage keeps its output and the logits in float32, 4 s b h (1 + v / h) / t, of one micro-batch.
        """
        tokens = layout.micro_batch * self.model.sequence_length
        element, tensor = self.given.bytes_per_element, layout.tensor_parallel
        widening = self.model.experts_per_token * self.inner / (4 * self.width)
        kept = tokens * self.width * (5 + 4 / tensor + 8 * widening / tensor) * element
        inputs = tokens * self.width * element
        logits = 4 * tokens * (self.width + self.model.vocabulary) / tensor

        def activations(micro_batches: int) -> float:
            return micro_batches * layers * (inputs if layout.recompute else kept) + kept * layout.recompute

        held = max(activations(in_flight), activations(1) + logits)
        shared, experts = self._parameters(layout)
        return (shared + experts) * self.given.state_bytes_per_parameter + held


def _scaled(layout: RankedLayout, scale: float) -> RankedLayout:
    times = {"step_ms": scale * layout.step_ms, "communication_ms": scale * layout.communication_ms}
    return layout.model_copy(update=times)


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def _limit(best: RankedLayout) -> str:
    bubble_ms = best.bubble * best.step_ms
    if bubble_ms > max(best.communication_ms, best.step_ms / 4):
        return f"the pipeline's bubble, {bubble_ms:.4g} ms"
    if best.communication_ms > best.step_ms / 4:
        return f"exposed communication, {best.communication_ms:.4g} ms"
    return "the devices' compute"
