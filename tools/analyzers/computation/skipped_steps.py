"""Are steps skipped because gradients overflow in half precision?"""

from __future__ import annotations

from tools.analyzers.support.answers import clean, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check
from tools.views.profile import Profile


@check("computation.skipped_steps", "Skipped steps", "Are steps skipped for overflow?", from_records="output")
def skipped_steps(profile: Profile) -> Check | None:
    """Skipped steps of the later half of the output: at the start a loss scale has to find its level."""
    if profile.run.job_log is None:
        return None
    later, all_steps = (measured(profile, "skipped_steps_pct", settled=settled) for settled in (1, 0))
    if all_steps is None:
        return None
    if later is None:
        return clean(
            say("{0} of the printed steps are skipped while the loss scale is lowered from its start.", all_steps)
        )
    if later.value >= profile.thresholds["skipped_steps_pct"]:
        text = (
            "{0} of the later steps are skipped for overflow: their work is lost, and the loss scale does not settle."
        )
        return symptom(say(text, later))
    return clean(say("{0} of all steps are skipped for overflow, {1} of the later half.", all_steps, later))
