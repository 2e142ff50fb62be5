"""The parts of rocprofv3's JSON that are read, as rocprofiler-sdk's documentation names them."""

from __future__ import annotations

from typing import Any

import msgspec


class Handle(msgspec.Struct):
    """An agent, a queue or a stream by its number."""

    handle: int


class Correlation(msgspec.Struct):
    """What joins a call with the work that it asks for."""

    internal: int = -1


class Size(msgspec.Struct):
    """A grid or a group of work items."""

    x: int = 0
    y: int = 0
    z: int = 0

    @property
    def product(self) -> int:
        """All work items; -1 where a side is not known."""
        items = self.x * self.y * self.z
        return items if 0 < items < 2**62 else -1


class Record(msgspec.Struct):
    """What all records hold."""

    start_timestamp: int
    end_timestamp: int
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)


class Call(Record):
    """A call of HIP or RCCL, or a range that the program marks."""

    kind: int = -1
    operation: int = -1
    thread_id: int = 0


class DispatchInfo(msgspec.Struct):
    """Where a kernel ran and with which sizes."""

    agent_id: Handle
    kernel_id: int
    queue_id: Handle | None = None
    workgroup_size: Size = msgspec.field(default_factory=Size)
    grid_size: Size = msgspec.field(default_factory=Size)  # in work items, not in groups
    group_segment_size: int = 0


class Dispatch(Record, kw_only=True):
    """A kernel that ran."""

    dispatch_info: DispatchInfo
    stream_id: Handle | None = None


class Copy(Record):
    """A copy; the sizes are in bytes."""

    kind: int = -1
    operation: int = -1
    src_agent_id: Handle | None = None
    dst_agent_id: Handle | None = None
    bytes: int = -1
    stream_id: Handle | None = None


class BufferRecords(msgspec.Struct):
    """All recorded events by what they are of."""

    kernel_dispatch: list[Dispatch] = []
    memory_copy: list[Copy] = []
    hip_api: list[Call] = []
    rccl_api: list[Call] = []
    marker_api: list[Call] = []


class Operations(msgspec.Struct):
    """The names of a kind's operations, by their number."""

    kind: str = ""
    operations: list[str] = []


class Message(msgspec.Struct):
    """The text of a marked range, by the number of its correlation."""

    key: int
    value: Any = None


class Strings(msgspec.Struct):
    """The names that records refer to."""

    buffer_records: list[Operations] = []
    marker_api: list[Message] = []

    def operation(self, kind: int, number: int) -> str:
        """The name of an operation; a stand-in where the file does not name it."""
        known = self.buffer_records[kind].operations if 0 <= kind < len(self.buffer_records) else []
        return known[number] if 0 <= number < len(known) else f"operation {number}"


class Agent(msgspec.Struct):
    """A processor or a device."""

    id: Handle
    type: int = 0
    product_name: str = ""
    name: str = ""
    cu_count: int = 0
    logical_node_type_id: int = -1


class Symbol(msgspec.Struct):
    """The name of a kernel."""

    kernel_id: int
    kernel_name: str = ""
    formatted_kernel_name: str = ""


class Node(msgspec.Struct):
    """The machine."""

    hostname: str = ""


class Metadata(msgspec.Struct):
    """Of the recording as a whole."""

    pid: int = 0
    node: Node = msgspec.field(default_factory=Node)


class Process(msgspec.Struct):
    """The recording of one process."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    agents: list[Agent] = []
    strings: Strings = msgspec.field(default_factory=Strings)
    kernel_symbols: list[Symbol] = []
    buffer_records: BufferRecords = msgspec.field(default_factory=BufferRecords)


class Recording(msgspec.Struct):
    """The whole file."""

    processes: list[Process] = msgspec.field(name="rocprofiler-sdk-tool")
