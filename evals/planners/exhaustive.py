"""Every plan of a small input, from the definitions alone: the planners are compared with the best of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product

from tools.whatif.planners import gradient_buckets, pipeline_memory, supernet_schedule
from tools.whatif.planners.stage_memory import INFINITE


def bucket_end_ms(given: gradient_buckets.Input, buckets: Sequence[Sequence[int]]) -> float:
    """End of the last transfer, and the update, with these buckets."""
    end_ms = 0.0
    for members in buckets:
        size = sum(given.gradients[each].bytes for each in members)
        start_ms = max(end_ms, given.gradients[members[-1]].ready_ms)
        end_ms = start_ms + given.link.alpha_ms + given.link.beta_ms_per_byte * size
    return end_ms + given.update_ms


def best_buckets_ms(given: gradient_buckets.Input) -> float:
    """Earliest end of all 2^(n-1) ways to cut the gradients."""
    count = len(given.gradients)
    ways = (cuts for size in range(count) for cuts in combinations(range(1, count), size))
    return min(
        bucket_end_ms(given, [list(range(low, high)) for low, high in pairwise((0, *cuts, count))]) for cuts in ways
    )


def stage_ms(given: pipeline_memory.Input, stage: int, first: int, behind: int, actions: Sequence[str]) -> float:
    """Time of one stage, infinite where it does not fit."""
    chosen = list(zip(given.layers[first:behind], actions, strict=True))
    compute_ms = sum(layer.forward_ms + layer.backward_ms for layer, _ in chosen)
    compute_ms += sum(layer.forward_ms for layer, action in chosen if action == "recompute")
    swapped = sum(layer.activation_bytes for layer, action in chosen if action == "swap")
    kept = sum(layer.activation_bytes for layer, action in chosen if action == "keep")
    memory = sum(layer.weight_bytes + layer.optimizer_bytes for layer, _ in chosen) + (given.stages - stage) * kept
    memory += max((layer.activation_bytes for layer, action in chosen if action != "keep"), default=0.0)
    if memory > given.device_memory_bytes:
        return INFINITE
    return max(compute_ms, 2 * swapped / given.host_link_bytes_per_ms)


def best_pipeline_ms(given: pipeline_memory.Input) -> float:
    """Least time of the slowest stage over all partitions and actions; infinite where nothing fits."""
    count = len(given.layers)
    best: dict[tuple[int, int, int], float] = {}

    def best_stage_ms(stage: int, first: int, behind: int) -> float:
        key = (stage, first, behind)
        if key not in best:
            every = product(("keep", "swap", "recompute"), repeat=behind - first)
            best[key] = min(stage_ms(given, stage, first, behind, actions) for actions in every)
        return best[key]

    return min(
        max(best_stage_ms(stage, *span) for stage, span in enumerate(pairwise((0, *cuts, count))))
        for cuts in combinations(range(1, count), given.stages - 1)
    )


def schedule_exists(chunks: int, times_ms: Sequence[float], below_ms: float) -> bool:
    """Return whether any order of both streams has a makespan below a limit.

    Looks at every interleaving of the chunks' tasks, of equal chunks those that begin in order; a branch ends where
    the work left on a stream or in a chunk reaches the limit.
    """
    communication = (1, 5)
    seen: set[tuple[tuple[int, ...], tuple[float, ...], float, float]] = set()

    def extended(done: tuple[int, ...], ends: tuple[float, ...], compute_ms: float, sent_ms: float) -> bool:
        left = [sum(times_ms[count:]) for count in done]
        sending = [sum(times_ms[place] for place in communication if place >= count) for count in done]
        if any(end + rest >= below_ms for end, rest in zip(ends, left, strict=True)):
            return False
        if max(compute_ms + sum(left) - sum(sending), sent_ms + sum(sending)) >= below_ms:
            return False
        if not any(count < len(times_ms) for count in done):
            return True
        state = (done, ends, compute_ms, sent_ms)
        if state in seen:
            return False
        seen.add(state)
        for chunk, count in enumerate(done):
            if count == len(times_ms) or (count == 0 and chunk and done[chunk - 1] == 0):
                continue
            stream_ms = sent_ms if count in communication else compute_ms
            end_ms = max(stream_ms, ends[chunk]) + times_ms[count]
            after = (*done[:chunk], count + 1, *done[chunk + 1 :])
            end_after = (*ends[:chunk], end_ms, *ends[chunk + 1 :])
            streams = (compute_ms, end_ms) if count in communication else (end_ms, sent_ms)
            if extended(after, end_after, *streams):
                return True
        return False

    return extended((0,) * chunks, (0.0,) * chunks, 0.0, 0.0)


def degree_events_ms(exchange_ms: float, expert_ms: float, chunks: int) -> float:
    """Time of ``chunks`` all-to-alls, experts and all-to-alls again, by events: first all-to-alls first."""
    sent_ms, computed_ms = 0.0, 0.0
    ready: list[float] = []
    for _ in range(chunks):
        sent_ms += exchange_ms
        computed_ms = max(computed_ms, sent_ms) + expert_ms
        ready.append(computed_ms)
    for moment in ready:
        sent_ms = max(sent_ms, moment) + exchange_ms
    return sent_ms


def trained(
    subnets: supernet_schedule.Subnets, cuts: Sequence[int], order: Sequence[tuple[str, int, int]]
) -> dict[tuple[int, int], float]:
    """Parameters after updates that depend on their order, by ``(pass, stage, subnet)`` in order of start and end.

    A forward pass reads the parameters of a subnet's choices, the backward pass writes what follows from them.
    """
    values: dict[tuple[int, int], float] = {}
    read: dict[tuple[int, int], list[float]] = {}
    for kind, stage, subnet in order:
        keys = [(layer, subnets[subnet][layer]) for layer in range(cuts[stage], cuts[stage + 1])]
        if kind == "forward":
            read[stage, subnet] = [values.get(key, 1.0) for key in keys]
        else:
            for key, value in zip(keys, read[stage, subnet], strict=True):
                values[key] = value * 0.75 + (subnet + 1) / 7.0
    return values


def in_sequence(subnets: int, stages: int) -> Iterator[tuple[str, int, int]]:
    """Passes of subnets one after another."""
    for subnet in range(subnets):
        yield from (("forward", stage, subnet) for stage in range(stages))
        yield from (("backward", stage, subnet) for stage in reversed(range(stages)))


def by_time(tasks: Sequence[supernet_schedule.Task]) -> list[tuple[str, int, int]]:
    """Forward passes at their start, backward passes at their end; at one moment what ends comes first."""
    moments = [
        (each.end_ms, 0, "backward", each) if each.backward else (each.start_ms, 1, "forward", each) for each in tasks
    ]
    moments.sort(key=lambda moment: moment[:2])
    return [(kind, each.stage, each.subnet) for _, _, kind, each in moments]
