"""What records show next to the steps: the job's output, samples of counters and stacks, and profilers' tables."""

from __future__ import annotations

from collections.abc import Sequence

from tools.analyzers.registry import check_of
from tools.analyzers.support.figures import measured
from tools.findings import Check, Sentence
from tools.judgement.ranking import Ranking
from tools.views.profile import Profile

STATED_WITHOUT_STEPS = (
    "communication.hccl_errors",
    "computation.device_errors",
    "memory.output_flushes",
    "cpu.logged_recompilations",
    "io.output_table",
)
OF_COLLECTIVES = ("flight_recorder", "ras", "inspector_arrival", "inspector_bandwidth")
STATED_MFU = "The lines state an MFU of {0}, by the program's own figure of the device's peak."
IMPOSSIBLE_MFU = (
    "The lines state an MFU of {0}, more than a device can reach: the program takes the device's peak for too low, or "
    "counts too many operations."
)
WHOLE_PCT = 100.0


def stated_mfu(profile: Profile) -> list[Sentence]:
    """The MFU that step lines state; of a trace it is computed."""
    log = profile.run.job_log
    if profile.traced or log is None or log.steps["mfu_pct"].isna().all():
        return []
    stated = measured(profile, "stated_mfu_pct")
    if stated is None:
        return []
    return [Sentence(STATED_MFU if stated.value <= WHOLE_PCT else IMPOSSIBLE_MFU, (stated,))]


def shown_by_output(profile: Profile) -> list[Sentence]:
    """What the job's own output and records of its collectives show of communication: time-outs, ranks that hold up
    others, a slow path, and where the output has no steps the rest.

    Nobody can say what a slow path costs, so it is no cause with a saving.
    """
    timed_out, network = (check_of(profile, f"communication.{name}") for name in ("timeouts", "library_log"))
    said = list[Sentence]()
    known = [check_of(profile, f"communication.{name}") for name in OF_COLLECTIVES]
    shown = [each for each in known if each is not None and each.status == "found"]
    if not (shown or profile.measured):
        shown = [each for each in known if each is not None]
    for each in shown:
        said += [*(finding.claim for finding in each.findings), *each.support]
    differing = check_of(profile, "communication.reported_ranks")
    said += [] if differing is None else differing.support
    said += [] if timed_out is None else timed_out.support
    if network is not None:
        said += [finding.claim for finding in network.findings]
        symptom = network.status == "found" and not network.findings
        said += network.support if symptom or not profile.measured else []
    repeated = check_of(profile, "communication.library_warnings")
    said += [] if repeated is None else repeated.support
    for name in ("step_time.throughput", "step_time.epochs", "step_time.restarts", "step_time.side_work"):
        if (answered := check_of(profile, name)) is not None:
            said += [each.claim for each in answered.findings if each.saving is None]
            said += answered.support
    said += _of_ranks(profile)
    skipped = check_of(profile, "computation.skipped_steps")
    said += [] if skipped is None else _seen(skipped)
    timed = None if profile.measured else check_of(profile, "step_time.timers")
    said = [*(() if timed is None else timed.support), *said]
    warned = check_of(profile, "step_time.output")
    said += list(() if warned is None else _seen(warned) if profile.measured else warned.support)
    return said if profile.measured else [*said, *_of_profilers(profile)]


def _of_ranks(profile: Profile) -> list[Sentence]:
    """The rank that a straggler report calls the slowest, and what the job's timers or lines show of ranks that is no
    cause."""
    reported, timers = (
        check_of(profile, name) for name in ("computation.straggler_report", "communication.rank_timers")
    )
    said: list[Sentence] = []
    if reported is not None and reported.status == "found":
        said += [*(finding.claim for finding in reported.findings), *reported.support]
    return [*said, *(() if timers is None else _seen(timers))]


