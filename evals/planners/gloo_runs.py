"""Real data-parallel runs over gloo: the bucket size is changed as advised, and the step is measured again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

from evals.planners.row import Row, judged
from tools.whatif.planners.gradient_buckets import BucketPlan, Input, plan

MODELS = ("small-many", "narrow-deep", "pyramid", "wide", "mixed", "large-batch")
ONE_GRADIENT_MB = 1e-6  # every gradient is a bucket: the run reports when each is ready and transferred
STEPS = 30
LONGEST_RUN_S = 120
TRAINING = Path(__file__).with_name("ddp_training.py")


def gloo_runs(torch_python: str) -> list[Row]:
    """One row per model: the step predicted for the advised ``bucket_cap_mb`` against the measured one."""
    return [_row(torch_python, model) for model in MODELS]


def _row(torch_python: str, model: str) -> Row:
    question, wanted = f"gloo run {model}", "within 5 %"
    try:
        recorded = _train(torch_python, model, ONE_GRADIENT_MB)
        made = plan(_input(recorded))
        assert isinstance(made.plan, BucketPlan)
        measured_ms = _train(torch_python, model, made.plan.ddp.bucket_cap_mb)["step_ms"]
    except subprocess.SubprocessError as error:
        found = f"the training did not end well: {type(error).__name__}"
        return judged("gradient-buckets", question, wanted, found, False, "measured")
    predicted_ms = made.plan.ddp.after_ms
    off = predicted_ms / measured_ms - 1
    found = (
        f"{recorded['step_ms']:.1f} to {predicted_ms:.1f} ms predicted, {measured_ms:.1f} measured "
        f"({100 * off:+.1f} %), bucket_cap_mb={made.plan.ddp.bucket_cap_mb:g}"
    )
    return judged("gradient-buckets", question, wanted, found, abs(off) <= 0.05, "measured")


def _input(recorded: dict[str, float]) -> Input:
    """The gradients and the link of a run in which every gradient was a bucket.

    Launching a transfer delays the gradients behind it, so that is taken off. The link is the straight line through
    the times between two transfers that are done; the first one starts when its latency has passed.
    """
    buckets = recorded["buckets"]
    assert isinstance(buckets, list)
    sizes = np.array([each["bytes"] for each in buckets])
    ready = np.array([each["ready_ms"] for each in buckets])
    done = np.maximum.accumulate([each["done_ms"] for each in buckets])
    launched = np.cumsum([each["launch_ms"] for each in buckets])
    took = np.diff(done) - np.maximum(0.0, ready[1:] - done[:-1])
    (alpha, beta), *_ = np.linalg.lstsq(np.column_stack([np.ones(len(took)), sizes[1:]]), took, rcond=None)
    if beta < 0:
        alpha, beta = took.mean(), 0.0
    if alpha < 0:
        alpha, beta = 0.0, took.sum() / sizes[1:].sum()
    first_start = done[0] - alpha - beta * sizes[0]
    own_ready = np.maximum.accumulate(np.maximum(ready - np.concatenate(([0.0], launched[:-1])), first_start))
    gradients = [{"ready_ms": float(at), "bytes": float(size)} for at, size in zip(own_ready, sizes, strict=True)]
    link = {"alpha_ms": float(alpha), "beta_ms_per_byte": float(beta)}
    return Input.model_validate({"gradients": gradients, "link": link, "update_ms": recorded["update_ms"]})


def _train(torch_python: str, model: str, cap_mb: float) -> dict[str, float]:
    words = [torch_python, str(TRAINING), model, str(cap_mb), str(STEPS)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=LONGEST_RUN_S)
    recorded = json.loads(done.stdout)
    assert isinstance(recorded, dict)
    return recorded
