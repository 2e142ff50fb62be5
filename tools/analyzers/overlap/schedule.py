"""Does the pipeline schedule that the job's output states leave its stages idle?"""

from __future__ import annotations

from tools.analyzers.overlap.pipeline import ENOUGH_PER_STAGE
from tools.analyzers.support.answers import clean, confidence, say
from tools.analyzers.support.figures import measure_all, measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Saving
from tools.metrics.recorded.job_log import micro_batches, most_idle_pct, stages, virtual_stages
from tools.metrics.registry import measure
from tools.views.profile import Profile

METHOD = "job log: idle time of the pipeline schedule, for as many samples"
UNSEEN_CAP, SEEN_CAP = 0.65, 0.9  # without and with timers that show how little a rank computes


@check(
    *("pipeline.schedule", "Pipeline schedule", "Do the job's micro-batches fill its pipeline stages?"),
    family="parallel",
    causes=("pipeline_bubble",),
    from_records="output",
)
def schedule(profile: Profile) -> Check | Finding | None:
    """Idle time by the number of stages and micro-batches, and by the timers of a rank where these are printed."""
    log = profile.run.job_log
    if log is None or profile.traced or profile.series is None or stages(log) is None or micro_batches(log) is None:
        return None
    bubble, count, passing = measure_all(profile, "stated_bubble_pct", "stated_stages", "stated_micro_batches")
    computes = measured(profile, "timed_compute_pct")
    wanted = ENOUGH_PER_STAGE * int(count.value)
    longer = measure(profile, "schedule_step_ms", micro_batches=float(wanted))
    batch = measured(profile, "schedule_batch")
    batches = () if batch is None else (measure(profile, "schedule_batch", micro_batches=float(wanted)), batch)
    shape = say("{0} pass through {1}, which leaves {2} of the step idle.", passing, count, bubble)
    seen = () if computes is None else (say("By its timers a rank computes {0} of the step.", computes),)
    left = measure(profile, "stated_bubble_pct", micro_batches=float(wanted))
    saved = measure(profile, "schedule_saving_pct", micro_batches=float(wanted))
    saved_pct = saved.value
    limits, busy_pct = profile.thresholds, 100.0 - bubble.value
    other = computes is not None and computes.value > limits["other_schedule_factor"] * busy_pct
    if other or passing.value >= wanted or saved_pct < limits["noted_pct"]:
        return clean(shape, *seen)
    step_ms = profile.mean_step_ms
    saved_ms = saved_pct / 100.0 * step_ms
    most_ms = min(bubble.value, 1.1 * saved_pct) / 100.0 * step_ms
    bound_ms = max(most_idle_pct(profile), saved_pct) / 100.0 * step_ms
    layers, parts = log.whole("num_layers"), int(count.value) * virtual_stages(log)
    undivided = layers is not None and layers <= parts
    return Finding(
        cause="pipeline_bubble",
        claim=say(
            "Only {0} pass through {1}: the schedule leaves {2} of the step idle. "
            f"With {wanted} micro-batches it would leave {{3}}, and as many samples would take {{4}} less time: "
            "a step takes {5} then, for a global batch"
            + (" of {6} in place of {7}." if batches else " in proportion."),
            *(passing, count, bubble, left, saved, longer, *batches),
        ),
        confidence=confidence(
            (saved_pct, limits["cause_share_pct"]), at_most=UNSEEN_CAP if computes is None else SEEN_CAP
        ),
        ranks=profile.rank_numbers,
        saving=Saving(step_ms, saved_ms, 0.5 * saved_ms, most_ms, METHOD, same_samples=True, bound_ms=bound_ms),
        details=seen,
        against=(say("A stage has no more layers than parts: an interleaved schedule cannot divide it further."),)
        if undivided
        else (),
    )
