"""vPipe, GPipe and PipeDream on BERT-large and eight RTX 2080 Ti, from published configurations and constants.

Stage maps, recomputed shares and batch sizes are those of vPipe's artifact (runtime/bert/vgpus=8), the time of a matrix
product is PipeMoE's constant for this device, and GPipe has the 4 micro-batches per stage that its paper asks for.
"""

from __future__ import annotations

from evals.planners.row import Row, judged
from evals.planners.searches import GEMM_SECONDS
from tools.whatif.planners import pipeline_memory
from tools.whatif.planners.stage_memory import Action, LayerCost, StageLimits, stage_cost

STAGES, MODULES, LAYERS, WIDTH, LENGTH = 8, 97, 24, 1024, 128
VPIPE, VPIPE_RECOMPUTED = (11, 11, 12, 12, 13, 13, 14, 11), (1, 0.85, 0.8, 0.6, 0.5, 0.2, 0, 0)
GPIPE, PIPEDREAM = (12, 12, 13, 13, 13, 13, 12, 9), (11, 12, 13, 13, 13, 13, 12, 10)
BATCH, PIPEDREAM_BATCH = 16, 4
GPIPE_MICRO_BATCHES = 4 * STAGES
PUBLISHED_HOURS = {"vPipe": 1.28, "GPipe": 1.72, "PipeDream": 2.14}
PRODUCTS = 8  # of a layer, as in its modeling.py: query, key, value, scores, values, projection, two feed-forward
MULTIPLICATIONS = 12 * WIDTH**2 + 2 * LENGTH * WIDTH  # of a layer, per token
PARAMETERS = LAYERS * 12 * WIDTH**2 + 30522 * WIDTH
UPDATE_BYTES = 28  # Adam in float32 reads weight, gradient and two moments, writes all but the gradient
BYTES_PER_MS = 616e6  # memory of an RTX 2080 Ti
ACTIVATION_BYTES = 46e6  # of a module at batch 16: s b h (34 + 5 a s / h) in float32, over four modules
HOST_LINK_BYTES_PER_MS = 12e6  # PCIe 3.0 x16


def module_ms(batch: int) -> float:
    """Forward time of one of the 97 modules."""
    alpha_s, beta_s = GEMM_SECONDS
    layer_s = PRODUCTS * alpha_s + beta_s * 4 * MULTIPLICATIONS * batch * LENGTH
    return 1000 * layer_s * LAYERS / MODULES


def systems() -> list[Row]:
    """Order and ratios of the three systems, and our plan within the memory of vPipe's own."""
    forward_ms, small_ms = module_ms(BATCH), module_ms(PIPEDREAM_BATCH)
    update_ms = PARAMETERS / STAGES * UPDATE_BYTES / BYTES_PER_MS
    module = LayerCost(forward_ms, 2 * forward_ms, ACTIVATION_BYTES, 0.0)
    stages = []
    for stage, (count, recomputed) in enumerate(zip(VPIPE, VPIPE_RECOMPUTED, strict=True)):
        again = round(count * recomputed)
        actions: list[Action] = ["recompute" if place < again else "keep" for place in range(count)]
        stages.append(stage_cost([module] * count, actions, StageLimits(0.0, HOST_LINK_BYTES_PER_MS, STAGES - stage)))
    vpipe_ms = max(each.time_ms for each in stages)
    per_batch_ms = {
        "vPipe": vpipe_ms + update_ms,
        "GPipe": max(GPIPE) * 4 * forward_ms * (GPIPE_MICRO_BATCHES + STAGES - 1) / GPIPE_MICRO_BATCHES,
        "PipeDream": BATCH / PIPEDREAM_BATCH * (max(PIPEDREAM) * 3 * small_ms + update_ms),
    }
    ratios = {name: per_batch_ms[name] / per_batch_ms["vPipe"] for name in ("GPipe", "PipeDream")}
    published = {name: PUBLISHED_HOURS[name] / PUBLISHED_HOURS["vPipe"] for name in ratios}
    errors = {name: ratios[name] / published[name] - 1 for name in ratios}
    shown = ", ".join(
        f"{name} {ratios[name]:.2f} ({published[name]:.2f}, {100 * errors[name]:+.0f} %)" for name in ratios
    )
    good = max(map(abs, errors.values())) <= 0.15 and 1 < ratios["GPipe"] < ratios["PipeDream"]
    layer = {
        **{"forward_ms": forward_ms, "backward_ms": 2 * forward_ms, "activation_bytes": ACTIVATION_BYTES},
        **{"weight_bytes": 0, "optimizer_bytes": 0},
    }
    ours = pipeline_memory.plan(
        pipeline_memory.Input.model_validate(
            {
                "layers": [layer] * MODULES,
                "stages": STAGES,
                "device_memory_bytes": max(each.memory_bytes for each in stages),
                "host_link_bytes_per_ms": HOST_LINK_BYTES_PER_MS,
            }
        )
    )
    return [
        judged(
            "pipeline-memory",
            "time over vPipe's on BERT-large (published)",
            "order, ratios within 15 %",
            shown,
            good,
            "simulation",
        ),
        judged(
            "pipeline-memory",
            "our plan within the memory of vPipe's plan",
            "no slower",
            f"slowest stage {ours.after_ms:.1f} ms, vPipe's {vpipe_ms:.1f} ms",
            ours.after_ms <= vpipe_ms,
            "simulation",
        ),
    ]
