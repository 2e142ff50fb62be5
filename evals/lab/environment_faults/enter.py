"""Becomes the command after ``--``, in the environment faults that the options name. Needs the standard library only.

What is set here holds for every process the command starts: loader workers included.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import socket
import sys
from pathlib import Path

CLONE_NEWUTS = 0x04000000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--group", type=Path, action="append", default=[], help="control group to join")
    parser.add_argument("--cores", default="", help="cores to be bound to, as in 0,1")
    parser.add_argument("--host", default="", help="host name to have")
    parser.add_argument("--announce", type=Path, help="file that gets the process id; the process leads a new group")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    for group in options.group:
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    if options.cores:
        os.sched_setaffinity(0, {int(core) for core in options.cores.split(",")})
    if options.host:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUTS) != 0:
            raise OSError(ctypes.get_errno(), "a host name of its own was refused")
        socket.sethostname(options.host)
    if options.announce is not None:
        os.setpgid(0, 0)
        unfinished = options.announce.with_suffix(".part")  # the file appears with all of its content
        unfinished.write_text(str(os.getpid()), encoding="ascii")
        unfinished.rename(options.announce)
    os.execvp(options.command[0], options.command)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"the training could not be placed in its environment faults: {error}")
