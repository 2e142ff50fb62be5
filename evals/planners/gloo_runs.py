"""Real data-parallel runs over gloo: the bucket size is changed as advised, and the step is measured again.

Each rank is a host of its own, joined by a cable of a known rate. The model of ``gradient-buckets`` assumes that
transfers do not slow the backward pass. Here both ranks and the network's packets share two processor cores, so an
overlapped transfer takes some ms per megabyte from the computation. On the slow cables that is little against the time
on the cable; FAST_CABLES has one on which it is not.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evals.lab.environment_faults.network import LinkedHosts
from evals.lab.environment_faults.placement import EnvironmentFaultError, Placement
from evals.planners.row import Row, judged
from tools.whatif.planners.gradient_buckets import (
    DDP_BUCKET_MB,
    DDP_FIRST_BUCKET_BYTES,
    MIB,
    BucketPlan,
    Input,
    ddp_buckets,
    plan,
)
from tools.whatif.planners.linear_cost import fit_line

RUNS = {  # rate of the cable in Mbit/s, each direction
    **{"small-many": 50.0, "narrow-deep": 100.0, "pyramid": 100.0},
    **{"wide": 100.0, "mixed": 50.0, "large-batch": 100.0},
}
FAST_CABLES = {"pyramid": 400.0}
LONGEST_RUN_S = 120
TRAINING = Path(__file__).with_name("ddp_training.py")
DEFAULT = "0"


def gloo_runs(torch_python: str) -> list[Row]:
    """One row per model: the step predicted for the advised ``bucket_cap_mb`` against the measured one."""
    return [_row(torch_python, model, rate_mbit) for model, rate_mbit in [*RUNS.items(), *FAST_CABLES.items()]]


def _row(torch_python: str, model: str, rate_mbit: float) -> Row:
    question, wanted = f"gloo run {model} over {rate_mbit:g} Mbit/s", "within 5 %"
    try:
        with TemporaryDirectory() as folder, LinkedHosts(rate_mbit).around(2, Path(folder)) as placements:
            advised = _advised(_train(torch_python, placements, model)["costs"])
            measured = _train(torch_python, placements, model, *dict.fromkeys((DEFAULT, advised)))
    except (subprocess.SubprocessError, EnvironmentFaultError) as error:
        return Row("gradient-buckets", question, wanted, f"{type(error).__name__}: {error}", "fail", "measured")
    predicted_ms, measured_ms = _predicted_ms(measured["costs"], advised), measured["steps_ms"][advised]
    default_ms, default_measured_ms = _predicted_ms(measured["costs"], DEFAULT), measured["steps_ms"][DEFAULT]
    off = predicted_ms / measured_ms - 1
    setting = "no change" if advised == DEFAULT else f"bucket_cap_mb={advised}"
    found = (
        f"{setting} advised: {predicted_ms:.1f} ms predicted, {measured_ms:.1f} measured ({100 * off:+.1f} %); "
        f"default: {default_ms:.1f}, {default_measured_ms:.1f} ({100 * (default_ms / default_measured_ms - 1):+.1f} %)"
    )
    return judged("gradient-buckets", question, wanted, found, abs(off) <= 0.05, "measured")


def _advised(costs: dict[str, Any]) -> str:
    made = plan(Input.model_validate(_described(costs))).plan
    assert isinstance(made, BucketPlan)
    return DEFAULT if made.ddp.bucket_cap_mb is None else str(made.ddp.bucket_cap_mb)


def _predicted_ms(costs: dict[str, Any], cap_mb: str) -> float:
    """The step with the buckets that DistributedDataParallel makes of this size."""
    sizes = [each["bytes"] for each in costs["gradients"]]
    caps = (DDP_FIRST_BUCKET_BYTES, DDP_BUCKET_MB * MIB) if cap_mb == DEFAULT else (float(cap_mb) * MIB,) * 2
    before_ms = plan(Input.model_validate({**_described(costs), "current": ddp_buckets(sizes, *caps)})).before_ms
    assert before_ms is not None
    return before_ms


def _described(costs: dict[str, Any]) -> dict[str, Any]:
    """The gradients as they are ready without transfers, and the link as it is without computation."""
    line = fit_line([each["bytes"] for each in costs["points"]], [each["ms"] for each in costs["points"]])
    link = {"alpha_ms": line.alpha_ms, "beta_ms_per_byte": line.beta_ms_per_unit}
    return {"gradients": costs["gradients"], "update_ms": costs["update_ms"], "link": link}


def _train(torch_python: str, placements: Sequence[Placement], model: str, *words: str) -> dict[str, Any]:
    processes = [
        subprocess.Popen(
            [*placement.prefix, torch_python, str(TRAINING), model, *words],
            env={**os.environ, **placement.environment, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, placement in enumerate(placements)
    ]
    try:
        for process in processes:
            output, errors = process.communicate(timeout=LONGEST_RUN_S)
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, process.args, output, errors)
            if process is processes[0]:
                measured = json.loads(output)
    finally:
        for process in processes:
            process.kill()
    assert isinstance(measured, dict)
    return measured
