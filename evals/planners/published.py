"""Published figures, reproduced by simulation or from published data."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np

from evals.planners.row import Row, judged
from tools.whatif.planners import expert_degree, expert_schedule, gradient_buckets, layout, straggler, supernet
from tools.whatif.planners.linear_cost import fit_line

BUBBLES = {  # NASPipe by unit-time simulation, 4 stages: (layers, choices)
    (48, 96): 0.344,
    (48, 72): 0.409,
    (48, 48): 0.525,
    (48, 24): 0.652,
    (32, 48): 0.439,
    (32, 24): 0.583,
    (32, 12): 0.683,
}
SHARDS_MS = {1: 890.92, 2: 860.46, 4: 821.38, 8: 933.97}  # GPT3-13B, 8-way tensor parallel (Hermes paper)
ABLATION_MS = (2401.0, 1264.0, 1110.0, 1019.0)  # ScheMoE: none, ZFP, + Pipe-A2A, + ordering
ZFP_RATIO = 4.0
VGG16_MS, VGG16_EXPOSED_MS = (76.492, 56.640), (21.760, 3.594)  # before and after (Hermes paper)
VGG16 = (  # parameters of the layers, forward order, with their share of the operations (height x width x weights)
    *((64 * 27, 224**2), (64 * 64 * 9, 224**2), (128 * 64 * 9, 112**2), (128 * 128 * 9, 112**2)),
    *((256 * 128 * 9, 56**2), (256 * 256 * 9, 56**2), (256 * 256 * 9, 56**2)),
    *((512 * 256 * 9, 28**2), (512 * 512 * 9, 28**2), (512 * 512 * 9, 28**2)),
    *((512 * 512 * 9, 14**2), (512 * 512 * 9, 14**2), (512 * 512 * 9, 14**2)),
    *((25088 * 4096, 1), (4096 * 4096, 1), (4096 * 1000, 1)),
)
RESNET50_BLOCKS = ((3, 64, 256, 56), (4, 128, 512, 28), (6, 256, 1024, 14), (3, 512, 2048, 7))
FORWARD_SHARE = 1 / 3  # of the computation; the backward pass has two products for each


def bubbles() -> Row:
    """NASPipe's bubble table."""
    worst = 0.0
    for (layers, choices), bubble in BUBBLES.items():
        made = supernet.plan(supernet.Input(stages=4, layers=layers, choices=choices, subnets=1000, seed=0)).plan
        assert isinstance(made, supernet.SupernetPlan)
        worst = max(worst, abs(made.bubble - bubble))
    return judged("supernet", "bubble table", "within 0.02", f"largest error {worst:.4f}", worst <= 0.02, "simulation")


def published_pair() -> Row:
    """dPRO's pair of gradients."""
    gradients = [{"ready_ms": 4.0, "bytes": 1}, {"ready_ms": 9.0, "bytes": 1}]
    link = {"alpha_ms": 2.0, "beta_ms_per_byte": 1.0}
    made = gradient_buckets.plan(gradient_buckets.Input.model_validate({"gradients": gradients, "link": link}))
    assert isinstance(made.plan, gradient_buckets.BucketPlan)
    found = f"buckets {made.plan.buckets}, {made.after_ms:g} ms"
    good = made.plan.buckets == [[0], [1]] and made.after_ms == 12.0
    question = "gradients ready at 4 and 9 ms, 3 ms each, 4 ms fused"
    return judged("gradient-buckets", question, "not fused (12 < 13)", found, good, "simulation")


def resnet50() -> list[tuple[int, int]]:
    """Weights and positions of the convolutions and the classifier of ResNet50, forward order."""
    layers, channels = [(64 * 3 * 49, 112**2)], 64
    for blocks, inner, outer, side in RESNET50_BLOCKS:
        for block in range(blocks):
            layers += [(channels * inner, side**2), (inner * inner * 9, side**2), (inner * outer, side**2)]
            if block == 0:
                layers.append((channels * outer, side**2))
            channels = outer
    return [*layers, (2048 * 1000, 1)]


