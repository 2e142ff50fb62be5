"""The planners by name; each module has ``Input``, ``plan(Input) -> Planned`` and its own record of the plan."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from tools.errors import UsageError
from tools.whatif.planners.reading import read_input
from tools.whatif.planners.record import Given, Plan, Planned

SCHEMA = "hermes-dx/plan/1"
PARQUET = b"PAR1"
MODULES = {
    "gradient-buckets": ("gradient_buckets", "BucketPlan"),
    "pipeline-memory": ("pipeline_memory", "PipelinePlan"),
    "supernet": ("supernet", "SupernetPlan"),
    "expert-degree": ("expert_degree", "DegreePlan"),
    "expert-schedule": ("expert_schedule", "SchedulePlan"),
    "layout": ("layout", "LayoutPlan"),
    "straggler": ("straggler", "StragglerPlan"),
}


@dataclass(frozen=True)
class Planner:
    """One planner: its name, the record it reads and the record of its plan."""

    name: str
    module: str
    input: type[Given]
    output: type[Plan]

    def schema(self) -> dict[str, object]:
        """JSON Schema of input and plan."""
        return {
            "planner": self.name,
            "input": self.input.model_json_schema(),
            "plan": self.output.model_json_schema(mode="serialization"),
        }

    def plan(self, content: bytes) -> Planned:
        """Plan for a JSON text, or a Parquet table where the planner reads one.

        Raises UsageError for a wrong input and NoPlanError where no plan is possible.
        """
        module = import_module(self.module)
        if not content.startswith(PARQUET):
            made = module.plan(read_input(self.input, content))
        elif hasattr(module, "plan_parquet"):
            made = module.plan_parquet(content)
        else:
            raise UsageError(f"this is a Parquet table; {self.name} reads JSON")
        assert isinstance(made, Planned)
        return made


def planner(name: str) -> Planner:
    """Return the planner of a name of ``MODULES``."""
    module, output = MODULES[name]
    loaded = import_module(f"tools.whatif.planners.{module}")
    return Planner(name, loaded.__name__, loaded.Input, getattr(loaded, output))


def as_record(made: Planned) -> dict[str, object]:
    """Return the JSON object of an answer."""
    return {
        "schema": SCHEMA,
        "planner": made.planner,
        "plan": made.plan.model_dump(mode="json"),
        "before_ms": made.before_ms,
        "after_ms": made.after_ms,
        "gap_ms": made.gap_ms,
        "by": "simulation",
        "bound": made.bound,
        "assumptions": made.assumptions,
    }
