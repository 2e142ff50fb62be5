"""Did the job begin again within the same output, and what did that cost?"""

from __future__ import annotations

from tools.analyzers.support.answers import say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check
from tools.metrics.registry import measure
from tools.views.profile import Profile


@check(
    *("step_time.restarts", "Restarts", "Did the job begin again, and what was lost?"),
    family="parallel",
    from_records="output",
)
def job_restarts(profile: Profile) -> Check | None:
    """The places at which the step number falls, the steps that were trained again, and the time between the lines."""
    log = profile.run.job_log
    if log is None or not log.restarts:
        return None
    facts = [measure(profile, name) for name in ("restarts", "repeated_steps")]
    text = "The step number falls, as where a job begins again from a checkpoint ({0}): {1} were printed again."
    down = measured(profile, "restart_down_s")
    if down is None:
        return symptom(say(text, *facts))
    return symptom(say(text, *facts), say("From the last line before to the first after that {0} passed.", down))
