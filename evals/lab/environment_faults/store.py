"""Where a recorded training keeps its data, checkpoints and log lines: a folder, or a slow store that serves one.

A request is one line of JSON ({"do", "name", "bytes"}) and that many bytes; the answer is one line ({"bytes", "error"})
and that many bytes.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from evals.lab.environment_faults.placement import Placement, background, own_folder
from tools.errors import InputError

ADDRESS = "LAB_STORE"  # the environment variable with the store's socket
LONGEST_LINE = 4096
Action = Literal["read", "write", "append"]


class Store(Protocol):
    """Keeps named pieces of bytes. Names are paths below the store's folder."""

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, data: bytes) -> None: ...

    def append(self, name: str, data: bytes) -> None: ...


class Stream(Protocol):
    """Both directions of a connection, buffered."""

    def readline(self, size: int, /) -> bytes: ...

    def read(self, size: int, /) -> bytes: ...

    def write(self, data: bytes, /) -> int: ...

    def flush(self) -> None: ...


def store_of(folder: Path, environment: Mapping[str, str]) -> Store:
    """The store the environment names, else ``folder`` itself; both hold the same."""
    address = environment.get(ADDRESS)
    return StoreClient(Path(address)) if address else FolderStore(folder)


def inside(folder: Path, name: str) -> Path:
    """The path of ``name``, which must lie below ``folder``; raises InputError otherwise."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise InputError(f"the store holds nothing named {name!r}: the name leads out of its folder")
    return path


class FolderStore:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes:
        return inside(self._folder, name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        path = inside(self._folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def append(self, name: str, data: bytes) -> None:
        with inside(self._folder, name).open("ab") as file:
            file.write(data)


class StoreClient:
    """The store behind a socket. Each process that uses it, as a loader worker does, gets a connection of its own."""

    def __init__(self, address: Path) -> None:
        self._address = address
        self._stream: Stream | None = None
        self._pid = 0

    def __getstate__(self) -> Path:
        return self._address

    def __setstate__(self, address: Path) -> None:
        self.__init__(address)  # type: ignore[misc]

    def read(self, name: str) -> bytes:
        return self._ask("read", name)

    def write(self, name: str, data: bytes) -> None:
        self._ask("write", name, data)

    def append(self, name: str, data: bytes) -> None:
        self._ask("append", name, data)

    def _ask(self, action: Action, name: str, data: bytes = b"") -> bytes:
        stream = self._connected()
        put(stream, {"do": action, "name": name, "bytes": len(data)}, data)
        line, answer = take(stream)
        if line.get("error"):
            raise InputError(f"the store cannot {action} {name!r}: {line['error']}")
        return answer

    def _connected(self) -> Stream:
        if self._stream is None or self._pid != os.getpid():
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(self._address))
            self._stream = connection.makefile("rwb")
            self._pid = os.getpid()
        return self._stream


def put(stream: Stream, line: Mapping[str, object], data: bytes) -> None:
    """Send one line and its bytes."""
    stream.write(json.dumps(line).encode() + b"\n")
    stream.write(data)
    stream.flush()


def take(stream: Stream) -> tuple[dict[str, object], bytes]:
    """Receive one line and its bytes; raises EOFError when the other end has gone."""
    text = stream.readline(LONGEST_LINE)
    if not text.endswith(b"\n"):
        raise EOFError("the other end of the store's connection has gone")
    line: dict[str, object] = json.loads(text)
    size = line.get("bytes", 0)
    return line, stream.read(size) if isinstance(size, int) else b""


@dataclass(frozen=True)
class SlowStore:
    """The launch's folder behind a store that all ranks share; ``store.store_of`` finds it or, without it, the folder.

    All requests together get ``mbyte_per_s`` (million bytes per second); each waits ``latency_ms`` first.
    """

    mbyte_per_s: float
    latency_ms: float = 0.0

    def missing(self) -> str:
        return ""

    @contextmanager
    def around(self, ranks: int, folder: Path) -> Iterator[tuple[Placement, ...]]:
        with own_folder() as own:
            address = str(own / "store")
            arguments = (address, str(folder), str(self.mbyte_per_s * 1e6), str(self.latency_ms / 1e3))
            with background("store_server", *arguments):
                yield tuple(Placement(environment={ADDRESS: address}) for _ in range(ranks))
