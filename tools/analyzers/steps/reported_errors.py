"""Errors that drivers wrote into the log: of which device or rank, what they say, and after which step."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from tools.analyzers.support.answers import say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Sentence
from tools.knowledge.tables import table
from tools.metrics.registry import measure
from tools.run.recorded.job_log import JobLog, ReportedError
from tools.views.counters import counter_view
from tools.views.profile import Profile

XID = "device_error_code"
SHOWN = 6  # errors, and ranks of one
NOT_ARRIVED = "did not arrive"  # of the rank that an error names; answers look for it
WAITS = ("EI0002", "EI0006", "EI0015")  # HCCL's codes of a rank that waits for others
WHOSE = {
    "device": " It is an error of the hardware or its driver, not of the program.",
    "program": " It is usually the program's error.",
    "open": "",
}


@check(
    *("computation.device_errors", "Errors of the driver", "Did the driver report errors of a device?"),
    from_records="output",
)
def device_errors(profile: Profile) -> Check | None:
    """Xid lines of NVIDIA's driver by device: what each code says, and after which printed step it came.

    Errors of the hardware or its driver come first, each group in the order of the log.
    """
    log, sampled = profile.run.job_log, _sampled(profile)
    found = [] if log is None else [each for each in log.errors if each.code.startswith("Xid ")]
    if log is None or not found:
        return symptom(*sampled) if sampled else None
    inorder = sorted(found, key=lambda each: (each.file, each.first_line))
    ordered = sorted(inorder, key=lambda each: not _of_hardware(each.code))
    said = [_of_device(profile, log, each) for each in ordered[:SHOWN]]
    more = [_and_more(ordered[SHOWN:])] if len(ordered) > SHOWN else []
    text = "The first was {n0} of {n1}; later ones may follow from it."
    first = [say(text, names=(inorder[0].code, inorder[0].place))] if len(found) > 1 else []
    return symptom(*said, *more, *first, *sampled)


def _sampled(profile: Profile) -> list[Sentence]:
    """The last Xid that samples of a device hold, such as those of DCGM; 0 is none."""
    view = counter_view(profile)
    said = []
    for name, device in ({} if view is None else view.devices).items():
        if not device.has(XID):
            continue
        codes = [int(code) for code in device.table[XID].dropna() if code > 0]
        if codes:
            code = f"Xid {codes[-1]}"
            says, whose = _known(code)
            text = f"The samples of device {name} hold {{n0}}, the last error of the driver, without its time"
            said.append(say(f"{text}{says}.{whose}", names=(code,)))
    return said[:SHOWN]


def _of_hardware(code: str) -> bool:
    row: dict[str, Any] | None = table("device_errors").get(code)
    return row is not None and bool(row["whose"] == "device")


def _and_more(rest: list[ReportedError]) -> Sentence:
    """What is not listed, each code of each device counted once."""
    lines, hardware = sum(each.count for each in rest), sum(_of_hardware(each.code) for each in rest)
    what = "error" if len(rest) == 1 else "errors"
    return say(f"And {len(rest)} more {what} by code and device ({lines} lines), {hardware} of the hardware or driver.")


def _of_device(profile: Profile, log: JobLog, each: ReportedError) -> Sentence:
    count = measure(profile, "reported_error_lines", code=each.code, place=each.place)
    says, whose = _known(each.code)
    text = f"The driver reports {{n0}} of the device at PCI {{n1}} in {{0}}{_after(log, each)}"
    rate = measured(profile, "reported_errors_per_h", code=each.code, place=each.place)
    often, facts = ("", (count,)) if rate is None else (", {1}", (count, rate))
    return say(f"{text}{often}{says}.{whose}", *facts, names=(each.code, each.place))


def _known(code: str) -> tuple[str, str]:
    row: dict[str, Any] | None = table("device_errors").get(code)
    if row is None:
        return ", a code that is not in the table of codes", ""
    return f": {row['says']}", WHOSE[row["whose"]]


def _after(log: JobLog, each: ReportedError) -> str:
    """The last step that the same file prints before the line."""
    steps = log.steps[(log.steps["file"] == each.file) & (log.steps["line"] < each.first_line)]
    return "" if steps.empty else f", first after step {int(steps['step'].iloc[steps['line'].argmax()])}"


@check(
    *("communication.hccl_errors", "Errors of HCCL", "Did HCCL report errors, and which rank was waited for?"),
    from_records="output",
)
def hccl_errors(profile: Profile) -> Check | None:
    """Error codes of HCCL, with the ranks that its lines name as not there."""
    log = profile.run.job_log
    found = [] if log is None else [each for each in log.errors if not each.code.startswith("Xid ")]
    if log is None or not found:
        return None
    ordered = sorted(found, key=lambda each: each.code)
    return symptom(
        *(_of_code(profile, log, code, list(own)) for code, own in groupby(ordered, key=lambda each: each.code))
    )


def _of_code(profile: Profile, log: JobLog, code: str, own: list[ReportedError]) -> Sentence:
    count = measure(profile, "reported_error_lines", code=code)
    first = min(own, key=lambda each: (each.file, each.first_line))
    text = f"HCCL reports {{n0}} in {{0}}{_after(log, first)}{_known(code)[0]}."
    ranks = sorted({rank for each in own for rank in each.remote})
    if code not in WAITS:
        return say(text, count, names=(code,))
    if not ranks:
        waiting = sorted({rank for each in own for rank in each.waiting})
        who = f"{_named(waiting)} waited, by other lines of the same process" if waiting else "Its lines name no rank"
        missing = "the rank that did not arrive is not named: " if waiting else ""
        whose = "the one whose log holds no such error is the first to look at."
        return say(f"{text} {who}{'; ' if waiting else ': '}{missing}{whose}", count, names=(code,))
    why = "an exit, work that takes longer than the time-out, and the network between them look alike here."
    return say(f"{text} {_named(ranks)} of the communicator {NOT_ARRIVED}: {why}", count, names=(code,))


def _named(ranks: list[int]) -> str:
    """Ranks as the beginning of a sentence, the first few of many."""
    shown = ", ".join(map(str, ranks[:SHOWN])) + (f" and {len(ranks) - SHOWN} more" if len(ranks) > SHOWN else "")
    return f"{'Rank' if len(ranks) == 1 else 'Ranks'} {shown}"
