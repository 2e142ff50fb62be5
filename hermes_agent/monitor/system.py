"""What the process and its machine are doing, as the kernel tells it; a source that is missing is left out.

Counters are as the kernel gives them (since boot or since the start of the process); a reader takes differences.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import process_time_ns
from typing import Any

Sample = dict[str, Any]


def process_sample(process: Path = Path("/proc/self")) -> Sample:
    """Resident memory, threads, CPU time of all threads, and the cores that the process may use."""
    sample: Sample = {}
    if fields := _read(process / "statm").split():
        sample["resident_bytes"] = int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
    for line in _read(process / "status").splitlines():
        if line.startswith("Threads:"):
            sample["threads"] = int(line.split()[1])
    sample["process_cpu_us"] = process_time_ns() // 1000
    sample["allowed_cores"] = len(os.sched_getaffinity(0))
    sample["cores"] = os.cpu_count()
    return sample


def host_sample(proc: Path = Path("/proc")) -> Sample:
    """Load, busy and stolen time of all cores (in ticks), and pressure stall totals in us."""
    sample: Sample = {}
    if load := _read(proc / "loadavg").split():
        sample["load_1min"] = float(load[0])
    first = _read(proc / "stat").split("\n", 1)[0].split()
    if first[:1] == ["cpu"]:
        ticks = [int(each) for each in first[1:]]
        sample |= {
            "cpu_total_ticks": sum(ticks[:8]),
            "cpu_idle_ticks": ticks[3] + ticks[4],
            "cpu_steal_ticks": ticks[7],
        }
    for resource in ("cpu", "io", "memory"):
        for line in _read(proc / "pressure" / resource).splitlines():
            kind, *pairs = line.split()
            sample[f"pressure_{resource}_{kind}_us"] = int(pairs[-1].partition("=")[2])
    return sample


def throttling_sample(cgroups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> Sample:
    """How often and how long the process's CPU quota held it back, from control groups of version 1 or 2."""
    for file in _throttle_files(cgroups, _read(own)):
        fields = dict(line.split() for line in _read(file).splitlines() if len(line.split()) == 2)
        if "nr_throttled" not in fields:
            continue
        sample: Sample = {"throttled_periods": int(fields["nr_throttled"])}
        if "throttled_usec" in fields:
            sample["throttled_us"] = int(fields["throttled_usec"])
        elif "throttled_time" in fields:
            sample["throttled_us"] = int(fields["throttled_time"]) // 1000
        return sample
    return {}


def device_sample() -> Sample:
    """Memory and utilisation of the accelerator that the script already uses; never wakes one up."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return {}
    sample: Sample = {
        "device_allocated_bytes": cuda.memory_allocated(),
        "device_reserved_bytes": cuda.memory_reserved(),
        "device_peak_bytes": cuda.max_memory_allocated(),
    }
    with suppress(ImportError, RuntimeError, OSError):  # without the vendor's library only memory is known
        sample["device_utilisation_pct"] = cuda.utilization()
    return sample


def _throttle_files(cgroups: Path, own: str) -> list[Path]:
    files: list[Path] = []
    for line in own.splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        inside = path.lstrip("/")
        if not controllers:
            files += [cgroups / inside / "cpu.stat", cgroups / "unified" / inside / "cpu.stat"]
        elif "cpu" in controllers.split(","):
            files += [cgroups / each / inside / "cpu.stat" for each in ("cpu", controllers)]
    # Inside a container the own group is often mounted as the root.
    return [*files, cgroups / "cpu.stat", cgroups / "cpu" / "cpu.stat"]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:65536]
    except OSError:
        return ""


class Sampler:
    """Samples all of it; a source that fails is left out from then on."""

    def __init__(self, whole_host: bool) -> None:
        self._sources: list[Callable[[], Sample]] = [process_sample, throttling_sample, device_sample]
        if whole_host:  # one rank of a machine speaks for it
            self._sources.append(host_sample)

    def sample(self) -> Sample:
        """One sample; fields of failed sources are missing."""
        found: Sample = {}
        for source in tuple(self._sources):
            try:
                found |= source()
            except (OSError, ValueError, IndexError, RuntimeError) as error:
                self._sources.remove(source)
                found[f"{source.__name__}_failed"] = f"{type(error).__name__}: {error}"
        return found
