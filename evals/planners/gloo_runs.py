"""Real data-parallel runs over gloo: the bucket size is changed as advised, and the step is measured again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from evals.planners.row import Row, judged
from tools.whatif.planners.gradient_buckets import BucketPlan, Input, plan
from tools.whatif.planners.linear_cost import fit_line

MODELS = ("small-many", "narrow-deep", "pyramid", "wide", "mixed", "large-batch")
ONE_GRADIENT_MB = 1e-6  # every gradient is a bucket: the run reports when each is ready and transferred
STEPS = 30
LONGEST_RUN_S = 120
TRAINING = Path(__file__).with_name("ddp_training.py")


def gloo_runs(torch_python: str) -> list[Row]:
    """One row per model: the step predicted for the advised ``bucket_cap_mb`` against the measured one."""
    rows = []
    for model in MODELS:
        recorded = _train(torch_python, model, ONE_GRADIENT_MB)
        made = plan(_input(recorded))
        assert isinstance(made.plan, BucketPlan)
        measured = _train(torch_python, model, made.plan.ddp.bucket_cap_mb)
        predicted_ms, measured_ms = made.plan.ddp.after_ms, measured["step_ms"]
        error = predicted_ms / measured_ms - 1
        found = (
            f"{recorded['step_ms']:.1f} to {predicted_ms:.1f} ms predicted, {measured_ms:.1f} measured "
            f"({100 * error:+.1f} %), bucket_cap_mb={made.plan.ddp.bucket_cap_mb:g}"
        )
        rows.append(
            judged("gradient-buckets", f"gloo run {model}", "within 5 %", found, abs(error) <= 0.05, "measured")
        )
    return rows


def _input(recorded: dict[str, float], *, shortest_ms: float = 1e-3) -> Input:
    buckets = recorded["buckets"]
    assert isinstance(buckets, list)
    line = fit_line([each["bytes"] for each in buckets], [max(shortest_ms, each["service_ms"]) for each in buckets])
    ready_ms, gradients = 0.0, []
    for each in buckets:
        ready_ms = max(ready_ms, each["ready_ms"])
        gradients.append({"ready_ms": ready_ms, "bytes": each["bytes"]})
    link = {"alpha_ms": line.alpha_ms, "beta_ms_per_byte": line.beta_ms_per_unit}
    return Input.model_validate({"gradients": gradients, "link": link, "update_ms": recorded["update_ms"]})


def _train(torch_python: str, model: str, cap_mb: float) -> dict[str, float]:
    words = [torch_python, str(TRAINING), model, str(cap_mb), str(STEPS)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=LONGEST_RUN_S)
    recorded = json.loads(done.stdout)
    assert isinstance(recorded, dict)
    return recorded
