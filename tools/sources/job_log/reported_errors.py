"""Errors that drivers report in a log: Xid lines of NVIDIA's kernel driver (dmesg), error codes of HCCL.

Forms: "NVRM: Xid (PCI:0000:3b:00): 79, pid=12, ..." (NVIDIA, Xid Errors); "EI0002: ... has not received the Notify
record from remote rank [4]", the table of links of EI0006 and the agents of EI0015 (Huawei, HCCL user guide).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tools.run.recorded.job_log import RepeatedLine, ReportedError

XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]{4,20})\): (\d{1,4})\b")
HCCL = re.compile(r"\b(EI00(?:0[1-9]|1\d)|EJ000[1-9])\b ?: ?(.{0,600})")
REMOTE = re.compile(r"remote rank ?:? ?\[(\d{1,7})\]", re.IGNORECASE)
# Of the table of links: destination (its rank) | port | source (its rank) | port | role | status.
LINK = re.compile(
    r"\| [^|]{1,60}\((\d{1,7})\) *\|[^|]{1,20}\| [^|]{1,60}\((\d{1,7})\) *\|[^|]{1,20}\|[^|]{1,20}\| *time ?out"
)
AGENTS = re.compile(r"Failed to connect agent\[((?:\d{1,7},?){1,1000})\]")
# What torch_npu writes before its own errors, and the process that HCCL names behind the code.
PROCESS_RANK = re.compile(r"\(PID: ?(\d{1,10}), Device: ?-?\d{1,4}, RankID: ?(\d{1,7})\)")
PROCESS = re.compile(r"\A\[PID: ?(\d{1,10})\]")
OF_SEVERAL = -1  # ranks: containers number their processes for themselves
LINK_CODE, AGENT_CODE = "EI0006", "EI0015"
MOST_ERRORS, MOST_REMOTE = 4096, 1024


# Before lines of dmesg: seconds since the start of the machine, or with -T the date.
KERNEL_S = re.compile(r"\[\s{0,9}(\d{1,10}\.\d{6})\]")
KERNEL_DATE = re.compile(r"\[\w{3} (\w{3} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})\]")


def _kernel_s(text: str) -> float | None:
    """The time that the kernel's log writes before a line; None without one."""
    if found := KERNEL_S.search(text):
        return float(found[1])
    if not (found := KERNEL_DATE.search(text)):
        return None
    try:
        return datetime.strptime(found[1], "%b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


@dataclass
class ReportedErrors:
    """Counts them by code, device and the ranks that a line names, instead of repeating the lines."""

    file: int
    found: dict[tuple[str, str, tuple[int, ...]], ReportedError] = field(default_factory=dict)
    _at_s: float | None = None
    _ranks: dict[str, int] = field(default_factory=dict)  # by process
    _processes: dict[tuple[str, str, tuple[int, ...]], set[str]] = field(default_factory=dict)  # that report an error
    left_out: int = 0  # lines with further errors than the first ``MOST_ERRORS``

    def take(self, line: int, text: str, at_s: float | None = None) -> bool:
        """Whether the line, written at ``at_s`` of the log's clock, reports an error."""
        self._at_s = at_s
        if "RankID:" in text and (own := PROCESS_RANK.search(text)) and len(self._ranks) < MOST_REMOTE:
            rank = int(own[2])
            self._ranks[own[1]] = rank if self._ranks.get(own[1], rank) == rank else OF_SEVERAL
        if "Xid" in text and (match := XID.search(text)):
            self._at_s = _kernel_s(text) if at_s is None else at_s
            self._add(f"Xid {match[2]}", match[1].lower(), (), line)
        elif "EI00" in text or "EJ00" in text:
            coded = HCCL.search(text)
            if coded is None:
                return False
            remote = tuple(sorted({int(rank) for rank in REMOTE.findall(coded[2])}))
            self._add(coded[1], "", remote, line)
            if process := PROCESS.match(coded[2]):
                self._processes.setdefault((coded[1], "", remote), set()).add(process[1])
        elif "ime" in text and "|" in text and (link := LINK.search(text)):
            self._add(LINK_CODE, "", (int(link[1]),), line)
        elif "Failed to connect agent" in text and (agents := AGENTS.search(text)):
            absent = sorted({int(rank) for rank in agents[1].split(",") if rank})
            self._add(AGENT_CODE, "", tuple(absent[:MOST_REMOTE]), line)
        else:
            return False
        return True

    def _add(self, code: str, place: str, remote: tuple[int, ...], line: int) -> None:
        key = (code, place, remote)
        known = self.found.get(key)
        if known is not None and known.times is not None:
            times = known.times.again(line, self._at_s)
            self.found[key] = replace(known, count=known.count + 1, last_line=line, times=times)
        elif len(self.found) < MOST_ERRORS:
            times = RepeatedLine(code, 0, line, line, self.file).again(line, self._at_s)
            self.found[key] = ReportedError(code, place, remote, 1, line, line, self.file, times)
        else:
            self.left_out += 1

    def reported(self) -> tuple[ReportedError, ...]:
        """Every error, with the ranks that wrote it as far as lines of the same process name these."""
        own = {
            key: tuple(
                sorted({self._ranks[each] for each in processes if self._ranks.get(each, OF_SEVERAL) != OF_SEVERAL})
            )
            for key, processes in self._processes.items()
        }
        return tuple(replace(each, waiting=own.get(key, ())) for key, each in self.found.items())

    @property
    def notes(self) -> list[str]:
        """What was not counted."""
        if not self.left_out:
            return []
        what = f"the first {MOST_ERRORS:,} errors by code, device and rank are counted"
        return [f"{what}; {self.left_out:,} lines with further ones are not"]
