"""What a watchdog, the flight recorder's analysis and NCCL RAS write as text of ranks that differ in a collective.

Forms: the desync report of PyTorch's ProcessGroupNCCL ("[7] finished collective #9, but didn't join collective #10");
``torchfrtrace`` (torch/distributed/flight_recorder: "collective: nccl:all_reduce", "error msg: Culprit rank 22; Error
type: ..., Expected input sizes: ... does not match found input sizes: ..."); ``ncclras`` without ``-f json`` (NCCL User
Guide, "RAS"): "30 ranks have launched up to operation 640", the ranks of the smaller group below it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.run.recorded.job_log import CollectiveReport
from tools.sources.job_log.tables import Action

HOROVOD = "a collective of Horovod"
MOST_REPORTS, MOST_RANKS = 1024, 1024
NOT_JOINED = re.compile(r"\[([\d, ]{1,2000})\] finished collective #(\d{1,15}), but didn't join collective #(\d{1,15})")
STARTED = re.compile(r"\s*\[([\d, ]{1,4000})\] (started|finished) (\w{1,40})\s*\Z")
NUMBERED = re.compile(r"#(\d{1,15}) (?:started|finished) ranks:\s*\Z")
COLLECTIVE = re.compile(r"\bcollective: (?:nccl:)?(\w{1,40})\s*\Z")
ENTRY = re.compile(r"\bCollective (\d{1,15}) at entry \d{1,15} errors\b")
CULPRIT = re.compile(
    r"[Cc]ulprit rank (\d{1,7}); Error type: (\w{1,60})(?:, Expected (\w{1,20} \w{1,20}): '(.{1,80}?)' does not match"
    r" found \w{1,20} \w{1,20}: '(.{1,80}?)')?"
)
MISSING = re.compile(r"\b[Mm]issing ranks: \{([\d, ]{1,4000})\}")
COUNTS = re.compile(r"[Cc]ommunicator ranks have different (\w{1,40}) operation counts")
LAUNCHED = re.compile(r"(\d{1,7}) ranks? (?:have|has) launched up to operation (\d{1,15})")
RAS_RANK = re.compile(r"\s*Rank (\d{1,7}) -- GPU \d{1,4} managed by process \d{1,9} on node (\S{1,80})")
# One of these is in every line that the patterns above find.
MARKS = (
    *("ollective", " started", " finished", "ulprit rank", "issing ranks"),
    *("operation counts", "launched up to", "managed by process"),
)


@dataclass
class CollectiveReports:
    """Collects them, line by line."""

    file: int
    found: list[CollectiveReport] = field(default_factory=list)
    _operation: str = ""  # of the flight recorder's entry, or of the counts of NCCL RAS
    _number: str = ""
    _entry: str = ""  # the collective's number in the flight recorder's analysis
    _counted: list[tuple[int, int, list[int], int]] = field(default_factory=list)  # ranks, operation, named, line

    def take(self, line: int, text: str) -> bool:
        """Whether the line belongs to such a report."""
        if not any(mark in text for mark in MARKS):
            return False
        return self._of_ras(line, text) or self._of_watchdog(line, text) or self._of_flight_recorder(line, text)

    def _of_ras(self, line: int, text: str) -> bool:
        if counts := COUNTS.search(text):
            self.close()
            self._operation = counts[1]
        elif (launched := LAUNCHED.search(text)) and self._operation:
            self._counted.append((int(launched[1]), int(launched[2]), [], line))
        elif self._counted and (rank := RAS_RANK.match(text)):
            self._counted[-1][2].append(int(rank[1]))
        else:
            return False
        return True

    def _of_watchdog(self, line: int, text: str) -> bool:
        if lagging := NOT_JOINED.search(text):
            self._add("not_joined", _ranks(lagging[1]), line, number=lagging[3], reached=lagging[2])
        elif numbered := NUMBERED.search(text):
            self._number = numbered[1]
        elif state := STARTED.match(text):
            if state[2] == "started":
                self._add("started", _ranks(state[1]), line, operation=state[3], number=self._number)
        else:
            return False
        return True

    def _of_flight_recorder(self, line: int, text: str) -> bool:
        if entry := ENTRY.search(text):
            self._entry = entry[1]
        elif operation := COLLECTIVE.search(text):
            self._operation = operation[1]
        elif missing := MISSING.search(text):
            self._add("not_joined", _ranks(missing[1]), line, operation=self._operation)
        elif "ulprit rank" in text:
            for each in CULPRIT.finditer(text):
                ranks, differing = (int(each[1]),), each[5] or each[2]
                self._add(
                    "mismatch", ranks, line, self._operation, self._entry, wanted=each[4] or "", differing=differing
                )
        else:
            return False
        return True

    def missing(self, rank: int, line: int) -> None:
        """A rank that Horovod waits for, each once."""
        if not any(each.kind == "not_joined" and each.ranks == (rank,) for each in self.found):
            self._add("not_joined", (rank,), line, operation=HOROVOD)

    def close(self) -> None:
        """End the counts of NCCL RAS: the ranks that launched fewest are behind, the others ahead."""
        if len(self._counted) > 1:
            least = min(each[1] for each in self._counted)
            for count, operation, named, line in self._counted:
                kind = "behind" if operation == least else "ahead"
                self._add(kind, tuple(named), line, self._operation, str(operation), count=count)
        self._counted = []

    def _add(
        self,
        kind: str,
        ranks: tuple[int, ...],
        line: int,
        operation: str = "",
        number: str = "",
        **said: str | int,
    ) -> None:
        if len(self.found) < MOST_REPORTS:
            count = int(said.get("count", len(ranks)))
            texts = {name: str(said.get(name, "")) for name in ("reached", "wanted", "differing")}
            self.found.append(CollectiveReport(kind, ranks, count, operation, number, line, self.file, **texts))


STALLED = re.compile(r"waiting for (?:the )?remainder of ranks for more than \d")
MISSING_HEAD = re.compile(r"(?:\A|\s)[Mm]issing ranks:\s*\Z")
MISSING_ROW = re.compile(r"\s*(\d{1,7}): ?\[")


@dataclass
class MissingRanks:
    """The rows below ``Missing ranks:`` of Horovod's stall inspector: ``1: [allreduce.conv1.weight, ..]``."""

    reports: CollectiveReports
    rows: list[Action] = field(default_factory=list)  # none: what is read goes to the reports

    def take(self, number_of_line: int, text: str) -> bool:
        """Read a row; False where the list has ended."""
        if MISSING_HEAD.search(text):
            return True
        row = MISSING_ROW.match(text)
        if row is not None:
            self.reports.missing(int(row[1]), number_of_line)
        return row is not None


def _ranks(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d{1,7}", text)[:MOST_RANKS])


def reports(text: str) -> bool:
    """Whether the line alone is of such a report, so that a file with it is output of a job."""
    return any(each.search(text) is not None for each in (NOT_JOINED, CULPRIT, LAUNCHED, STALLED))
