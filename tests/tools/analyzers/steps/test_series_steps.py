"""What is said of profilers in steps that only records show."""

from __future__ import annotations

from hermes_agent.report.opening import opening
from tests.recorded_runs import recorded_profile, records_of, step_rows, untraced_profile
from tools.judgement.ranking import ranking
from tools.run.recorded.records import MonitorRecords
from tools.views.profile import Profile


def waiting(active: float | None = None) -> MonitorRecords:
    """Two ranks that wait for their data, with samples that found a profiler at work, found none, or show nothing."""
    rows = [
        step_rows(rank, [100.0] * 60, own_ms=90.0, data_wait_ms=40.0, thread_cpu_ms=90.0, fetches=1)
        for rank in range(2)
    ]
    levels = {"children": 0.0, **({} if active is None else {"profiler_active": active})}
    return records_of(rows, levels={rank: levels for rank in range(2)})


def said(profile: Profile) -> list[str]:
    return [sentence.template for sentence in opening(profile, ranking(profile))]


def test_without_a_trace_nobody_says_that_no_profiler_touched_the_steps() -> None:
    for active in (None, 0.0):
        headline, steps, *_ = said(untraced_profile(waiting(active)))
        assert "of each {1} step ({2})" in headline
        assert steps.startswith("By the monitor's records the median step takes {0}, the p95 {1}.")


def test_with_a_trace_the_other_steps_are_those_that_no_profiler_touched() -> None:
    _, steps, *_ = said(recorded_profile(waiting(0.0)))
    assert steps.startswith("Unprofiled steps take {0} on average")


def test_a_profiler_that_samples_found_in_the_steps_is_shown_with_their_time() -> None:
    for profile in (untraced_profile(waiting(1.0)), recorded_profile(waiting(1.0))):
        sentences = opening(profile, ranking(profile))
        whole = " ".join(sentence.template for sentence in sentences)
        assert "nprofiled steps take" not in whole
        assert "Steps take" not in whole
        assert "Steps without a trace take {0} on average" in whole
        (seen,) = (each for each in sentences if each.template.endswith("in these steps."))
        assert [(fact.metric, fact.value) for fact in seen.facts] == [("profiler_active_pct", 100.0)]
