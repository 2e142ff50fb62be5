"""Text that was pasted in place of a run: a log tail, a table of nvidia-smi, a profiler's table, or all in one.

It becomes a folder in the cache, so that its figures can be shown again. What belongs to different readers lies in
files of its own, in which the lines keep their numbers.
"""

from __future__ import annotations

import re
import sys
from hashlib import blake2b
from pathlib import Path

from hermes_agent.locations.places import discard, new_folder, store
from tools.documents import parse_json
from tools.errors import InputError
from tools.run.first_printed import PASTED_LOG, PASTED_TABLES
from tools.sources.known_forms import known_form

MOST_BYTES = 64 << 20
DOCUMENT = "pasted.json"  # a trace or a state of a trainer, which readers know by its content
SHOWN = "pasted text"
HEAD = re.compile(rb"\|\s{0,9}(?:NVIDIA-SMI|npu-smi)\b")  # of a device table in a frame
ROW = re.compile(rb"\s*[|+].*[|+]\s*\Z")
LONGEST_QUESTION = 300
NOTHING = 'nothing was pasted; send text to standard input: hermes-dx ask - "why is it slow?" < job.log'


UNKNOWN = "the pasted text holds nothing that a reader knows"
WANTED = "paste lines with step times, NCCL or watchdog lines, samples of devices, or a profiler's table"
# What a text may hold without any record: words of lines, and what such lines lack.
LACKING = (
    (re.compile(rb"\bNCCL\b"), "of NCCL", "none that names its network, a connection or a warning"),
    (
        # Not the size of a batch: "[batch:256]" in a name, "batch: -1" of a configuration.
        re.compile(
            rb"\b(?:step|iter(?:ation)?|batch_idx)s?\b[^\w-]{0,4}\d|\bbatch\b(?:[\s\[#(]{1,3}\d|[^\w-]{1,4}\d+\s?/)",
            re.I,
        ),
        "with a step",
        "none that states its time in a form that is read (`--log-pattern` describes other forms)",
    ),
    (
        re.compile(rb"\d\s?(?:ms|s|sec|seconds)\b"),
        "with a time",
        "none that names the step which it is of (`--log-pattern` describes other forms)",
    ),
)


def seen(data: bytes) -> str:
    """Return what the text holds of what was hoped for, and what its lines lack, as an end of a sentence; else ""."""
    if form := known_form(data):
        return f" (it looks like {form})"
    lines = data.splitlines()
    for words, what, lack in LACKING:
        count = sum(words.search(line[:LONGEST_QUESTION]) is not None for line in lines)
        if count:
            return f" (it has {count:,} line{'s' * (count != 1)} {what}, but {lack})"
    return ""


def standard_input() -> bytes:
    """Return what was pasted; InputError where that is nothing, or more than anybody pastes."""
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    if not data.strip():
        raise InputError(NOTHING)
    if len(data) > MOST_BYTES:
        raise InputError(f"standard input: more than {MOST_BYTES >> 20} MiB; give the file by its name")
    return data


def question_in(data: bytes) -> str:
    """Return the question that was pasted with the text, as its first or last line; "" where there is none."""
    lines = [line.strip() for line in (data[:LONGEST_QUESTION], data[-LONGEST_QUESTION:])]
    ends = (lines[0].partition(b"\n")[0], lines[1].rpartition(b"\n")[2])
    asked = (each.strip().decode("utf-8", "replace") for each in ends)
    return next((each for each in asked if each.endswith(("?", "？")) and " " in each), "")


def pasted(data: bytes, cache_dir: Path | None, log_pattern: str = "") -> Path:
    """Return the folder with the parts of the text; InputError where no reader knows any of them."""
    from tools.sources.registry import record_formats

    folder, formats = new_folder(cache_dir), record_formats(log_pattern)
    known = False
    try:
        if is_document(data):
            (folder / DOCUMENT).write_bytes(data)
            return store(folder, f"pasted:{blake2b(data).hexdigest()}", SHOWN)
        for name, part in zip((PASTED_LOG, PASTED_TABLES), taken_apart(data), strict=True):
            if not part.strip():
                continue
            (folder / name).write_bytes(part)
            known |= any(each.recognises is not None and each.recognises(folder / name) for each in formats)
        if not known:
            raise InputError(f"{UNKNOWN}{seen(data)}; {WANTED}")
    except BaseException:
        discard(folder)
        raise
    return store(folder, f"pasted:{blake2b(data).hexdigest()}", SHOWN)


def is_document(data: bytes) -> bool:
    """Return whether the text is one JSON document that a reader takes whole, and no lines or records of a log."""
    text = data.strip()
    if not (text.startswith((b"{", b"[")) and text.endswith((b"}", b"]"))):
        return False
    try:
        parsed = parse_json(text)
    except ValueError:
        return False
    records = parsed if isinstance(parsed, list) else [parsed]
    return any(isinstance(value, dict | list) or key == "ph" for each in records for key, value in _members(each))


def _members(record: object) -> list[tuple[str, object]]:
    return list(record.items()) if isinstance(record, dict) else []


def taken_apart(data: bytes) -> tuple[bytes, bytes]:
    """Return the text without the tables of device monitors, and these alone; all lines keep their numbers."""
    if not HEAD.search(data):
        return data, b""
    rest: list[bytes] = []
    tables: list[bytes] = []
    framed: list[bytes] = []  # rows of a frame that may turn out to be such a table
    for line in (*data.split(b"\n"), b"end"):
        if ROW.match(line) or (framed and not line.strip()):  # an empty line parts the devices from the processes
            framed.append(line)
            continue
        blank = [b""] * len(framed)
        of_device = any(HEAD.search(row) for row in framed)
        rest += blank if of_device else framed
        tables += framed if of_device else blank
        framed = []
        rest.append(line)
        tables.append(b"")
    return b"\n".join(rest[:-1]), b"\n".join(tables[:-1])
