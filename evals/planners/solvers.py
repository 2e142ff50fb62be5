"""The official solvers side by side with ours, where they were fetched; they need SciPy, so they run apart."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evals.planners.row import Row, judged
from evals.planners.searches import best_degree_ms, degree_inputs
from tools.whatif.planners import expert_degree

LONGEST_RUN_S = 300
PIPEMOE = """
import json, sys, warnings
warnings.filterwarnings("ignore")
sys.path.insert(0, sys.argv[1])
from solver import solve_k
rows = json.load(sys.stdin)
print(json.dumps([int(solve_k(b, l, m, h, p, 2, 1.0, "rtx2080ti", "100GbIB")) for b, l, m, h, p in rows]))
"""
FSMOE = """
import json, sys, warnings
warnings.filterwarnings("ignore")
sys.path.insert(0, sys.argv[1])
from optim import Optimizer
made = [Optimizer(list(a), list(b), v, 2, 1.3) for a, b, v in json.load(sys.stdin)]
print(json.dumps([[int(each.d0), int(each.d1)] for each in made]))
"""
FSMOE_ALPHA_MS = (
    0.23515350484,
    0.0549,
    0.591943532,
    0.0688,
    0.34099276392,
)  # all-to-all, gather, GEMM, scatter, reduce
FSMOE_BETA_MS = (1.8543323833e-6, 6.72388e-7, 5.6847387697e-11, 6.70433e-7, 3.4950701465e-6)
POWERS = (1, 2, 4, 8)  # degrees that FSMoE's solver knows


class SolverError(Exception):
    """A fetched solver failed; the message is its own last line."""


def _or_its_error(compare: Callable[[Path, str], list[Row]]) -> Callable[[Path, str], list[Row]]:
    """The rows of a comparison; where the solver fails, one that says so."""

    @functools.wraps(compare)
    def rows(folder: Path, python: str) -> list[Row]:
        try:
            return compare(folder, python)
        except SolverError as error:
            question = f"the solver that {compare.__name__} compares with"
            return [Row("expert-degree", question, "our regret is 0", str(error), "not run", "official solver")]

    return rows


@_or_its_error
def pipemoe(folder: Path, python: str) -> list[Row]:
    """Regret of PipeMoE's solver on the 576 configurations; ours is none."""
    every = list(degree_inputs())
    answers = _run(PIPEMOE, folder, python, [sizes for sizes, _ in every])
    regrets: dict[int, list[float]] = {}
    for (sizes, given), answer in zip(every, answers, strict=True):
        times = best_degree_ms(given)
        degree = min(max(1, answer), given.max_degree)
        regrets.setdefault(sizes[-1], []).append(times[degree] / min(times.values()) - 1)
    return [
        judged(
            "expert-degree",
            f"PipeMoE's solver on {gpus} GPUs, {len(found)} configurations",
            "our regret is 0",
            f"its regret: mean {100 * sum(found) / len(found):.2f} %, largest {100 * max(found):.1f} %",
            min(found) >= 0,
            "official solver",
        )
        for gpus, found in regrets.items()
    ]


@_or_its_error
def fsmoe(folder: Path, python: str) -> list[Row]:
    """Degrees of FSMoE's solver by its own constants and formulas, against all of 1 to 8."""
    inputs, givens = [], []
    for tokens in (1024, 2048, 4096, 8192, 16384):
        for width in (1024, 2048, 4096):
            for hidden in (width, 2 * width, 4 * width):
                work = [2.4 * tokens * width / 8, 2.4 * tokens * width, 2.4 * tokens * width * hidden / 8 * 2]
                inputs.append([FSMOE_ALPHA_MS, FSMOE_BETA_MS, [*work, work[1]]])
                names = ("all_to_all", "gather", "experts", "scatter")
                parts = {
                    name: {"alpha_ms": FSMOE_ALPHA_MS[place], "beta_ms_per_byte": FSMOE_BETA_MS[place], "bytes": size}
                    for place, (name, size) in enumerate(zip(names, [*work, work[1]], strict=True))
                    if name != "experts"
                }
                experts = {
                    "alpha_ms": FSMOE_ALPHA_MS[2],
                    "beta_ms_per_operation": FSMOE_BETA_MS[2],
                    "operations": work[2],
                }
                described = {**parts, "experts": experts, "max_degree": max(POWERS)}
                givens.append(expert_degree.Input.model_validate(described))
    regrets, ours = [], []
    for answer, given in zip(_run(FSMOE, folder, python, inputs), givens, strict=True):
        made = expert_degree.plan(given)
        assert isinstance(made.plan, expert_degree.DegreePlan)
        times = {int(degree): time_ms for degree, time_ms in made.plan.times_ms.items()}
        backward = {int(degree): time_ms for degree, time_ms in made.plan.backward_times_ms.items()}
        for chosen, mine, table in (
            (answer[0], made.plan.degree, times),
            (answer[1], made.plan.backward_degree, backward),
        ):
            regrets.append(table[chosen] / min(table.values()) - 1)
            ours.append(table[mine] / min(table.values()) - 1)
    found = (
        f"its regret: mean {100 * sum(regrets) / len(regrets):.2f} %, largest {100 * max(regrets):.1f} %; ours "
        f"{100 * max(ours):.1e} %, on {len(regrets)} passes"
    )
    question = "FSMoE's solver, its constants"
    return [judged("expert-degree", question, "our regret is 0", found, max(ours) < 1e-9, "official solver")]


def _run(program: str, folder: Path, python: str, given: object) -> list[Any]:
    try:
        done = subprocess.run(
            [python, "-c", program, str(folder)],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            check=True,
            timeout=LONGEST_RUN_S,
        )
        answers = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
        raise SolverError(f"the solver fails: {last}") from None
    except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        raise SolverError(f"the solver does not answer: {error}") from None
    assert isinstance(answers, list)
    return answers
