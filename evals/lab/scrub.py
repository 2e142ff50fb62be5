"""Make a recorded run fit to be given away: no host, no path, no user; the same bytes for the same run."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes_agent.monitor.layout import PREAMBLE

PRIVATE_KEYS = frozenset({"host_name", "traceName", "trace_id"})
# The profiler's own count of events, by which nothing joins, and arguments of operators that no question reads: a sixth
# of a trace. External ids join operators with work of a device.
LEFT_OUT = ("Ev Idx", "Record function id", "Concrete Inputs", "Input Strides")
JOINS_DEVICE = "External id"
GZIP = b"\x1f\x8b"
PACKED_KINDS = frozenset({".jsonl", ".steps"})
REPOSITORY = Path(__file__).resolve().parents[2]
LIBRARIES = re.compile(r"/[^\s\"'(;]*/(?:site-packages|lib/python3\.\d+)/")


def scrub_trace(recorded: Path, target: Path) -> None:
    """Write the Kineto trace ``recorded`` (JSON, also gzipped) as gzip without what names the machine.

    Every event is kept; ``recorded`` and ``target`` may be the same file.
    """
    content = recorded.read_bytes()
    trace: dict[str, Any] = json.loads(gzip.decompress(content) if content.startswith(GZIP) else content)
    kept = {key: value for key, value in trace.items() if key not in PRIVATE_KEYS}
    left_out = LEFT_OUT if kept.get("deviceProperties") else (*LEFT_OUT, JOINS_DEVICE)
    for event in kept["traceEvents"]:
        for key in left_out:
            event.get("args", {}).pop(key, None)
    text = without_paths(json.dumps(kept, separators=(",", ":")))
    target.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def scrub_steps(recorded: Sequence[Path], folder: Path) -> None:
    """Write the monitor's step files to ``folder``, machines named host0, host1 and on, and no place of a ring."""
    hosts: dict[str, str] = {}
    for file in sorted(recorded):
        content = file.read_bytes()
        magic, length = PREAMBLE.unpack_from(content)
        end = PREAMBLE.size + length
        head = json.loads(content[PREAMBLE.size : end])
        head |= {"host": hosts.setdefault(head["host"], f"host{len(hosts)}"), "ring": ""}
        text = json.dumps(head).encode()
        write_packed(folder / file.name, PREAMBLE.pack(magic, len(text)) + text + content[end:])


def write_packed(path: Path, content: bytes) -> None:
    """Write what grows with the steps as gzip, under its name and ``.gz``; the rest as it is, for people to read."""
    if path.suffix in PACKED_KINDS:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content, compresslevel=9, mtime=0))
    else:
        path.write_bytes(content)


def without_paths(text: str) -> str:
    """The text with paths of libraries and of this repository cut to what follows their root."""
    for root in (f"{REPOSITORY}/", f"{sys.prefix}/", f"{sys.base_prefix}/"):
        text = text.replace(root, "")
    return LIBRARIES.sub("", text)
