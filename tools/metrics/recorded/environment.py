"""Figures of a recorded environment: cores of the machine and those that the training may use."""

from __future__ import annotations

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.run.model import COLLECT_ENV_FORMAT
from tools.views.profile import Profile

CORES = ("cores", "allowed_cores", "quota_cores")


@metric("cores", "{kind} of the recorded machine", "How many cores may the training use?")
def machine_cores(profile: Profile, kind: str, environment: int = 0) -> Measurement:
    """Cores of the machine, those the process is bound to, or its cgroup's quota, as env.json or collect_env say."""
    choice("kind", kind, CORES)
    found = profile.run.environments
    if not 0 <= environment < len(found):
        raise UsageError(f"there is no environment {environment}; the run has {len(found)}, counted from 0")
    own = found[environment]
    value = own.number(kind)
    if value is None:
        raise UsageError(f"{own.file} does not state this")
    rows = pd.DataFrame({"name": list(own.facts), "value": list(own.facts.values())})
    rows["line"] = [own.lines.get(name, -1) for name in own.facts]
    line = f", line {own.lines[kind]}" if kind in own.lines else ""
    return Measurement(value, lambda: rows, f"{own.file}{line}", source=COLLECT_ENV_FORMAT)