def fusion(name: str, layers: list[tuple[int, int]], compute_ms: float, exposed_ms: float) -> gradient_buckets.Input:
    """Gradients in order of readiness; the link is such that gradients one by one leave ``exposed_ms`` exposed.

    A third of the exposed time is taken as latency: the paper found packets too small for the link.
    """
    work = np.array([weights * positions for weights, positions in reversed(layers)], dtype=float)
    ready = compute_ms * (FORWARD_SHARE + (1 - FORWARD_SHARE) * np.cumsum(work) / work.sum())
    sizes = [4 * weights for weights, _ in reversed(layers)]
    low, high = 0.0, 1e-6
    for _ in range(60):
        beta = (low + high) / 2
        given = gradient_buckets.Input.model_validate(
            {
                "gradients": [{"ready_ms": float(at), "bytes": size} for at, size in zip(ready, sizes, strict=True)],
                "link": {"alpha_ms": exposed_ms / 3 / len(layers), "beta_ms_per_byte": beta},
            }
        )
        before_ms = gradient_buckets.plan(given).before_ms
        low, high = (beta, high) if (before_ms or 0.0) < compute_ms + exposed_ms else (low, beta)
    return given


def vgg16() -> Row:
    """Adaptive gradient fusion of VGG16 on 8 devices."""
    compute_ms = VGG16_MS[0] - VGG16_EXPOSED_MS[0]
    made = gradient_buckets.plan(fusion("VGG16", list(VGG16), compute_ms, VGG16_EXPOSED_MS[0]))
    found = (
        f"{made.before_ms:.1f} to {made.after_ms:.1f} ms by fusion alone; published {VGG16_MS[0]} to {VGG16_MS[1]} ms "
        "with the repair of a slow link as well"
    )
    good = made.before_ms is not None and made.after_ms < made.before_ms
    return judged("gradient-buckets", "VGG16 table", "same direction", found, good, "simulation")


def resnet50_fusion() -> Row:
    """Gradient fusion of ResNet50, with the same relative exposure as VGG16."""
    compute_ms = 18.07  # published step on one device
    exposed_ms = compute_ms * VGG16_EXPOSED_MS[0] / VGG16_MS[0]
    made = gradient_buckets.plan(fusion("ResNet50", resnet50(), compute_ms, exposed_ms))
    found = f"{made.before_ms:.2f} to {made.after_ms:.2f} ms; no published figure of fusion alone is at hand"
    good = made.before_ms is not None and made.after_ms < made.before_ms
    return judged("gradient-buckets", "ResNet50 table", "same direction", found, good, "simulation")


def shards() -> Row:
    """Multi-shard parallelism of GPT3-13B.

    Two figures are fitted: the link from the step with 2 shards, and the tokens below which a kernel gets no faster,
    between those of 4 and of 8 shards, from the step with 8. The step with 4 shards and the order are predicted.
    """
    tokens = 2048
    exposed_ms = 2 * (SHARDS_MS[1] - SHARDS_MS[2])
    inflated = (SHARDS_MS[8] - exposed_ms / 8) / (SHARDS_MS[1] - exposed_ms)
    exchanges = 40 * 2 * 2  # layers, blocks, forward and backward
    size = tokens * 5120 * 2
    beta = exposed_ms / exchanges / (14 / 8 * size)
    operations = 3 * (40 * (24 * 5120**2 + 4 * tokens * 5120) + 2 * 5120 * 50304) * tokens / 8
    link = {"alpha_ms": 0.0, "beta_ms_per_byte": beta}
    times = {}
    for count in SHARDS_MS:
        layout_of = {"data_parallel": 1, "tensor_parallel": 8, "pipeline_parallel": 1, "shards": count}
        made = layout.plan(
            layout.Input.model_validate(
                {
                    "model": {
                        **{"layers": 40, "hidden_width": 5120, "heads": 40, "sequence_length": tokens},
                        "vocabulary": 50304,
                    },
                    "cluster": {
                        **{"devices": 8, "devices_per_node": 8, "device_memory_bytes": 64e9},
                        "operations_per_ms": operations / (SHARDS_MS[1] - exposed_ms),
                        **{"inside_node": link, "between_nodes": link},
                        "saturating_tokens": round(inflated * tokens / 8),
                    },
                    **{"global_batch": 1, "current": layout_of},
                }
            )
        )
        times[count] = made.before_ms or 0.0
    order, published = sorted(times, key=lambda each: times[each]), sorted(SHARDS_MS, key=lambda each: SHARDS_MS[each])
    found = ", ".join(f"{count}: {times[count]:.0f} ({SHARDS_MS[count]:.0f})" for count in SHARDS_MS)
    wanted = f"order {published}; 4 shards are predicted, the others fitted"
    return judged("layout", "GPT3-13B, ms by shards (published)", wanted, found, order == published, "simulation")


