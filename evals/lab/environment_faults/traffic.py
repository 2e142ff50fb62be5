"""Another job's traffic: ``python -m evals.lab.environment_faults.traffic OWN OTHER PORT MBIT``.

Pushes bytes to the same program at OTHER over TCP at up to MBIT megabits per second, and swallows what it gets.
"""

from __future__ import annotations

import socket
import sys
import threading
import time

from evals.lab.environment_faults.parenthood import end_with_parent, say_ready

FLOWS = 2
CHUNK = bytes(32 * 1024)
PATIENCE_S = 5.0
RETRY_S = 0.02


def main(own: str, other: str, port: int, rate_mbit: float) -> None:
    end_with_parent()
    server = socket.create_server((own, port), backlog=FLOWS)
    threading.Thread(target=swallow, args=(server,), daemon=True).start()
    say_ready("transfer")
    flows = [threading.Thread(target=push, args=(other, port, rate_mbit / FLOWS)) for _ in range(FLOWS)]
    for flow in flows:
        flow.start()
    for flow in flows:
        flow.join()


def swallow(server: socket.socket) -> None:
    """Read and forget what every connection sends."""
    while True:
        connection, _ = server.accept()
        threading.Thread(target=_drain, args=(connection,), daemon=True).start()


def _drain(connection: socket.socket) -> None:
    target = bytearray(1 << 18)
    with connection:
        while connection.recv_into(target):
            pass


def push(other: str, port: int, rate_mbit: float) -> None:
    """Send at a steady pace; after a time without room, do not catch up."""
    per_chunk_s = len(CHUNK) * 8 / (rate_mbit * 1e6)
    with _connected(other, port) as connection:
        due = time.monotonic()
        while True:
            connection.sendall(CHUNK)
            due = max(due + per_chunk_s, time.monotonic() - per_chunk_s)
            time.sleep(max(0.0, due - time.monotonic()))


def _connected(other: str, port: int) -> socket.socket:
    """The other end starts a moment later or earlier."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((other, port))
        except ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
