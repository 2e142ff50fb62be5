"""Real data-parallel runs over gloo: the bucket size is changed as advised, and the step is measured again.

Each rank is a host of its own, joined by a cable of a known rate: over the loopback interface a transfer is work of the
same processor cores that compute, which the model of ``gradient-buckets`` leaves out.
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
from tools.whatif.planners.gradient_buckets import BucketPlan, Input, plan
from tools.whatif.planners.linear_cost import fit_line

RUNS = {  # rate of the cable in Mbit/s, each direction
    **{"small-many": 200.0, "narrow-deep": 200.0, "pyramid": 400.0},
    **{"wide": 400.0, "mixed": 200.0, "large-batch": 200.0},
}
LONGEST_RUN_S = 120
TRAINING = Path(__file__).with_name("ddp_training.py")
DEFAULT_CAP = "0"


def gloo_runs(torch_python: str) -> list[Row]:
    """One row per model: the step predicted for the advised ``bucket_cap_mb`` against the measured one."""
    return [_row(torch_python, model, rate_mbit) for model, rate_mbit in RUNS.items()]


def _row(torch_python: str, model: str, rate_mbit: float) -> Row:
    question, wanted = f"gloo run {model} over {rate_mbit:g} Mbit/s", "within 5 %"
    try:
        with TemporaryDirectory() as folder, LinkedHosts(rate_mbit).around(2, Path(folder)) as placements:
            made = plan(_input(_train(torch_python, placements, model, "costs")))
            assert isinstance(made.plan, BucketPlan)
            ddp = made.plan.ddp
            advised = DEFAULT_CAP if ddp.bucket_cap_mb is None else str(ddp.bucket_cap_mb)
            measured = _train(torch_python, placements, model, *dict.fromkeys((DEFAULT_CAP, advised)))
    except (subprocess.SubprocessError, EnvironmentFaultError) as error:
        return Row("gradient-buckets", question, wanted, f"{type(error).__name__}: {error}", "fail", "measured")
    off = ddp.after_ms / measured[advised] - 1
    default_off = ddp.default_ms / measured[DEFAULT_CAP] - 1
    found = (
        f"bucket_cap_mb={advised}: {ddp.after_ms:.1f} ms predicted, {measured[advised]:.1f} measured "
        f"({100 * off:+.1f} %); default: {ddp.default_ms:.1f}, {measured[DEFAULT_CAP]:.1f} ({100 * default_off:+.1f} %)"
    )
    return judged("gradient-buckets", question, wanted, found, abs(off) <= 0.05, "measured")


def _input(costs: dict[str, Any]) -> Input:
    """The gradients as they are ready without transfers, and the link as it is without computation."""
    points = costs.pop("points")
    line = fit_line([each["bytes"] for each in points], [each["ms"] for each in points])
    return Input.model_validate(
        {**costs, "link": {"alpha_ms": line.alpha_ms, "beta_ms_per_byte": line.beta_ms_per_unit}}
    )


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
