"""What a file is that is no trace of events but comes from a profiler: known by its first bytes."""

from __future__ import annotations

import re

# What begins a file: what it is, and what to give instead.
KNOWN: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (
        re.compile(rb'\s*\{[^\[]{0,400}"schema"\s*:\s*"[^"]{1,40}"[^\[]{0,400}"nodes"\s*:\s*\['),
        "is an execution trace of PyTorch (ExecutionTraceObserver): operators and what they depend on, without times",
        "give the profiler's trace of the same steps (`hermes-dx replay` reads Chakra's .et files)",
    ),
    (
        re.compile(rb'\s*\{\s*"workload_graph"\s*:'),
        "is a Chakra graph as JSON (`workload_graph`), which is no recording of a run",
        "`hermes-dx replay FILE.et` replays Chakra's own form of it",
    ),
    (
        re.compile(rb"[\x01-\xff]{1,3}(?=\x12)[\x00-\xff]{0,4}\n[\x00-\x20]schema\xea\x01"),
        "is a Chakra execution trace, a graph of operators and not a recording on a time axis",
        "`hermes-dx replay FILE.et` replays it",
    ),
    (
        re.compile(rb'\s*\[?\s*\{\s*"cols"\s*:\s*\['),
        "is a table that a TensorBoard profile tool shows on its page, not a recording",
        "give the XProf recording (.xplane.pb) that it was made from",
    ),
    (
        re.compile(rb'\s*\{\s*"(?:byCategory|byProgram|hloModule|hloInfoMap|podStatsSequence)"\s*:'),
        "is the data of a page of TensorBoard's profile plugin, not a recording",
        "give the XProf recording (.xplane.pb) that it was made from",
    ),
    (
        re.compile(rb'\s*\{\s*"(?:FLOPs|total_time|fp_start|op_info|sampling_interval)"\s*:'),
        "is a summary of MindSpore's profiler without a time axis",
        "give the timeline next to it",
    ),
)


def known_as(start: bytes) -> tuple[str, str] | None:
    """What the file is and what to do instead; None where it is none of these."""
    return next(((what, instead) for begins, what, instead in KNOWN if begins.match(start)), None)
