"""What to record where the monitor's records do not hold a rate: nothing that the run has already."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.asked import asking
from tests.recorded_runs import recorded_profile, records_of, step_rows, traced_rank
from tests.synthetic import profile_of
from tools.analyzers.support.figures import LONGER, NEEDED, NO_SAMPLES, NOT_COUNTED, samples_needed
from tools.run.recorded.records import MonitorRecords
from tools.views.profile import Profile

DELAY = "training_run_delay_us"
analyze = asking("cpu.contention", "cpu.interpreter_lock", "memory.page_faults", "communication.retransmission")


def recorded() -> MonitorRecords:
    return records_of([step_rows(0, [50.0] * 40)])


def sparse() -> Profile:
    """Two samples only, one before and one behind profiled steps that take most of the time between them."""
    walls = [50.0] * 10 + [900.0] * 20 + [50.0] * 10
    records = records_of([step_rows(0, walls, captured=[10 <= step < 30 for step in range(40)])])
    return recorded_profile(replace(records, system=records.system.iloc[[0, -1]].reset_index(drop=True)))


def test_what_is_missing_is_named_from_the_monitor_to_a_counter() -> None:
    records = recorded()
    assert samples_needed(profile_of(traced_rank(0)), DELAY) == NEEDED
    assert samples_needed(recorded_profile(replace(records, steps=records.steps.iloc[:0])), DELAY) == NEEDED
    assert samples_needed(recorded_profile(replace(records, system=records.system.iloc[:0])), DELAY) == NO_SAMPLES
    assert samples_needed(recorded_profile(replace(records, steps=records.steps.iloc[:5])), DELAY) == LONGER
    assert samples_needed(sparse(), DELAY) == LONGER
    uncounted = replace(records, system=records.system.assign(**{DELAY: np.nan}))
    assert samples_needed(recorded_profile(uncounted), DELAY) == NOT_COUNTED
    assert samples_needed(recorded_profile(records), DELAY) == ""


def test_checks_of_a_monitored_run_do_not_ask_for_the_monitor() -> None:
    checks = analyze(sparse())
    assert [(check.status, check.needs) for check in checks] == [("cannot_answer", LONGER)] * 4
    unsampled = replace(recorded(), system=recorded().system.iloc[:0])
    assert {check.needs for check in analyze(recorded_profile(unsampled))} == {NO_SAMPLES}
