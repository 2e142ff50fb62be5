"""A synthetic run as written in a case file, and how its ranks are spread over the kinds of parallelism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Template = Literal["transformer", "convolution", "mixture", "pipeline"]
DeviceName = Literal["V100", "A100", "H100"]
Omission = Literal["device", "collective_arguments", "step_marks", "shapes", "host", "tail"]

MOST_RANKS = 1024
MOST_TRACED = 64
USUAL_TOKENS = 8192  # of a batch on one rank


class Record(BaseModel):
    """A record of the evaluation: unknown fields are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FaultSpec(Record):
    """One injected fault. ``strength`` is about the share of the healthy step that it adds; None means everywhere."""

    kind: str
    strength: Annotated[float, Field(gt=0, le=4)] = 0.3
    ranks: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None
    fixed: bool = False  # only what fixing leaves of it


class RecordsSpec(Record):
    """Monitor records next to the traces: the steps of all ranks, traced or not."""

    steps: Annotated[int, Field(ge=20, le=5000)] = 60
    ranks_per_host: Annotated[int, Field(ge=1, le=64)] = 8


class SyntheticSpec(Record):
    """One synthetic run: equal specs give equal traces, byte for byte."""

    template: Template = "transformer"
    device: DeviceName = "A100"
    ranks: Annotated[int, Field(ge=1, le=MOST_RANKS)] = 4
    steps: Annotated[int, Field(ge=1, le=200)] = 5
    layers: Annotated[int, Field(ge=1, le=64)] = 3
    tensor: Annotated[int, Field(ge=1, le=64)] = 1  # ranks that share each layer
    pipeline: Annotated[int, Field(ge=0, le=64)] = 0  # stages; 0: one for each rank in the template pipeline, else 1
    expert: Annotated[int, Field(ge=0, le=MOST_RANKS)] = 0  # ranks that exchange tokens; 0: all with the same weights
    tokens: Annotated[int, Field(ge=64, le=65536)] = USUAL_TOKENS  # fewer: shorter kernels, as the host stays the same
    seed: int = 0
    noise: Annotated[float, Field(ge=0, le=0.5)] = 0.02  # relative spread of a kernel's time
    drift: Annotated[float, Field(ge=-0.1, le=0.1)] = 0.0  # relative growth of kernel times per step
    clock_skew_us: Annotated[float, Field(ge=0)] = 0.0
    reads_loss: bool = True  # the loop reads the loss at the end of every step
    stacks: bool = False
    faults: tuple[FaultSpec, ...] = ()
    traced_ranks: tuple[int, ...] | None = None  # None: all
    records: RecordsSpec | None = None
    omit: tuple[Omission, ...] = ()
    hostile_names: tuple[str, ...] = ()  # put into names of operators, kernels and spans
    metadata: dict[str, str] = Field(default_factory=dict)  # next to the events, as a user may add

    @model_validator(mode="after")
    def _ranks_exist(self) -> SyntheticSpec:
        named = {rank for fault in self.faults for rank in fault.ranks or ()} | set(self.traced_ranks or ())
        if any(not 0 <= rank < self.ranks for rank in named):
            raise ValueError(f"ranks {sorted(named)} are not all among the {self.ranks} ranks of the run")
        if self.ranks > MOST_TRACED and self.traced_ranks is None:
            raise ValueError(f"of more than {MOST_TRACED} ranks only some are traced; name them in traced_ranks")
        return self

    @model_validator(mode="after")
    def _divides(self) -> SyntheticSpec:
        block = self.tensor * max(self.pipeline, 1)
        if self.ranks % block or (self.expert and self.ranks // block % self.expert):
            raise ValueError(f"{self.ranks} ranks cannot be spread over tensor x pipeline x expert groups of that size")
        return self

    @model_validator(mode="after")
    def _tokens_are_used(self) -> SyntheticSpec:
        if self.tokens != USUAL_TOKENS and self.template != "transformer":
            raise ValueError("the size of the batch can be chosen for the template transformer only")
        return self

    def without_faults(self) -> SyntheticSpec:
        """The same run with every fault fixed."""
        return self.model_copy(
            update={"faults": tuple(each.model_copy(update={"fixed": True}) for each in self.faults)}
        )


SIMULATED_WHOLE = 32  # up to so many ranks all are simulated
SPREAD_HITS = 8  # of the ranks that are hit alike, so many are


@dataclass(frozen=True)
class ParallelLayout:
    """Rank = (stage x data + replica) x tensor + shard: neighbours in number share tensors, as frameworks do it."""

    ranks: int
    tensor: int
    pipeline: int
    expert: int

    @property
    def data(self) -> int:
        """Replicas of the model."""
        return self.ranks // (self.tensor * self.pipeline)

    @property
    def plain(self) -> bool:
        """Return whether there is nothing but data parallelism over all ranks."""
        return self.tensor == 1 and self.pipeline == 1 and self.expert == self.data

    def stage(self, rank: int) -> int:
        """The pipeline stage of a rank."""
        return rank // (self.data * self.tensor)

    def at_stage(self, rank: int, stage: int) -> int:
        """The rank of the same replica and shard in another stage."""
        return rank % (self.data * self.tensor) + stage * self.data * self.tensor

    def tensor_group(self, rank: int) -> tuple[int, ...]:
        """The ranks that share each layer's matrices."""
        first = rank - rank % self.tensor
        return tuple(range(first, first + self.tensor))

    def data_group(self, rank: int) -> tuple[int, ...]:
        """The ranks that hold the same weights and reduce their gradients together."""
        first = self.at_stage(rank % self.tensor, self.stage(rank))
        return tuple(range(first, first + self.data * self.tensor, self.tensor))

    def expert_group(self, rank: int) -> tuple[int, ...]:
        """The ranks that exchange tokens."""
        group = self.data_group(rank)
        place = group.index(rank) // self.expert * self.expert
        return group[place : place + self.expert]

    def replica(self, rank: int) -> tuple[int, ...]:
        """All ranks that hold one copy of the model together, with this one among them."""
        first = rank % (self.data * self.tensor) // self.tensor * self.tensor
        stride = self.data * self.tensor
        return tuple(s * stride + first + shard for s in range(self.pipeline) for shard in range(self.tensor))


def layout_of(spec: SyntheticSpec) -> ParallelLayout:
    """The layout of a run; a pipeline without a layout has one stage on every rank."""
    stages = spec.pipeline or (spec.ranks if spec.template == "pipeline" else 1)
    return ParallelLayout(spec.ranks, spec.tensor, stages, spec.expert or spec.ranks // (spec.tensor * stages))


def simulated_ranks(spec: SyntheticSpec) -> tuple[int, ...]:
    """The ranks whose steps are played: all of a small run; of a large one the model copies that matter.

    Those are the copies of the traced ranks and of some of the ranks that faults hit. The others are taken to come to
    their collectives in time, which is true as long as they are healthy: what all wait for is the late ones.
    """
    if spec.ranks <= SIMULATED_WHOLE or spec.traced_ranks is None:
        return tuple(range(spec.ranks))
    layout = layout_of(spec)
    hit = sorted({rank for fault in spec.faults for rank in (fault.ranks or ())[:SPREAD_HITS]})
    return tuple(sorted({member for rank in (*spec.traced_ranks, *hit) for member in layout.replica(rank)}))
