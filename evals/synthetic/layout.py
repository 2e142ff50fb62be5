"""How the ranks of a synthetic run are spread over data, tensor, pipeline and expert parallelism."""

from __future__ import annotations

from dataclasses import dataclass

from evals.synthetic.spec import SyntheticSpec

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
        """Whether there is nothing but data parallelism over all ranks."""
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
