"""Notes every connection that a Python process tries to make; a child imports it as its ``sitecustomize``."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

EVENTS = frozenset(
    f"socket.{name}"
    for name in ("connect", "bind", "sendto", "sendmsg", "getaddrinfo", "getnameinfo", "gethostbyname", "gethostbyaddr")
)
LOG = "TEST_CONNECTIONS_LOG"


def watch(log: Path) -> None:
    """Write one line for each attempt of this process from now on; sockets of the Unix family stay on the machine."""

    def noted(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS:
            return
        own = arguments[0] if arguments and isinstance(arguments[0], socket.socket) else None
        if own is not None and own.family == socket.AF_UNIX:
            return
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{event} {arguments[1:] if own is not None else arguments}\n")

    sys.addaudithook(noted)


def watch_isolated_children() -> None:
    """Start Python's isolated children (-I) without isolation, so that they are watched as well."""
    start = subprocess.Popen.__init__

    def watched(self: subprocess.Popen[bytes], command: object, *others: object, **named: object) -> None:
        if isinstance(command, list) and command[:2] == [sys.executable, "-I"]:
            command = [sys.executable, *command[2:]]
        start(self, command, *others, **named)  # type: ignore[call-overload]

    subprocess.Popen.__init__ = watched  # type: ignore[method-assign, assignment]


if LOG in os.environ:
    watch(Path(os.environ[LOG]))
    watch_isolated_children()