def ablation() -> Row:
    """ScheMoE's ablation: fit three rows, predict the fourth.

    All-to-alls A and compute C follow from ``C + A`` and ``C + A / 4`` (the codec taken as free), what Pipe-A2A leaves
    of A from the third row; the order overlaps them in 2 chunks.
    """
    none, compressed, pipelined, ordered = ABLATION_MS
    exchanges = (none - compressed) / (1 - 1 / ZFP_RATIO)
    computing = none - exchanges
    left = pipelined - computing
    predicted = expert_schedule.best_schedule(2, [0, left / 4, 0, computing / 2, 0, left / 4, 0]).makespan_ms
    error = predicted / ordered - 1
    found = f"{predicted:.0f} against {ordered:.0f} ms ({100 * error:+.1f} %)"
    question = "ablation: three rows fitted, the fourth predicted"
    return judged("expert-schedule", question, "within 5 %", found, abs(error) <= 0.05, "simulation")


def compression() -> Row:
    """Advice on a slow and on a fast link."""
    advised = {}
    for link_ms in (20.0, 0.2):
        codec = {"compress_1": 0.5, "decompress_1": 0.5, "compress_2": 0.5, "decompress_2": 0.5, "experts": 2.0}
        sent = {"all_to_all_1": link_ms / ZFP_RATIO, "all_to_all_2": link_ms / ZFP_RATIO}
        plain = {"all_to_all_1": link_ms, "all_to_all_2": link_ms}
        given = {"chunks": 2, "tasks_ms": {**codec, **sent}, "uncompressed_ms": plain}
        made = expert_schedule.plan(expert_schedule.Input.model_validate(given)).plan
        assert isinstance(made, expert_schedule.SchedulePlan)
        assert made.compression is not None
        advised[link_ms] = made.compression.advised
    found = f"slow link {advised[20.0]}, fast link {advised[0.2]}"
    good = advised == {20.0: True, 0.2: False}
    return judged("expert-schedule", "compression advised", "slow True, fast False", found, good, "simulation")


def noisy_costs() -> Row:
    """Alpha and beta of points with 5 % noise."""
    source, errors = random.Random(5), []
    for _ in range(1000):
        alpha, beta = source.uniform(0.05, 1), source.uniform(1e-7, 1e-6)
        sizes = [4.0**power * 1000 for power in range(10)]
        line = fit_line(sizes, [(alpha + beta * size) * source.gauss(1, 0.05) for size in sizes])
        errors.append(max(abs(line.alpha_ms / alpha - 1), abs(line.beta_ms_per_unit / beta - 1)))
    median, worst = float(np.median(errors)), float(np.quantile(errors, 0.95))
    found = f"larger error of both: median {100 * median:.1f} %, 95th percentile {100 * worst:.1f} %"
    return judged(
        "expert-degree", "alpha and beta of points with 5 % noise", "recovered", found, worst <= 0.1, "simulation"
    )


def memory_saved() -> Row:
    """MPMoE's saving by chunks."""
    sizes = expert_degree.Buffers(tokens=1024, model_width=1024, hidden_width=4096)
    saved = {n: (sizes.needed_bytes(1) - sizes.needed_bytes(n)) / (2 * 4 * 1024) for n in (2, 4, 8)}
    expected = {n: 2 * 1024 * (n - 2) / n + 4096 * (n - 1) / n for n in saved}
    good = all(abs(saved[n] - expected[n]) < 1e-6 for n in saved)
    share = ", ".join(f"{n}: {100 * saved[n] / (2 * 1024 + 4096):.0f} %" for n in saved)
    found = f"formula holds; of activations and buffers {share} (published 23/34/38 %, of a total that is not given)"
    return judged(
        "expert-degree", "memory saved at 2, 4, 8 chunks", "B(2M(n-2)/n + H(n-1)/n)", found, good, "simulation"
    )


