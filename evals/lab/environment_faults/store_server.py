"""Serves a folder slowly: ``python -m evals.lab.environment_faults.store_server SOCKET FOLDER RATE LATENCY_S``."""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path

from evals.lab.environment_faults.parenthood import end_with_parent, say_ready
from evals.lab.environment_faults.store import FolderStore, Stream, put, take
from tools.errors import InputError

SAVED_UP_S = 0.01  # how much of unused rate is kept


class Line:
    """The one line all requests share: bytes pass at a steady rate, in the order they were asked for."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._lock = threading.Lock()
        self._free_at = 0.0

    def pass_on(self, size: int) -> None:
        """Return when ``size`` more bytes have passed."""
        with self._lock:
            start = max(self._free_at, time.monotonic() - SAVED_UP_S)
            self._free_at = done = start + size / self._bytes_per_s
        time.sleep(max(0.0, done - time.monotonic()))


def main(address: Path, folder: Path, bytes_per_s: float, latency_s: float) -> None:
    end_with_parent()
    line, store = Line(bytes_per_s), FolderStore(folder)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(address))
        server.listen()
        say_ready("storage")
        while True:
            connection, _ = server.accept()
            stream = connection.makefile("rwb")
            threading.Thread(target=serve, args=(stream, store, line, latency_s), daemon=True).start()


def serve(stream: Stream, store: FolderStore, line: Line, latency_s: float) -> None:
    """Answer one client until it goes."""
    try:
        while True:
            request, data = take(stream)
            time.sleep(latency_s)
            answer, error = _carried_out(store, str(request["do"]), str(request["name"]), data)
            line.pass_on(len(data) + len(answer))
            put(stream, {"bytes": len(answer), "error": error}, answer)
    except (EOFError, ConnectionError, ValueError, KeyError):
        return


def _carried_out(store: FolderStore, action: str, name: str, data: bytes) -> tuple[bytes, str]:
    """The bytes asked for and what went wrong, empty when nothing did."""
    try:
        match action:
            case "read":
                return store.read(name), ""
            case "write":
                store.write(name, data)
            case "append":
                store.append(name, data)
            case _:
                return b"", "a store can read, write and append"
    except (OSError, InputError) as error:
        return b"", (error.strerror or "it failed") if isinstance(error, OSError) else str(error)
    return b"", ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
