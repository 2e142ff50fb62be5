"""Random small inputs: every planner that searches against every plan."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

from evals.planners.exhaustive import (
    best_buckets_ms,
    best_pipeline_ms,
    by_time,
    degree_events_ms,
    in_sequence,
    schedule_exists,
    trained,
)
from evals.planners.row import Row, judged
from tools.whatif.planners import expert_degree, expert_schedule, gradient_buckets, pipeline_memory, supernet_schedule
from tools.whatif.planners.record import NoPlanError
from tools.whatif.planners.stage_memory import INFINITE

GEMM_SECONDS = (1.5e-4, 3.73e-14)  # PipeMoE's constants: RTX 2080 Ti, per matrix product
LINKS_SECONDS = {16: (5.70e-4, 2.96e-10), 32: (2.09e-4, 3.55e-10), 64: (7.83e-4, 3.84e-10)}  # all-to-all, by GPUs
BATCHES, LENGTHS, WIDTHS = (1, 2, 4, 8), (512, 1024, 2048), (1024, 2048, 4096, 8192)
MOST_DEGREE = 128


def buckets(count: int) -> Row:
    """Buckets of at most 8 tensors."""
    source, worst = random.Random(1), 0.0
    for _ in range(count):
        ready = sorted(source.uniform(0, 20) for _ in range(source.randint(1, 8)))
        given = gradient_buckets.Input.model_validate(
            {
                "gradients": [{"ready_ms": each, "bytes": source.randrange(1, 1 << 24)} for each in ready],
                "link": {"alpha_ms": source.uniform(0, 3), "beta_ms_per_byte": source.choice([1e-8, 1e-7, 1e-6])},
            }
        )
        worst = max(worst, gradient_buckets.plan(given).after_ms / best_buckets_ms(given) - 1)
    found = f"{100 * worst:.4f} % over the best, {count} inputs"
    return judged("gradient-buckets", "up to 8 tensors", "within 2 %", found, worst <= 0.02, "exhaustive search")


def pipelines(count: int, most_layers: int) -> Row:
    """Partitions and actions of up to ten layers on three stages."""
    source, worst, over, refused, planned = random.Random(2), 0.0, 0, 0, 0
    while planned < count:
        layers = [
            {
                "forward_ms": source.uniform(0.5, 5),
                "backward_ms": source.uniform(1, 9),
                "activation_bytes": source.randint(5, 100),
                "weight_bytes": source.randint(0, 50),
                "optimizer_bytes": source.randint(0, 80),
            }
            for _ in range(source.randint(3, most_layers))
        ]
        given = pipeline_memory.Input.model_validate(
            {
                "layers": layers,
                "stages": source.randint(2, 3),
                "device_memory_bytes": source.randint(250, 700),
                "host_link_bytes_per_ms": source.uniform(1, 60),
            }
        )
        best_ms = best_pipeline_ms(given)
        try:
            made = pipeline_memory.plan(given)
        except NoPlanError:
            refused += 1
            worst = max(worst, 0.0 if best_ms == INFINITE else INFINITE)
            continue
        planned += 1
        worst = max(worst, made.after_ms / best_ms - 1)
        assert isinstance(made.plan, pipeline_memory.PipelinePlan)
        over += max(made.plan.stage_memory_bytes) > given.device_memory_bytes
    found = f"{100 * worst:.4f} % over the best, {over} over memory; {count} inputs, {refused} more have no plan"
    wanted = "within 1 %, never over memory"
    question = f"up to {most_layers} layers on 3 stages"
    return judged("pipeline-memory", question, wanted, found, worst <= 0.01 and not over, "exhaustive search")


def subnets(count: int) -> Row:
    """A thousand subnets: no violation, and parameters as in sequence."""
    chosen, cuts = supernet_schedule.draw(count, 48, 24, 7), supernet_schedule.stage_cuts(48, 4)
    tasks = supernet_schedule.schedule(
        chosen, cuts, supernet_schedule.Times([1.0, 2.0, 1.0, 1.5], [2.0, 2.0, 3.0, 1.0])
    ).tasks
    broken = supernet_schedule.violations(tasks, chosen, cuts)
    equal = trained(chosen, cuts, by_time(tasks)) == trained(chosen, cuts, list(in_sequence(count, 4)))
    found = f"{broken} violations over {count} subnets; parameters {'equal' if equal else 'differ'} bit for bit"
    wanted = "0 violations, equal to the sequential run"
    return judged("supernet", "dependencies", wanted, found, equal and not broken, "exhaustive search")


def schedules(count: int) -> Row:
    """Two and three chunks."""
    source, better = random.Random(3), 0
    for number in range(count):
        chunks = 2 + number % 2
        times = [source.choice([0.0, source.uniform(0.1, 4)]) for _ in range(7)]
        made = expert_schedule.best_schedule(chunks, times)
        better += made.makespan_ms > 0 and schedule_exists(chunks, times, made.makespan_ms * (1 - 1e-9))
    found = f"a better order exists in {better} of {count} inputs"
    return judged("expert-schedule", "2 and 3 chunks", "the optimum", found, better == 0, "exhaustive search")


def degree_inputs() -> Iterator[tuple[tuple[int, int, int, int, int], expert_degree.Input]]:
    """PipeMoE's constants on 576 configurations: (batch, length, width, hidden width, GPUs), and the input."""
    for gpus, batch, length, width, hidden in product(LINKS_SECONDS, BATCHES, LENGTHS, WIDTHS, WIDTHS):
        tokens = 2 * batch * length  # two experts per token
        alpha, beta = LINKS_SECONDS[gpus]
        link = {"alpha_ms": 1000 * alpha, "beta_ms_per_byte": 1000 * beta, "bytes": 4 * tokens * width}
        experts = {
            "alpha_ms": 2000 * GEMM_SECONDS[0],
            "beta_ms_per_operation": 2000 * GEMM_SECONDS[1],
            "operations": 4 * tokens * width * hidden,
        }
        given = {"all_to_all": link, "experts": experts, "max_degree": MOST_DEGREE}
        yield (batch, length, width, hidden, gpus), expert_degree.Input.model_validate(given)


def best_degree_ms(given: expert_degree.Input) -> dict[int, float]:
    """Time of every degree, by events."""
    sent, computed = given.all_to_all.line(), given.experts.line()
    return {
        r: degree_events_ms(sent.time_ms(given.all_to_all.bytes / r), computed.time_ms(given.experts.operations / r), r)
        for r in range(1, given.max_degree + 1)
    }


def degrees() -> Row:
    """Regret on 576 configurations."""
    worst = 0.0
    for _, given in degree_inputs():
        times = best_degree_ms(given)
        made = expert_degree.plan(given).plan
        assert isinstance(made, expert_degree.DegreePlan)
        worst = max(worst, times[made.degree] / min(times.values()) - 1)
    found = f"largest regret {100 * worst:.1e} % (events against formula)"
    return judged("expert-degree", "576 configurations", "zero regret", found, worst < 1e-9, "exhaustive search")
