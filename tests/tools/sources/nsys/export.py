"""Small Nsight Systems exports as tests make them: the tables and columns that version 3 of the schema has."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

US, MS = 1_000, 1_000_000
UNIX_NS = 1_700_000_000_000_000_000
TABLES: dict[str, str] = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER",
    "TARGET_INFO_SYSTEM_ENV": "name TEXT, value TEXT",
    "TARGET_INFO_GPU": "id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER, computeMajor INTEGER, "
    "computeMinor INTEGER",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
    "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, registersPerThread INTEGER, "
    "gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, "
    "staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, graphNodeId INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
    "correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
    "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
    "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, "
    "nameId INTEGER",
    "NVTX_EVENTS": "start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, domainId INTEGER, "
    "globalTid INTEGER, binaryData TEXT",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": "domainId INTEGER, schemaId INTEGER, idx INTEGER, type INTEGER, name TEXT, "
    "offset INTEGER",
    "OSRT_API": "start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER",
    "SCHED_EVENTS": "start INTEGER, cpu INTEGER, isSchedIn INTEGER, globalTid INTEGER, threadState INTEGER",
    "ThreadNames": "nameId INTEGER, globalTid INTEGER",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start INTEGER, globalPid INTEGER, deviceId INTEGER, contextId INTEGER, "
    "address INTEGER, bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER",
    "GPU_METRICS": "timestamp INTEGER NOT NULL, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL, "
    "value INTEGER NOT NULL",
    "TARGET_INFO_GPU_METRICS": "typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, typeName TEXT NOT NULL, "
    "metricId INTEGER NOT NULL, metricName TEXT NOT NULL",
}
KERNEL, COPY, SYNC = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
GRAPH, CALL, RANGE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
Row = Mapping[str, object]


def process(pid: int) -> int:
    """The global id of a process; threads are added to it."""
    return (1 << 48) | (pid << 24)


class Export:
    """Rows by table; ``write`` makes the file."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {}
        self.strings: dict[str, int] = {}
        self.links = 0
        self.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.25.0")
        self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=UNIX_NS)

    def text(self, value: str) -> int:
        """The number of a text."""
        return self.strings.setdefault(value, len(self.strings) + 1)

    def add(self, table: str, **values: object) -> None:
        """One row."""
        self.rows.setdefault(table, []).append(values)

    def launched(
        self, pid: int, device: int, call_us: float, start_us: float, end_us: float, name: str, stream: int = 7
    ) -> None:
        """A kernel and the call of 5 us that launched it."""
        self.links += 1
        self.call(pid, "cudaLaunchKernel_v7000", call_us, call_us + 5, self.links)
        sizes = {"gridX": 8, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
        place = {"deviceId": device, "contextId": device + 1, "streamId": stream, "globalPid": process(pid)}
        memory = {"registersPerThread": 32, "staticSharedMemory": 16, "dynamicSharedMemory": 48}
        names = {"demangledName": self.text(name), "shortName": self.text("short")}
        times = {"start": round(start_us * US), "end": round(end_us * US), "correlationId": self.links}
        self.add(KERNEL, **times, **place, **names, **sizes, **memory)

    def call(self, pid: int, name: str, start_us: float, end_us: float, link: int = 0) -> None:
        """A CUDA call on the process's first thread."""
        times = {"start": round(start_us * US), "end": round(end_us * US)}
        self.add(CALL, **times, globalTid=process(pid) + pid, correlationId=link, nameId=self.text(name))

    def range(
        self, pid: int, text: str, start_us: float, end_us: float | None, kind: int = 59, domain: int = 0
    ) -> None:
        """An NVTX range on the process's first thread; of every second one the text is in the table of texts."""
        own = len(self.rows.get(RANGE, ())) % 2 == 0
        said = {"text": text if own else None, "textId": None if own else self.text(text)}
        end = None if end_us is None else round(end_us * US)
        place = {"eventType": kind, "domainId": domain, "globalTid": process(pid) + pid}
        self.add(RANGE, start=round(start_us * US), end=end, **said, **place)

    def schema(self, number: int, *fields: tuple[str, int]) -> None:
        """A schema of payloads: names of its fields and their offsets, None where that is 0, as exports have it."""
        for place, (name, offset) in enumerate(fields):
            self.add(
                "NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=1, schemaId=number, idx=place, name=name, offset=offset or None
            )

    def called(self, pid: int, name: str, start_us: float, end_us: float, schema: int, payload: bytes) -> None:
        """A call of NCCL with its payload, as ``nsys export --include-blobs=true`` writes it."""
        head = struct.pack("<IIIIQQ", 1, 0, schema, 0, len(payload), 32 + len(payload))
        place = {"eventType": 59, "domainId": 1, "globalTid": process(pid) + pid, "text": name}
        times = {"start": round(start_us * US), "end": round(end_us * US)}
        self.add(RANGE, **times, **place, binaryData=head + payload)

    def memory(self, pid: int, device: int, at_us: float, size: int, freed: bool = False, kind: int = 2) -> None:
        """Memory that a process allocates or frees on a device."""
        place = {"globalPid": process(pid), "deviceId": device, "memKind": kind}
        self.add(
            "CUDA_GPU_MEMORY_USAGE_EVENTS", start=round(at_us * US), bytes=size, memoryOperationType=int(freed), **place
        )

    def off_cpu(self, pid: int, start_us: float, end_us: float) -> None:
        """The process's first thread leaves its processor and gets one again."""
        for at, running in ((start_us, 0), (end_us, 1)):
            self.add("SCHED_EVENTS", start=round(at * US), cpu=3, isSchedIn=running, globalTid=process(pid) + pid)

    def sampled(self, device: int, name: str, metric: int, values: Iterable[int], every_us: float = 100) -> None:
        """Samples of a GPU metric from time 0 on."""
        kind = 0x0100_0000_0000_0000 | device
        place = {"typeId": kind, "metricId": metric}
        self.add("TARGET_INFO_GPU_METRICS", sourceId=1, typeName="GPU Metrics", metricName=name, **place)
        for at, value in enumerate(values):
            self.add("GPU_METRICS", timestamp=round(at * every_us * US), value=value, **place)

    def write(
        self, path: Path, without: Iterable[str] = (), columns: Mapping[str, Sequence[str]] | None = None
    ) -> Path:
        """The file, ``without`` some tables; ``columns`` names those that a table lacks."""
        with closing(sqlite3.connect(path)) as connection:
            for table, declared in TABLES.items():
                if table in without or (table != "StringIds" and table not in self.rows):
                    continue
                connection.execute(f'CREATE TABLE "{table}" ({declared})')
            for table, rows in self.rows.items():
                for row in [] if table in without else rows:
                    names = ", ".join(row)
                    marks = ", ".join("?" * len(row))
                    connection.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', list(row.values()))
            texts = [(number, text) for text, number in self.strings.items()]
            connection.executemany("INSERT INTO StringIds VALUES (?, ?)", texts)
            for table, dropped in (columns or {}).items():
                for name in dropped:
                    connection.execute(f'ALTER TABLE "{table}" DROP COLUMN "{name}"')
            connection.commit()
        return path


def training(ranks: int = 2, steps: int = 4) -> Export:
    """Ranks of one node; each step of 1,000 us computes for 600 us, then 200 us of an all-reduce, 100 us hidden.

    The last kernel of a step ends 50 us before the next begins. Every step begins with an upload of 20 us.
    """
    export = Export()
    for rank in range(ranks):
        pid = 500 + rank
        export.add("TARGET_INFO_GPU", id=rank, name="NVIDIA H100 80GB HBM3", totalMemory=80 << 30, smCount=132)
        export.add("ThreadNames", nameId=export.text("trainer"), globalTid=process(pid) + pid)
        for step in range(steps):
            at = 1000 * step
            export.range(pid, f"step {step}", at, at + 1000)
            export.range(pid, f"aten::mm, seq = {step}, op_id = {step + 1}, sizes = [[2, 3], [3, 4]]", at + 40, at + 60)
            export.links += 1
            export.call(pid, "cudaMemcpyAsync_v3020", at + 5, at + 10, export.links)
            place = {"deviceId": rank, "contextId": rank + 1, "streamId": 7, "globalPid": process(pid)}
            kinds = {"bytes": 4096, "copyKind": 1, "srcKind": 0, "dstKind": 2, "correlationId": export.links}
            export.add(COPY, start=(at + 20) * US, end=(at + 40) * US, **place, **kinds)
            export.launched(pid, rank, at + 45, at + 150, at + 750, "gemm")
            export.launched(pid, rank, at + 70, at + 650, at + 850, REDUCE, stream=20)
            export.launched(pid, rank, at + 90, at + 850, at + 950, "adam")
    return export
