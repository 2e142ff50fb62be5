"""Programs that run next to a training: ``python -m evals.lab.environment_faults.programs NAME ARGUMENT...``.

Each says that it is ready, and ends when whoever started it is gone.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from evals.lab.environment_faults.store import FolderStore
from tools.errors import InputError

PARENT_POLL_S = 0.5
SUM_LENGTH = 2_000_000
ANNOUNCED_POLL_S = 0.005
SAVED_UP_S = 0.01  # how much of unused rate is kept
FLOWS = 2
CHUNK = bytes(32 * 1024)
CONNECT_LIMIT_S = 5.0
RETRY_S = 0.02


def say_ready(known_as: str) -> None:
    """Notify the parent that all is set up; ``known_as`` is the name other processes of the machine see."""
    Path("/proc/self/comm").write_text(known_as[:15], encoding="ascii")
    print("ready", flush=True)


def end_with_parent() -> None:
    """From now on, end this process soon after its parent has gone."""
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(0)


def busy(cores: str) -> None:
    """Burn one core of those named as in 0,1, or of any."""
    if cores:
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    end_with_parent()
    say_ready("encoder")
    while True:
        sum(range(SUM_LENGTH))


def pausing(announced: str, share: str, period_ms: str) -> None:
    """Stop the process group named in a file for a share of every period."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    parent, file = os.getppid(), Path(announced)
    say_ready("pacer")
    while not file.exists():
        if os.getppid() != parent:
            return
        time.sleep(ANNOUNCED_POLL_S)
    try:
        _pause_in_turn(int(file.read_text(encoding="ascii")), float(share), float(period_ms) / 1e3, parent)
    except ProcessLookupError:
        return


def _pause_in_turn(leader: int, share: float, period_s: float, parent: int) -> None:
    """Until the leader of the group or the parent is gone; raises ProcessLookupError for the former."""
    ended = select.poll()
    ended.register(os.pidfd_open(leader), select.POLLIN)
    try:
        while os.getppid() == parent and not ended.poll(0):
            os.killpg(leader, signal.SIGSTOP)
            time.sleep(share * period_s)
            os.killpg(leader, signal.SIGCONT)
            ended.poll((1 - share) * period_s * 1e3)
    finally:
        os.killpg(leader, signal.SIGCONT)


class Line:
    """The one line all requests to a store share: bytes pass at a steady rate, in the order they were asked for."""

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


def store_server(address: str, folder: str, bytes_per_s: str, latency_s: str) -> None:
    """Serve a folder slowly at a socket."""
    end_with_parent()
    line, store = Line(float(bytes_per_s)), FolderStore(Path(folder))
    with Listener(address, "AF_UNIX", backlog=16) as listener:
        say_ready("storage")
        while True:
            client = listener.accept()
            threading.Thread(target=_serve, args=(client, store, line, float(latency_s)), daemon=True).start()


def _serve(client: Connection, store: FolderStore, line: Line, latency_s: float) -> None:
    """Answer one client until it goes."""
    actions: dict[str, Callable[..., bytes | None]] = {"read": store.read, "write": store.write, "append": store.append}
    with suppress(EOFError, ConnectionError):
        while True:
            action, name, *data = client.recv()
            time.sleep(latency_s)
            answer: bytes | str
            try:
                answer = actions[action](name, *data) or b""
            except (OSError, InputError) as error:
                answer = getattr(error, "strerror", None) or str(error)
            line.pass_on(sum(map(len, data)) + len(answer if isinstance(answer, bytes) else b""))
            client.send(answer)


def traffic(own: str, other: str, port: str, rate_mbit: str) -> None:
    """Push bytes over TCP to the same program at another address, up to a rate, and discard what arrives."""
    end_with_parent()
    server = socket.create_server((own, int(port)), backlog=FLOWS)
    threading.Thread(target=_discard, args=(server,), daemon=True).start()
    say_ready("transfer")
    flows = [
        threading.Thread(target=_push, args=(other, int(port), float(rate_mbit) * 1e6 / 8 / FLOWS))
        for _ in range(FLOWS)
    ]
    for flow in flows:
        flow.start()
    for flow in flows:
        flow.join()


def _discard(server: socket.socket) -> None:
    while True:
        threading.Thread(target=_drain, args=(server.accept()[0],), daemon=True).start()


def _drain(connection: socket.socket) -> None:
    target = bytearray(1 << 18)
    with connection:
        while connection.recv_into(target):
            pass


def _push(other: str, port: int, bytes_per_s: float) -> None:
    """Transfer at a steady pace; after a time without room, do not catch up."""
    per_chunk_s = len(CHUNK) / bytes_per_s
    with _connected(other, port) as connection:
        due = time.monotonic()
        while True:
            connection.sendall(CHUNK)
            due = max(due + per_chunk_s, time.monotonic() - per_chunk_s)
            time.sleep(max(0.0, due - time.monotonic()))


def _connected(other: str, port: int) -> socket.socket:
    """The other end starts a moment later or earlier."""
    deadline = time.monotonic() + CONNECT_LIMIT_S
    while True:
        try:
            return socket.create_connection((other, port))
        except ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)


PROGRAMS: dict[str, Callable[..., None]] = {
    "busy": busy,
    "pausing": pausing,
    "store_server": store_server,
    "traffic": traffic,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
