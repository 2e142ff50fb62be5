"""Texts that people paste or leave beside a run and that no reader takes: what each is, and what to record instead."""

from __future__ import annotations

import re

QUERY = "`nvidia-smi --query-gpu=timestamp,index,utilization.gpu,clocks.sm,power.draw --format=csv -lms 500`"
# By lines that no other text has.
FORMS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"^:::MLLOG \{", re.M), "MLPerf's log, which is not read; give the step lines of the program"),
    (
        re.compile(rb"^\s*Section: (?:GPU Speed Of Light|Launch Statistics|Occupancy)", re.M),
        "a report of Nsight Compute on single kernels; record the run with torch.profiler or Nsight Systems",
    ),
    (
        re.compile(rb"^Architecture:\s.*\n(?:.*\n){0,6}?CPU\(s\):", re.M),
        "the output of lscpu; give `pidstat -u 1` while it trains",
    ),
    (
        re.compile(rb"^available: \d+ nodes? \(", re.M),
        "the output of numactl -H; give `numastat -p PID` and the times of steps",
    ),
    (
        re.compile(rb"^(?:core file size|max locked memory)\s+\(", re.M),
        "the output of ulimit -a; give the output of the job",
    ),
    (
        re.compile(rb"Slurm Job Statistics|^\s*GPU utilization\s+\[\|*\s+\d+%\]", re.M),
        f"means over a whole job; sample the devices with {QUERY}",
    ),
    (re.compile(rb"^\s*\d+\s*\[\|*\s*\d+\.\d%\]", re.M), "bars of htop; give `top -b -n 2` or `pidstat -u 1`"),
    (re.compile(rb"\bPID\s+kB_rd/s\s+kB_wr/s"), "the output of pidstat -d; give `iostat -x 1` and `pidstat -u 1`"),
    (
        re.compile(rb"^\s*(?:Max )?Clocks\s*\n\s*Graphics\s*:", re.M),
        f"a part of `nvidia-smi -q` without its head; give all of it, or {QUERY}",
    ),
)


def known_form(data: bytes) -> str:
    """What the text is and what to record instead; "" where it is of no known form."""
    return next((what for pattern, what in FORMS if pattern.search(data)), "")
