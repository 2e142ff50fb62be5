"""What is written once per rank: who it is and what a step stands for."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hermes_agent.monitor.format import FIELDS, HEADER_BYTES, PREAMBLE, SCHEMA


@dataclass(frozen=True)
class Workload:
    """What the script tells of its steps; None where it does not."""

    batch_size: int | None = None  # samples (or tokens) per step and rank
    flops_per_step: float | None = None  # per rank
    peak_flops_per_s: float | None = None  # of the rank's device, for the model FLOPs utilisation


@dataclass(frozen=True)
class Description:
    """The head of a ring and of a step file."""

    rank: int
    world_size: int | None
    local_rank: int | None
    host: str
    pid: int
    start_unix_ns: int
    ring: str
    capacity: int
    workload: Workload

    @property
    def stem(self) -> str:
        """Begin of the names of this rank's files; another start of the script gets another."""
        return f"rank{self.rank:05d}-{self.start_unix_ns // 1_000_000}-{self.pid}"

    def pack(self, magic: bytes) -> bytes:
        """Preamble and JSON, without the ring's path, which only this machine needs.

        Raises ValueError when it is too long for a ring.
        """
        fields: dict[str, Any] = {"schema": SCHEMA, **asdict(self), "fields": FIELDS}
        del fields["ring"]
        text = json.dumps(fields).encode()
        if PREAMBLE.size + len(text) > HEADER_BYTES:
            raise ValueError(f"the description of rank {self.rank} takes {len(text)} bytes, more than a ring holds")
        return PREAMBLE.pack(magic, len(text)) + text


def identity() -> tuple[int, int | None, int | None]:
    """Rank, world size and local rank as launchers put them into the environment; rank 0 when none did."""
    rank = _number("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    world_size = _number("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    local_rank = _number("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
    return rank or 0, world_size, local_rank


def default_folder() -> Path:
    """The run folder when the script names none: HERMES_DX_RUN_FOLDER, else ``hermes-run`` here."""
    return Path(os.environ.get("HERMES_DX_RUN_FOLDER") or "hermes-run")


def host_name() -> str:
    """The name of this machine."""
    return socket.gethostname()


def _number(*names: str) -> int | None:
    for name in names:
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return None
