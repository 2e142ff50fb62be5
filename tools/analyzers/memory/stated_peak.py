"""The peak of device memory that a program prints of itself."""

from __future__ import annotations

from tools.analyzers.support.answers import clean, say
from tools.analyzers.support.spec import check
from tools.findings import Check, Sentence
from tools.metrics.registry import measure
from tools.run.first_printed import first_step_line
from tools.run.recorded.job_log import JobLog, PeakMemory
from tools.views.profile import Profile

# The better known first; how each is named.
KINDS = {"allocated": "allocated", "reserved": "reserved", "device": "used"}
OF_DEVICE = "The job's output states a peak of {} device memory{}, for one process.{}"
UNNAMED = "The job's output states a peak of {{0}} memory{}, for one process, and not whether this is device memory.{}"
BEFORE = " before the first printed step"
# By how much a unit of 10^n bytes is smaller than one of 2^m.
DECIMAL = {
    "KB": "2^10 bytes; where it means 10^3, it is 2 % less",
    "MB": "2^20 bytes; where it means 10^6, it is 5 % less",
}
DECIMAL |= {
    "GB": "2^30 bytes; where it means 10^9, it is 7 % less",
    "TB": "2^40 bytes; where it means 10^12, it is 9 % less",
}


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
    return clean(_of_device(profile, log, named) if named else _unnamed(profile, log, known["unnamed"]))


def _of_device(profile: Profile, log: JobLog, peaks: list[PeakMemory]) -> Sentence:
    facts = [measure(profile, "stated_peak_gib", kind=each.kind) for each in peaks]
    listed = " and ".join(f"{{{place}}} {KINDS[each.kind]}" for place, each in enumerate(peaks))
    return say(OF_DEVICE.format(listed, _when(profile, log, peaks), _unit(peaks)), *facts)


def _unnamed(profile: Profile, log: JobLog, peak: PeakMemory) -> Sentence:
    fact = measure(profile, "stated_peak_gib", kind=peak.kind)
    return say(UNNAMED.format(_when(profile, log, [peak]), _unit([peak])), fact)


def _when(profile: Profile, log: JobLog, peaks: list[PeakMemory]) -> str:
    """That all lines are from before the training, of which they show nothing."""
    firsts = [first_step_line(profile.run, log.files[each.file].rpartition("/")[2]) for each in peaks]
    early = (first is not None and each.line < first for first, each in zip(firsts, peaks, strict=True))
    return BEFORE if all(early) else ""


def _unit(peaks: list[PeakMemory]) -> str:
    """How a unit was read that programs print of powers of two and of ten."""
    unit = next((each.unit for each in peaks if each.unit in DECIMAL), None)
    return "" if unit is None else f" The printed {unit} is read as {DECIMAL[unit]}."
