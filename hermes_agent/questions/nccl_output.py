"""Answers from what NCCL and nccl-tests wrote into the job's output: version, transports, hosts, bandwidth by size."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hermes_agent.evidence.ledger import quoted
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, listed, paragraph
from hermes_agent.questions.reading.question import Question
from tools.errors import UsageError
from tools.run.recorded.job_log import Cited, JobLog, NcclFacts

KIB = 1024
UNITS = {"k": KIB, "m": KIB**2, "g": KIB**3}
# "64 MB" is a power of two in nccl-tests, which counts so itself.
SIZE = re.compile(r"\b(?P<number>\d{1,6}) ?(?P<unit>[kmg])i?b?\b(?! ?(?:s|sec|second)\b)")
VERSION = re.compile(r"\b(nccl|rccl)\b.*\bversions?\b|\bversions? of (nccl|rccl)\b")
TRANSPORT = re.compile(
    r"\b(infiniband|ib|sockets?|tcp|roce|ethernet|rdma|gpu ?direct\w*|gdr|transports?|(network )?interfaces?|nics?)\b"
)
# What asks for advice, a cause or a figure is answered otherwise.
OTHERWISE = re.compile(
    r"\b(why|should|would|could|faster|slow\w*|better|if|retrans\w*|loss|lost|errors?|how (much|many|long|fast))\b"
)
HOSTS = re.compile(r"\bhow many\b.*\b(nodes|hosts|machines|servers)\b")
TESTED = re.compile(
    r"\b((bus|alg\w*) ?(bw|bandwidth)|bandwidths?|busbw|algbw|nccl tests?|latenc\w*|how (long|fast)|times?|messages?"
    r"|in ?place|(peak|max\w*|best|highest|top) (bus|alg)\w*)\b"
)
PLACES = re.compile(r"\b(in|out of) ?place\b")
EXTREME = re.compile(r"\b(peak|max\w*|best|highest|top|average|avg|mean)\b")
TIMED = re.compile(r"\b(latenc\w*|how long|times?|takes?)\b")
ALGORITHM = re.compile(r"\balg\w*")
LISTED = 4


def of_nccl(discussion: Discussion, question: Question) -> str | None:
    """The answer from NCCL's own output and the tables of nccl-tests; None where these do not hold what is asked."""
    words = question.words
    if not any(each.search(words) for each in (VERSION, TRANSPORT, HOSTS, TESTED)):
        return None
    log = discussion.profile().run.job_log
    if log is None:
        return None
    if not log.comm_tests.empty and TESTED.search(words) and not re.search(r"\bwhy\b", words):
        return _tested(discussion, log, question)
    if VERSION.search(words) and log.nccl.version is not None:
        return f"NCCL's own output names its version: {_named((log.nccl.version,), log)}."
    if HOSTS.search(words) and log.nccl.hosts:
        count = len(log.nccl.hosts)
        shown = listed([quoted(each) for each in log.nccl.hosts[:LISTED]])
        more = f" and {count - LISTED} more" if count > LISTED else ""
        return f"NCCL's own output names {count} host{'s' * (count != 1)}: {shown}{more}."
    if TRANSPORT.search(words) and not OTHERWISE.search(words):
        return _transports(discussion, log)
    return None


def _named(facts: Iterable[Cited], log: JobLog) -> str:
    """Texts of the log with their lines, the first few."""
    return listed([f"{quoted(each.value)} (line {each.line} of {quoted(log.files[each.file])})" for each in facts])


def _transports(discussion: Discussion, log: JobLog) -> str | None:
    """The network that NCCL chose, the connections by transport, and whether GPUDirect RDMA is used."""
    nccl = log.nccl
    kinds = list(dict.fromkeys(name for each in nccl.connected for name in each.transports))
    if not kinds and not nccl.network:
        return _tried(log)
    counted = [discussion.measured("nccl_connections", transport=kind) for kind in kinds]
    rows = [
        discussion.say("{n0}: {0}", fact, names=(kind,))
        for kind, fact in zip(kinds, counted, strict=True)
        if fact is not None
    ]
    chosen = f"NCCL's own output names the network it uses: {_named(nccl.network, log)}." if nccl.network else ""
    return blocks(
        [
            paragraph([chosen, _gpu_direct(nccl, kinds, log)]),
            "Connections by transport:\n" + bullets(rows) if rows else "",
        ]
    )


NO_ADAPTER = re.compile(r"NET/IB ?: No device found|libibverbs")


def _tried(log: JobLog) -> str | None:
    """Of an output that ends before NCCL names its network: that it found no adapter of InfiniBand; else None."""
    tried = [each for each in log.nccl.fallbacks if NO_ADAPTER.search(each.value)]
    if not tried:
        return None
    return (
        f"No, by the lines there are: NCCL reports {_named(tried[:1], log)}, so that it goes over TCP sockets between "
        "hosts, unless a plug-in of another network follows. Which network it chose is not in the lines."
    )


def _gpu_direct(nccl: NcclFacts, kinds: list[str], log: JobLog) -> str:
    if any("GDRDMA" in kind for kind in kinds):
        return "Connections over GPUDirect RDMA are among those below."
    if nccl.gpu_direct_off:
        return f"GPUDirect RDMA is disabled for {_named(nccl.gpu_direct_off[:LISTED], log)}."
    return "None of its connections uses GPUDirect RDMA." if any(kind.startswith("NET") for kind in kinds) else ""


def _tested(discussion: Discussion, log: JobLog, question: Question) -> str | None:
    """The figures of nccl-tests that are asked for: of one size, the mean and the most, or of both placements."""
    words = question.words
    if size := SIZE.search(words):
        return _of_size(discussion, log, int(size["number"]) * UNITS[size["unit"]], words)
    if PLACES.search(words):
        return _placements(discussion, log)
    if EXTREME.search(words) or re.search(r"\b(bus|alg)\w* ?(bw|bandwidth)\b", words):
        text = "In nccl-tests the bus bandwidth is {library_bandwidth:statistic=mean} on average over the sizes and "
        return discussion.say(text + "{library_bandwidth:statistic=max} at most.")
    return None


def _of_size(discussion: Discussion, log: JobLog, size: int, words: str) -> str:
    """Bandwidth and time of the rows of one size; UsageError with the sizes there are."""
    if not (log.comm_tests["size_bytes"] == size).any():
        known = sorted(set(log.comm_tests["size_bytes"].tolist()))
        raise UsageError(f"nccl-tests ran with sizes of {known[0]} to {known[-1]} bytes, not with {size} bytes")
    figure = "alg" if ALGORITHM.search(words) else "bus"
    rows = []
    for place, name in ((0, "out of place"), (1, "in place")):
        rate = discussion.measured("library_bandwidth_at", size_bytes=size, figure=figure, in_place=place)
        time = discussion.measured("library_time_ms", size_bytes=size, in_place=place)
        if rate is not None and time is not None:
            bandwidth = f"{'algorithm' if figure == 'alg' else 'bus'} bandwidth {{0}}"
            shown = f"time {{1}}, {bandwidth}" if TIMED.search(words) else f"{bandwidth}, time {{1}}"
            rows.append(discussion.say(f"{name.capitalize()}: {shown}.", rate, time))
    return f"In nccl-tests at {size} bytes:\n{bullets(rows)}"


def _placements(discussion: Discussion, log: JobLog) -> str:
    """The bus bandwidth of the largest size out of place and in place."""
    return _of_size(discussion, log, int(log.comm_tests["size_bytes"].max()), "")
