"""The peak of device memory that a program prints of itself."""

from __future__ import annotations

from tools.analyzers.support.answers import clean, say
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Sentence
from tools.metrics.registry import measure
from tools.run.first_printed import first_step_line
from tools.run.recorded.job_log import JobLog, PeakMemory
from tools.views.profile import Profile

# The better known first; how each is named.
KINDS = {"allocated": "allocated", "reserved": "reserved", "device": "used"}
OF_DEVICE = "The job's output states a peak of {} device memory{}, for one process{}."
UNNAMED = "The job's output states a peak of {} memory{}, for one process{}; whether this is device memory is not said."
BEFORE = " before the first printed step"
UNITS = {"KB": "10^3 or 2^10", "MB": "10^6 or 2^20", "GB": "10^9 or 2^30", "TB": "10^12 or 2^40"}


@check(
    *("memory.output_peak", "Peak memory by the output", "How much device memory does a process use at its peak?"),
    from_records="output",
)
def stated_peak(profile: Profile) -> Check | None:
    """The most that the program says its process allocated and reserved: it rules nothing out."""
    log = profile.run.job_log
    if log is None or not log.peak_memory:
        return None
    known = {each.kind: each for each in log.peak_memory}
    named = [known[kind] for kind in ("allocated", "reserved", "device") if kind in known]
    return clean(_said(profile, log, OF_DEVICE if named else UNNAMED, named or [known["unnamed"]]))


def _said(profile: Profile, log: JobLog, text: str, peaks: list[PeakMemory]) -> Sentence:
    """The peaks, of a unit that may be of two sizes both of them."""
    facts: list[Fact] = []
    parts = []
    for each in peaks:
        figures = [measure(profile, "stated_peak_gib", kind=each.kind)]
        if each.unit in UNITS:
            figures.insert(0, measure(profile, "stated_peak_gib", kind=each.kind, decimal=1))
        places = " to ".join(f"{{{len(facts) + at}}}" for at in range(len(figures)))
        parts.append(f"{places} {KINDS.get(each.kind, '')}".rstrip())
        facts += figures
    return say(text.format(" and ".join(parts), _when(profile, log, peaks), _unit(peaks)), *facts)


def _when(profile: Profile, log: JobLog, peaks: list[PeakMemory]) -> str:
    """That all lines are from before the training, of which they show nothing."""
    firsts = [first_step_line(profile.run, log.files[each.file].rpartition("/")[2]) for each in peaks]
    before = (first is not None and each.line < first for first, each in zip(firsts, peaks, strict=True))
    return BEFORE if all(before) and not any(each.of_steps for each in peaks) else ""


def _unit(peaks: list[PeakMemory]) -> str:
    """Why a figure is a range."""
    unit = next((each.unit for each in peaks if each.unit in UNITS), None)
    return "" if unit is None else f" (programs print {unit} for {UNITS[unit]} bytes)"