def stragglers(folder: Path) -> list[Row]:
    """Published results of ByteDance's traces."""
    rows = []
    for name in ("AR", "ST"):
        made = straggler.plan_parquet((folder / f"trace-{name}.parquet").read_bytes()).plan
        assert isinstance(made, straggler.StragglerPlan)
        result = json.loads((folder / f"result-{name}.json").read_text())
        parts = {
            "dp_rank": made.by_dp_rank,
            "stage": made.by_stage,
            "optype": made.by_operation_type,
        }
        errors = [abs(made.slowdown - result["blocking_slowdown"])]
        for kind, mine in parts.items():
            theirs = result[f"blocking_decompose_by_{kind}"]
            errors += [abs(mine[key] - theirs[key]) for key in theirs]
        for metric, value in (("w", made.share_of_worst_workers), ("s", made.share_of_last_stage)):
            errors.append(
                abs((value or 0.0) - json.loads((folder / f"m{metric}-{name}.json").read_text())[f"M{metric}"])
            )
        found = f"S = {made.slowdown:.4f}; largest error of {len(errors)} published figures {max(errors):.1e}"
        good = max(errors) < 5e-5
        rows.append(judged("straggler", f"trace {name}", "published results", found, good, "published data"))
    return rows


def naspipe_sample(text: str) -> Row:
    """Speed-ups over vPipe in the sample output of NASPipe's artifact (steps and hours of each); no planner is run."""
    hours: dict[str, float] = {}
    system = space = ""
    for line in text.splitlines():
        name = line.removesuffix(".").lower()
        if name in ("naspipe", "vpipe", "gpipe", "pipedream"):
            system = name
        elif name in ("c0", "c1", "c2", "c3"):
            space = name
        elif line.startswith("Steps:"):
            hours[f"{system} {space}"] = float(line.split()[3]) / float(line.split()[1])
    ratios = [hours[f"vpipe {each}"] / hours[f"naspipe {each}"] for each in ("c0", "c1", "c2", "c3")]
    good = bool(np.allclose(ratios, (1.87, 1.48, 1.20, 1.26), atol=0.01))
    found = "over vPipe " + ", ".join(f"{each:.2f}" for each in ratios)
    wanted = "1.87, 1.48, 1.20, 1.26"
    return judged(
        "supernet", "ratios in the artifact's sample output, no planner run", wanted, found, good, "published data"
    )


def trace_costs(folder: Path) -> Row:
    """Alpha and beta of the all-to-alls of a real 8-rank trace: from the last start to the last end of each."""
    from tools.sources.load import load_run
    from tools.views.communication.collectives import collectives
    from tools.views.profile import Profile

    table = collectives(Profile(load_run([folder])))
    table = table[(table["kind"] == "all_to_all") & (table["match"] >= 0)]
    groups = table.groupby("match")
    took_ms = (groups["end_ns"].max() - groups["start_ns"].max()) / 1e6
    sizes = groups["bytes"].max()
    line = fit_line(sizes.tolist(), took_ms.tolist())
    residual = float(np.median([abs(line.time_ms(size) / ms - 1) for size, ms in zip(sizes, took_ms, strict=True)]))
    found = (
        f"alpha {1000 * line.alpha_ms:.0f} us, {1e-6 / line.beta_ms_per_unit if line.beta_ms_per_unit else 0:.2f} GB/s "
        f"from {len(sizes)} all-to-alls of {sizes.min():.0f} to {sizes.max():.0f} bytes; median residual "
        f"{100 * residual:.0f} %"
    )
    good = len(set(sizes)) > 1 and line.alpha_ms > 0
    return judged("expert-degree", "alpha and beta of a real trace's all-to-alls", "fitted", found, good, "measured")
