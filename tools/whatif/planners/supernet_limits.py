"""What limits a pipeline that trains a supernet as in sequence: device memory, and a time that no order beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tools.whatif.planners.record import Bytes, Given, NoPlanError

NO_LIMIT = 1 << 62  # places on a device whose activations take no memory


class Memory(Given):
    """Per layer: bytes of one choice on the device, and of the activations that a subnet keeps between its passes."""

    device_memory_bytes: Bytes
    layer_bytes: Bytes
    activation_bytes: Bytes


@dataclass(frozen=True)
class Room:
    """What a stage holds: subnets between their passes (``places``), and whether the next subnet's layers as well."""

    places: int
    prefetches: bool


def room(memory: Memory, stage: int, layers: int) -> Room:
    """The room on one stage; the next subnet's layers are fetched ahead where one subnet fits next to them.

    Raises NoPlanError where not even one subnet fits.
    """
    limit, once, each = memory.device_memory_bytes, layers * memory.layer_bytes, layers * memory.activation_bytes
    if once + each > limit:
        raise NoPlanError(
            f"no plan fits into device_memory_bytes = {limit:.15g}: stage {stage} needs {once + each:.15g} bytes for "
            f"{layers} layers of one subnet, {once + each - limit:.15g} more; use more stages"
        )
    prefetches = 2 * once + each <= limit
    left = limit - (2 * once if prefetches else once)
    return Room(int(left // each) if each else NO_LIMIT, prefetches)


def held_bytes(memory: Memory, given: Room, layers: int, in_flight: int) -> float:
    """Memory of a stage with so many subnets between their passes."""
    return layers * ((1 + given.prefetches) * memory.layer_bytes + in_flight * memory.activation_bytes)


def least_makespan_ms(
    subnets: Sequence[Sequence[int]], cuts: Sequence[int], forward_ms: Sequence[float], backward_ms: Sequence[float]
) -> float:
    """A time that no order beats which equals the sequential run.

    It is the longest chain of passes that have to follow each other, or the work of a stage, behind the passes that
    bring the first subnet there and before those that end the last.
    """
    stages = list(pairwise(cuts))
    before = list(accumulate(forward_ms, initial=0.0))
    after = list(accumulate(backward_ms, initial=0.0))
    work_ms = max(
        before[place] + len(subnets) * (forward_ms[place] + backward_ms[place]) + after[place]
        for place in range(len(stages))
    )
    done_ms: dict[tuple[int, int], float] = {}  # of each layer choice: the backward pass of its last user
    longest_ms = 0.0
    for subnet in subnets:
        at_ms = 0.0
        for place, (first, behind) in enumerate(stages):
            free_ms = max((done_ms.get((layer, subnet[layer]), 0.0) for layer in range(first, behind)), default=0.0)
            at_ms = max(at_ms, free_ms) + forward_ms[place]
        for place, (first, behind) in reversed(list(enumerate(stages))):
            at_ms += backward_ms[place]
            done_ms.update({(layer, subnet[layer]): at_ms for layer in range(first, behind)})
        longest_ms = max(longest_ms, at_ms)
    return max(work_ms, longest_ms)
