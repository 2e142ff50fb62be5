"""The data, checkpoints and log lines of a recorded training: in a folder, or in a slow store that serves one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Literal, TypeAlias

from evals.lab.environment_faults.placement import Placement, background, own_folder
from tools.errors import InputError

ADDRESS = "LAB_STORE"  # the environment variable with the store's socket
Action = Literal["read", "write", "append"]


def inside(folder: Path, name: str) -> Path:
    """The path of ``name``, which must lie below ``folder``; raises InputError otherwise."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise InputError(f"the store holds nothing named {name!r}: the name leads out of its folder")
    return path


class FolderStore:
    """Named pieces of bytes in a folder of this machine; a name is a path below it."""

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
    """The store behind a socket. Each process that uses it, as a loader worker does, gets a connection of its own.

    A request is ``(action, name, data...)``; the answer is bytes, or what is wrong as text.
    """

    def __init__(self, address: Path) -> None:
        self._address = address
        self._connection: Connection | None = None
        self._pid = 0

    def __reduce__(self) -> tuple[type[StoreClient], tuple[Path]]:
        return StoreClient, (self._address,)

    def read(self, name: str) -> bytes:
        return self._ask("read", name)

    def write(self, name: str, data: bytes) -> None:
        self._ask("write", name, data)

    def append(self, name: str, data: bytes) -> None:
        self._ask("append", name, data)

    def _ask(self, action: Action, name: str, *data: bytes) -> bytes:
        if self._connection is None or self._pid != os.getpid():
            self._connection, self._pid = Client(str(self._address)), os.getpid()
        self._connection.send((action, name, *data))
        answer: bytes | str = self._connection.recv()
        if isinstance(answer, str):
            raise InputError(f"the store cannot {action} {name!r}: {answer}")
        return answer


Store: TypeAlias = FolderStore | StoreClient


def store_of(folder: Path, environment: Mapping[str, str]) -> Store:
    """The store the environment names, else ``folder`` itself; both hold the same."""
    address = environment.get(ADDRESS)
    return StoreClient(Path(address)) if address else FolderStore(folder)


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
