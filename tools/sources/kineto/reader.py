"""One Chrome trace as the PyTorch profiler (Kineto) writes it, in any of its versions, with its metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.documents import DepthError, parse_json
from tools.errors import InputError
from tools.run.model import COUNTER_RANGES, Device
from tools.sources.ascend.folder import read_folder
from tools.sources.ascend.processes import is_ascend
from tools.sources.decompress import GZIP_MAGIC, Readable, beginning
from tools.sources.kineto.collect import Collected, NeedsCareError, Walk
from tools.sources.kineto.decode import parse_lenient
from tools.sources.kineto.other_formats import known_as
from tools.sources.kineto.parallel_decode import read_shared
from tools.sources.kineto.source import KINETO
from tools.sources.kineto.table import Assembled, assemble
from tools.sources.options import LoadOptions
from tools.sources.trace_file import TraceFacts, TraceFile, TraceMetadata
from tools.sources.unread import NEARLY, looks_like

GIVE = "give a Kineto .json or .json.gz, an Ascend folder, an Nsight .sqlite export or the job's output"
OR_LINES = (
    r"step lines of another form are read with --log-pattern, as in 'step (?P<step>\d+) .*took (?P<time_s>[\d.]+)'"
)
# Where an archive has its mark: tar behind the name, owner and check sum of its first file.
ARCHIVES = ((0, b"PK\x03\x04", "zip"), (257, b"ustar", "tar"), (0, b"7z\xbc\xaf", "7z"), (0, b"(\xb5/\xfd", "zstd"))
PRINTABLE_SHARE = 0.99  # of the first characters: then it is text and no damaged trace
JSON_BEGINS = re.compile(r'\{\s*["}]|\[\s*[\[{"\]]|"')  # "[" and "{" alone begin lines of logs too
OTHER_BYTES = 4096  # of a file of another profiler, which show what it is
BOM = b"\xef\xbb\xbf"
SYNTAX_BYTES = 1 << 20  # of a file that holds no event: so far is looked for what makes it no JSON
SHORT_VALUE = 200  # characters that are read of a metadata value
PLAIN_KEYS_LIMIT = 64


def interpret(members: Mapping[str, Any]) -> TraceMetadata:
    """Pick out what is of use."""
    job = _structured(members.get("distributedInfo"))
    job = job if isinstance(job, dict) else {}
    return TraceMetadata(
        rank=_count(job.get("rank")),
        world_size=_count(job.get("world_size")),
        backend=job["backend"] if isinstance(job.get("backend"), str) else None,
        groups=tuple(_objects(job.get("pg_config"))),
        devices=tuple(_device(index, item) for index, item in enumerate(_objects(members.get("deviceProperties")))),
        base_ns=_count(members.get("baseTimeNanoseconds")),
        plain=_plain(members, job),
    )


def _objects(value: object) -> list[dict[str, Any]]:
    value = _structured(value)
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]


def _structured(value: object) -> object:
    """Some versions write structured values as text."""
    if not isinstance(value, str):
        return value
    for text in (value, f"[{value}]"):
        try:
            return parse_lenient(text)
        except ValueError:
            continue
    return None


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        number = int(value)
    except ValueError:
        return None
    return number if 0 <= number < 2**62 else None


def _device(position: int, item: Mapping[str, Any]) -> Device:
    index = _count(item.get("id"))
    major, minor = _count(item.get("computeMajor")), _count(item.get("computeMinor"))
    return Device(
        index=position if index is None else index,
        name=str(item.get("name", ""))[:SHORT_VALUE],
        memory_bytes=_count(item.get("totalGlobalMem")),
        compute_capability=None if major is None or minor is None else f"{major}.{minor}",
        multiprocessors=_count(item.get("numSms")),
    )


def _plain(members: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, str]:
    """Short scalar values, such as with_stack, record_shapes, profile_memory and versions."""
    scalars = {
        key: str(value)[:SHORT_VALUE]
        for source in (members, job)
        for key, value in source.items()
        if isinstance(value, str | int | float) and key not in ("rank", "deviceProperties", "distributedInfo")
    }
    return dict(list(scalars.items())[:PLAIN_KEYS_LIMIT])


USUAL_RATIO = 16  # of expanded to compressed bytes
MOST_SHARERS = 4  # every one of them expands the whole file
EPOCH_US = (10**15, 4 * 10**15)  # 2001 to 2096: times in this range count from 1970


def read_trace(
    path: Readable, digest: str, options: LoadOptions, heard: Callable[[int, int], None] | None = None
) -> TraceFile:
    """Read one file, with ``options.workers`` processes; raises ``InputError`` when nothing in it can be used."""
    collected = _collect(path, options, heard)
    _refuse_useless(path, collected)
    assembled = assemble(collected.columns, options.limits.span_days)
    if not len(assembled.table):
        raise InputError(f"{path}: holds no training run: none of its events has a usable time")
    place = path if isinstance(path, Path) else Path(path.name)
    ascend = isinstance(path, Path) and is_ascend(collected.columns)
    metadata = read_folder(place) if ascend else interpret(collected.members)
    if assembled.unsure and not metadata.devices:
        unsure = (Device(at, name[:SHORT_VALUE], possible=True) for at, name in enumerate(assembled.unsure))
        metadata = replace(metadata, devices=tuple(unsure))
    if ranges := collected.columns.counter_ranges:
        metadata = replace(metadata, plain={**metadata.plain, COUNTER_RANGES: str(ranges)})
    return TraceFile(place, digest, assembled.table, _facts(collected, assembled, metadata))


def _collect(path: Readable, options: LoadOptions, heard: Callable[[int, int], None] | None) -> Collected:
    workers = options.worker_count()
    if workers > 1 and isinstance(path, Path) and _is_large(path, options.alone_bytes):
        try:
            return read_shared(path, options.limits, min(workers, MOST_SHARERS), heard)
        except NeedsCareError:
            pass  # the file is damaged or unusual: read it from the start in the slower, forgiving way
    return Walk(path, options.limits).run(heard)


def _is_large(path: Path, alone_bytes: int) -> bool:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return size > alone_bytes * (1 if file.read(2) == GZIP_MAGIC else USUAL_RATIO)
    except OSError:
        return False


def _facts(collected: Collected, assembled: Assembled, metadata: TraceMetadata) -> TraceFacts:
    origin_ns, epoch = assembled.origin_ns, EPOCH_US[0] <= assembled.origin_ns // 1000 < EPOCH_US[1]
    if metadata.base_ns is not None and not epoch:
        origin_ns, epoch = origin_ns + metadata.base_ns, True
    return TraceFacts(
        format=KINETO.name,
        origin_ns=origin_ns,
        epoch=epoch,
        metadata=metadata,
        status="partial" if collected.damage or collected.cut else "complete",
        note=_note(collected, assembled),
        bytes=collected.file_bytes,
        events=collected.columns.seen,
        groups=assembled.groups,
        cut=collected.cut,
        damaged_within=collected.damaged_within,
        text_bytes=collected.expanded_bytes,
    )


W_AND_B = "give the run's `.wandb` file, which holds the history and the samples, or its `output.log`"
OTHER_JSON = (
    (
        b'"_runtime"',
        f"is the summary of a W&B run, the last value of each metric, and holds no times of steps; {W_AND_B}",
    ),
    (b'"codePath"', f"describes the host and the program of a W&B run, and holds no times of steps; {W_AND_B}"),
)


def _what_it_is(start: bytes, reason: str) -> str:
    """What a JSON object without events is, and what to give instead."""
    other = next((words for key, words in OTHER_JSON if key in start), None)
    return other or f"is no profiler trace: it has no traceEvents{reason}; {GIVE}"


def _refuse_useless(path: Readable, collected: Collected) -> None:
    if not collected.file_bytes:
        raise InputError(f"{path}: is empty; the profiler may not have finished writing it")
    if collected.columns.spans:
        return
    first = beginning(path, SYNTAX_BYTES)
    if (packed := next((kind for at, magic, kind in ARCHIVES if first.data[at:].startswith(magic)), None)) is not None:
        raise InputError(f"{path}: is a {packed} archive; unpack it and give the folder or a file of it")
    if (other := known_as(bytes(first.data[:OTHER_BYTES]))) is not None:
        raise InputError(f"{path}: {other[0]}; {other[1]}")
    if isinstance(path, Path) and (near := looks_like(path)).startswith(NEARLY):
        raise InputError(f"{path}: {near}")
    if collected.shape != "object" and not _named_json(path) and _is_prose(bytes(first.data)):
        what = "no line of it is known as a step with its time, NCCL's set-up or a row of a table"
        raise InputError(f"{path}: is no profiler trace, and {what}; {GIVE}; {OR_LINES}")
    if collected.shape != "object" and (fault := _syntax_fault(bytes(beginning(path, SYNTAX_BYTES).data))):
        raise InputError(f"{path}: is no profiler trace: it is not JSON ({fault}); {GIVE}")
    if collected.shape == "none":
        reason = f" ({collected.damage})" if collected.damage else ""
        raise InputError(f"{path}: {_what_it_is(bytes(first.data), reason)}")
    if collected.damage:
        raise InputError(f"{path}: nothing in it can be read: {collected.damage}; copy the file again")
    raise InputError(f"{path}: holds no training run: it records no event with a duration; profile some steps")


def _named_json(path: Readable) -> bool:
    return str(path).removesuffix(".gz").endswith(".json")


def _is_prose(data: bytes) -> bool:
    """Whether it is text that does not begin as JSON does, or holds a value on each line."""
    text = data.removeprefix(BOM).decode("utf-8", "replace").strip()
    shown = sum(each.isprintable() or each.isspace() for each in text)
    if not text or shown < PRINTABLE_SHARE * len(text):
        return False
    return JSON_BEGINS.match(text) is None or _syntax_fault(data).startswith("extra data")


def _syntax_fault(text: bytes) -> str:
    """Return what makes a text no JSON and at which byte; "" where it is JSON, or merely cut off."""
    text = b" " * len(BOM) + text.removeprefix(BOM) if text.startswith(BOM) else text
    try:
        parse_json(text.decode("latin-1"), strict=False)  # one character per byte
    except json.JSONDecodeError as error:
        if error.pos < len(text.rstrip()) and not error.msg.startswith("Unterminated"):
            return f"{error.msg[0].lower()}{error.msg[1:]} at byte {error.pos}"
    except DepthError:
        pass
    return ""


ALL_READ_PCT = 99.0  # of a damaged file: then it is not the rest of the file that is missing, but what never got there


def _note(collected: Collected, assembled: Assembled) -> str:
    parts = []
    if collected.damage:
        share = 100.0 * collected.read_bytes / max(collected.file_bytes, 1)
        rest = f"that is {share:.0f} % of the file, the rest could not be read"
        if share > ALL_READ_PCT:
            rest = "how much was cut off is not known"
        parts.append(
            f"{collected.damage}: {collected.columns.seen} events were read from "
            f"{collected.expanded_bytes} bytes of text; {rest}"
        )
    for reason, count in sorted(assembled.excluded.items()):
        if count:
            parts.append(f"{count} events {reason} were left out" if count > 1 else f"1 event {reason} was left out")
    for name in assembled.unsure:
        parts.append(
            f"process '{name[:SHORT_VALUE]}' may be a device: its work is not counted, as nothing shows what it is"
        )
    return "; ".join(parts + collected.remarks)
