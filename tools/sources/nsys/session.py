"""What an export says of its recording apart from events: version, time of day, devices, names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tools.run.model import Device
from tools.sources.nsys.pieces import pieces
from tools.sources.nsys.rank_rows import pid_of
from tools.sources.nsys.recognise import STRINGS
from tools.sources.sqlite_file import ABSENT, Database

AT_ONCE = 1000  # strings looked up by one query
LONGEST_NAME = 4096
LONGEST_FACT = 200
OLDEST, NEWEST = (2, 0), (3, 25)  # of the schema's versions that are known; seen in real files: 3.16, 3.24 and 3.25
MOST_DIGITS = 9
EPOCH_NS = 10**18  # from 2001 on; no machine has run so long that its own clock shows it


class Strings:
    """Texts by their number, looked up once each."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[int, str] = {}

    def texts(self, numbers: Iterable[int]) -> list[str]:
        """The text of each number; "" where there is none."""
        wanted = list(numbers)
        missing = sorted({number for number in wanted if number >= 0} - self._known.keys())
        for first in range(0, len(missing), AT_ONCE):
            chosen = ", ".join(map(str, missing[first : first + AT_ONCE]))
            for piece in pieces(self._database, STRINGS, ["id"], "value", f"id IN ({chosen})"):
                found = zip(piece["id"].tolist(), piece.texts, strict=True)
                self._known.update((number, str(text)[:LONGEST_NAME]) for number, text in found)
        return [self._known.get(number, "") for number in wanted]


@dataclass(frozen=True)
class Session:
    """The recording that was exported."""

    facts: dict[str, str]  # product and schema version, driver
    host: str
    origin_unix_ns: int | None  # of time 0 in the export; 0 where its times are of the day already
    note: str  # "" where the schema is a known one


def read_session(database: Database) -> Session:
    """Facts of the recording; what the export does not say stays unknown."""
    exported = _settings(database, "META_DATA_EXPORT")
    version = exported.get("EXPORT_SCHEMA_VERSION", "")
    system = _settings(database, "TARGET_INFO_SYSTEM_ENV")
    facts = {
        "nsys_version": exported.get("EXPORT_PRODUCT_VERSION", ""),
        "nsys_schema": version,
        "driver_version": system.get("NvDriverVersion", ""),
    }
    return Session(
        facts={name: text for name, text in facts.items() if text},
        host=system.get("Hostname", ""),
        origin_unix_ns=_origin(database, exported),
        note=_version_note(version),
    )


def _version_note(version: str) -> str:
    if not version:
        return "the export does not say its schema version; its columns were read as those of version 3"
    parts = version.split(".")
    known = len(parts) > 1 and all(each.isdecimal() and len(each) < MOST_DIGITS for each in parts[:2])
    if known and OLDEST <= (int(parts[0]), int(parts[1])) <= NEWEST:
        return ""
    newest = ".".join(map(str, NEWEST))
    return (
        f"the export has schema version {version}, which is not known (known are those up to {newest}); "
        "its columns were read as those of version 3"
    )


def _origin(database: Database, exported: dict[str, str]) -> int | None:
    if exported.get("EXPORT_PARAM_TIME_NORMALIZE", "").lower() == "true":
        return 0
    times = database.table("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")["utcEpochNs"]
    start = times[0] if times and isinstance(times[0], int) else -1
    shift = exported.get("EXPORT_CONFIG_TIME_SHIFT", "0")
    shift_ns = int(shift) if shift.removeprefix("-").isdecimal() and len(shift) < 20 else 0
    return start - shift_ns if start >= EPOCH_NS else None


def _settings(database: Database, table: str) -> dict[str, str]:
    found = database.table(table, "name", "value")
    pairs = zip(found["name"], found["value"], strict=True)
    return {str(name): str(value)[:LONGEST_FACT] for name, value in pairs if value is not None}


def read_devices(database: Database, process: int, used: Iterable[int]) -> tuple[Device, ...]:
    """The devices that a process used, by the index that it used; without those that the export does not describe."""
    gpus = described_gpus(database)
    index_of = _gpu_of_device(database, pid_of(process))
    alike = len({(gpu.name, gpu.memory_bytes, gpu.multiprocessors) for gpu in gpus.values()}) == 1
    found: list[Device] = []
    for index in sorted(used):
        # Without the table of devices an index counts only those that the process may see.
        gpu = gpus.get(index_of.get(index, -1) if index_of else index)
        if gpu is None and alike and not index_of:
            gpu = next(iter(gpus.values()))
        if gpu is not None:
            found.append(Device(index, gpu.name, gpu.memory_bytes, gpu.compute_capability, gpu.multiprocessors))
    return tuple(found)


def described_gpus(database: Database) -> dict[int, Device]:
    """The GPUs of the node, by number."""
    numbers = ["id", "totalMemory", "computeMajor", "computeMinor", "smCount"]
    gpus: dict[int, Device] = {}
    for piece in pieces(database, "TARGET_INFO_GPU", numbers, "name"):
        rows = zip(*(piece[name].tolist() for name in numbers), piece.texts, strict=True)
        for index, memory, major, minor, count, name in rows:
            gpus[index] = Device(
                index=index,
                name="" if name is None else str(name)[:LONGEST_FACT],
                memory_bytes=memory if memory > 0 else None,
                compute_capability=f"{major}.{minor}" if major > 0 and minor >= 0 else None,
                multiprocessors=count if count > 0 else None,
            )
    return gpus


def _gpu_of_device(database: Database, pid: int) -> dict[int, int]:
    """The GPU behind each index that the process used; empty where the export does not say it."""
    found: dict[int, int] = {}
    names = ["gpuId", "cudaId", "pid"]
    for piece in pieces(database, "TARGET_INFO_CUDA_DEVICE", names):
        rows = zip(*(piece[name].tolist() for name in names), strict=True)
        found |= {index: number for number, index, process in rows if process == pid and index != ABSENT}
    return found