def _of_profilers(profile: Profile) -> list[Sentence]:
    """What the output states that is no step: errors of HCCL, flushed caches, and profilers' tables."""
    checks = [check_of(profile, name) for name in STATED_WITHOUT_STEPS]
    said = [
        each
        for check in checks
        if check is not None and check.status != "cannot_answer"
        for each in (*(finding.claim for finding in check.findings), *check.support)
    ]
    totals = check_of(profile, "computation.output_operators")
    tables = check_of(profile, "step_time.profile_tables")
    if tables is not None:
        said += [*tables.support, *(() if totals is None else totals.support[:1])]
    return said


def unpriced_leads(profile: Profile, ranking: Ranking, said: Sequence[Sentence]) -> list[Sentence]:
    """What leads of a run without a trace show at a cost that is not known, but for what is ``said``."""
    known = {each.template for each in said}
    opened = [] if ranking.causes else [each for each in ranking.leads[:1] if each.place.frame]  # by the headline
    found = [] if profile.traced else [each for each in ranking.leads if not each.impact_ms and each not in opened]
    return [each.claim for each in found if each.claim.template not in known]


SAMPLED = (
    *("computation.clocks", "cpu.machine_samples", "io.machine_samples", "communication.network_samples"),
    *("computation.devices_alike", "memory.device_samples", "computation.device_use", "computation.device_instances"),
    *("computation.device_links", "communication.link_reports", "io.storage_test", "memory.host_reports"),
    "memory.output_peak",
)
COMPARED = ("computation.clocks", "computation.devices_alike")  # what steps and traces do not show by themselves
# Of which steps that a job prints show nothing.
OF_DEVICES = ("computation.device_use", "memory.output_peak", "memory.device_samples")
MOST_SAMPLED = 4  # sentences of what samples show, findings first


def shown_by_samples(profile: Profile) -> list[Sentence]:
    """What sampled counters show that has no known cost; without a trace the state of devices as well."""
    checks = [each for name in SAMPLED if (each := check_of(profile, name)) is not None]
    said = [each.claim for check in checks for each in check.findings if each.saving is None]
    if profile.measured:
        said += [each for check in checks if check.name in COMPARED and not check.findings for each in _seen(check)]
        if not profile.traced and profile.series is not None and profile.series.origin == "job_log":
            shown = [check for check in checks if check.name in OF_DEVICES and check.status in ("found", "clean")]
            said += [each for check in shown if not check.findings for each in check.support]
    else:
        said += [
            each
            for status in ("found", "clean", "cannot_answer")
            for check in checks
            if check.status == status
            for each in check.support
        ]
    return said[:MOST_SAMPLED]


MOST_OF_A_KIND = 3  # sentences of where host threads are, or of the allocator
WITHOUT_STEPS = ("cpu.sampled_stacks", "memory.snapshot")


def shown_without_steps(profile: Profile) -> list[Sentence]:
    """What sampled stacks and snapshots of the allocator show, findings first, where there are no steps."""
    said = list[Sentence]()
    for check in filter(None, (check_of(profile, name) for name in WITHOUT_STEPS)):
        found = [each for finding in check.findings for each in (finding.claim, *finding.details)]
        said += [*found, *check.support][:MOST_OF_A_KIND]
    return said


WORKERS = (
    "A rank of this table is one data-parallel rank of one pipeline stage: it stands for all devices that share its "
    "work by tensor parallelism, whose number the table does not hold."
)
OF_KERNELS = ("computation.ai_cpu", "computation.conversion")


def shown_by_tables(profile: Profile) -> list[Sentence]:
    """How a profiler's own tables split the step, without one what they show of kernels; and whom rows of a table of
    operations stand for."""
    names = ("step.account",) if profile.measured else OF_KERNELS
    checks = [each for name in names if (each := check_of(profile, name)) is not None]
    said = [sentence for each in checks for sentence in _seen(each)]
    return [*said, *([Sentence(WORKERS)] if profile.run.operations is not None else [])]


def _seen(check: Check) -> tuple[Sentence, ...]:
    """What a check found that is no cause by itself."""
    return check.support if check.status == "found" else ()
