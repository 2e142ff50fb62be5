"""Real data-parallel runs over gloo: the bucket size is changed as advised, and the step is measured again.

Each rank is a host of its own, joined by a cable of a known rate. Both ranks and the network's packets share two
processor cores, so a transfer slows the backward pass next to it; FAST_CABLES has a cable on which that is most.

First the default buckets are run, turn by turn with the same training without transfers and with transfers alone. From
these the planner predicts everything: gradients, link, and the slowdown next to transfers. Then the default and the
advised buckets take turns. How far the default is from itself in the first run is printed with the error: no prediction
made from the first run can be expected to be nearer.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
    MOST_SLOWDOWN,
    BucketPlan,
    Buckets,
    Input,
    ddp_buckets,
    moments_ms,
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
DEFAULT, ALONE = "0", "alone"
AUTOGROUP = Path("/proc/self/autogroup")  # Linux shares processors between sessions first, then between their processes
FOREMOST = "-20"  # so that what other sessions run takes next to nothing from the training
STEPS_OF_FIT = 50  # halvings


def gloo_runs(torch_python: str) -> list[Row]:
    """One row per model: the step predicted for the advised ``bucket_cap_mb`` against the measured one."""
    return [_row(torch_python, model, rate_mbit) for model, rate_mbit in [*RUNS.items(), *FAST_CABLES.items()]]


def _row(torch_python: str, model: str, rate_mbit: float) -> Row:
    question, wanted = f"gloo run {model} over {rate_mbit:g} Mbit/s", "within 5 %"
    try:
        with TemporaryDirectory() as folder, LinkedHosts(rate_mbit).around(2, Path(folder)) as placements, foremost():
            first = _train(torch_python, placements, model, ALONE, DEFAULT)
            described = _described(first)
            advised = _advised(described)
            second = _train(torch_python, placements, model, *dict.fromkeys((DEFAULT, advised)))
    except (subprocess.SubprocessError, EnvironmentFaultError) as error:
        return Row("gradient-buckets", question, wanted, f"{type(error).__name__}: {error}", "fail", "measured")
    predicted_ms, measured_ms = _predicted_ms(described, advised), second["runs"][advised]["step_ms"]
    default_ms, again_ms = (each["runs"][DEFAULT]["step_ms"] for each in (first, second))
    off, default_off, noise = (
        100 * (one / other - 1)
        for one, other in (
            (predicted_ms, measured_ms),
            (_predicted_ms(described, DEFAULT), default_ms),
            (default_ms, again_ms),
        )
    )
    setting = "no change" if advised == DEFAULT else f"bucket_cap_mb={advised}"
    found = (
        f"{setting} advised: {predicted_ms:.1f} ms predicted, {measured_ms:.1f} measured ({off:+.1f} %); default: "
        f"{default_ms:.1f} ms (model {default_off:+.1f} %), run again {again_ms:.1f} (noise {noise:+.1f} %); the "
        f"backward pass takes {described['compute_slowdown_during_transfer']:.2f} times as long next to a transfer"
    )
    return judged("gradient-buckets", question, wanted, found, abs(off) <= 5.0, "measured")


@contextmanager
def foremost() -> Iterator[None]:
    """Let this session go first on the processors, where the system groups processes by session and permits it."""
    before = None
    with suppress(OSError):
        before = AUTOGROUP.read_text().split()[-1]
        AUTOGROUP.write_text(FOREMOST)
    try:
        yield
    finally:
        if before is not None:
            with suppress(OSError):
                AUTOGROUP.write_text(before)


def _advised(described: dict[str, Any]) -> str:
    made = plan(Input.model_validate(described)).plan
    assert isinstance(made, BucketPlan)
    return DEFAULT if made.ddp.bucket_cap_mb is None else str(made.ddp.bucket_cap_mb)


def _predicted_ms(described: dict[str, Any], cap_mb: str) -> float:
    """The step with the buckets that DistributedDataParallel makes of this size."""
    before_ms = plan(Input.model_validate({**described, "current": _buckets(described, cap_mb)})).before_ms
    assert before_ms is not None
    return before_ms


def _buckets(described: dict[str, Any], cap_mb: str) -> Buckets:
    caps = (DDP_FIRST_BUCKET_BYTES, DDP_BUCKET_MB * MIB) if cap_mb == DEFAULT else (float(cap_mb) * MIB,) * 2
    return ddp_buckets([each["bytes"] for each in described["gradients"]], *caps)


def _described(first: dict[str, Any]) -> dict[str, Any]:
    """The gradients as they are ready without transfers, the link as it is without computation, and what both lose."""
    line = fit_line([each["bytes"] for each in first["points"]], [each["ms"] for each in first["points"]])
    alone, together = first["runs"][ALONE], first["runs"][DEFAULT]
    described = {
        "gradients": [{"ready_ms": each["ready_ms"], "bytes": each["bytes"]} for each in alone["gradients"]],
        "update_ms": alone["behind_ms"],
        "link": {"alpha_ms": line.alpha_ms, "beta_ms_per_byte": line.beta_ms_per_unit},
    }
    names = [each["name"] for each in alone["gradients"]]
    ready_ms = {each["name"]: each["ready_ms"] for each in together["gradients"]}
    buckets = _buckets(described, DEFAULT)
    taken_ms = ready_ms[names[-1]] - ready_ms[names[buckets[0][-1]]]
    return {**described, "compute_slowdown_during_transfer": fitted_slowdown(described, buckets, taken_ms)}


def fitted_slowdown(described: dict[str, Any], buckets: Buckets, taken_ms: float) -> float:
    """The slowdown with which the gradients behind the first bucket take ``taken_ms``; 1 where none explains it.

    Only what lies behind the first transfer's start is compared: nothing slows the backward pass before it.
    """
    low, high = 0.0, 1.0 - 1.0 / MOST_SLOWDOWN  # share of the backward pass that is lost next to a transfer
    for _ in range(STEPS_OF_FIT):
        middle = (low + high) / 2
        given = Input.model_validate({**described, "compute_slowdown_during_transfer": 1.0 / (1.0 - middle)})
        moments = moments_ms(given, buckets)
        low, high = (middle, high) if moments[-1] - moments[buckets[0][-1]] < taken_ms else (low, middle)
    return 1.0 / (1.0 - low)


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
