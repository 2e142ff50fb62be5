"""Samples of process, machine, network, accelerator and framework; counters are as the kernel gives them."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import process_time_ns
from typing import Any

from hermes_agent.monitor import procfs
from hermes_agent.monitor.procfs import Read, fields_of, read_text, whole_number

Sample = dict[str, Any]
PROC = "/proc"
MOST_FAILURES = 3
LONGEST_REASON = 200
COMPILATION = "_compile.compile_inner"  # torch.compile's own name for turning one frame into code
INFINIBAND = Path("/sys/class/infiniband")
MOST_COUNTERS = 32
# A NAK received, or no answer in time: the sender has to retransmit. Other vendors name it retransmission.
RETRANSMITTED = re.compile(r"^(packet_seq_err|local_ack_timeout_err)$|^(?!.*bytes).*retrans")
TCP_FIELDS = {"OutSegs": "tcp_sent_segments", "RetransSegs": "tcp_retransmitted_segments"}
IO_FIELDS = {
    "read_bytes": "read_bytes",  # from storage
    "write_bytes": "write_bytes",
    "rchar": "read_chars",  # by any read call, also from the page cache, a pipe or a file system in user space
    "wchar": "write_chars",
    "syscr": "read_calls",
    "syscw": "write_calls",
}


def framework_sample() -> Sample:
    """Return whether a profiler runs (1 or 0), compilations so far and their time, as far as torch is loaded."""
    sample: Sample = {}
    profiling = getattr(sys.modules.get("torch.autograd.profiler"), "_is_profiler_enabled", None)
    if isinstance(profiling, bool):
        sample["profiler_active"] = int(profiling)
    metrics = getattr(sys.modules.get("torch._dynamo.utils"), "compilation_time_metrics", None)
    if isinstance(metrics, dict):
        took_s = tuple(metrics.get(COMPILATION, ()))
        sample |= {"compilations": len(took_s), "compile_us": round(1e6 * sum(took_s))}
    return sample


def network_sample(proc: str = PROC, read: Read = read_text) -> Sample:
    """Bytes sent and received by all interfaces but the loopback, the loopback's, and TCP retransmissions."""
    sample: Sample = {}
    for line in read(f"{proc}/net/dev").splitlines()[2:]:
        name, _, counters = line.partition(":")
        words = counters.split()
        received, sent = (whole_number(words[at]) if len(words) > 8 else None for at in (0, 8))
        if received is None or sent is None:
            continue
        if name.strip() == "lo":
            sample["lo_sent_bytes"] = sent
        else:
            sample["net_sent_bytes"] = sample.get("net_sent_bytes", 0) + sent
            sample["net_received_bytes"] = sample.get("net_received_bytes", 0) + received
    lines = [line.split()[1:] for line in read(f"{proc}/net/snmp").splitlines() if line.startswith("Tcp:")]
    named = dict(zip(*lines, strict=False)) if len(lines) == 2 else {}
    segments = {name: whole_number(named.get(key, "")) for key, name in TCP_FIELDS.items()}
    return sample | {name: number for name, number in segments.items() if number is not None}


class RdmaWatch:
    """Retransmissions that the machine's RDMA devices count; which counters there are is looked up once."""

    def __init__(self, devices: Path = INFINIBAND) -> None:
        try:
            files = sorted(devices.glob("*/ports/*/hw_counters/*"))
        except OSError:
            files = []
        self._files = [file for file in files if RETRANSMITTED.search(file.name.lower())][:MOST_COUNTERS]

    def sample(self) -> Sample:
        """Their sum, nothing where there is no such counter."""
        values = [whole_number(read_text(file).strip()) for file in self._files]
        known = [value for value in values if value is not None]
        return {"rdma_retransmits": sum(known)} if known else {}


def process_sample(process: str = "/proc/self", read: Read = read_text) -> Sample:
    """Memory, threads, CPU time of all threads, faults, switches, storage, and the cores that the process may use."""
    sample: Sample = {}
    if fields := read(f"{process}/statm").split():
        sample["resident_bytes"] = int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
    if words := read(f"{process}/stat").rpartition(")")[2].split():
        sample["threads"] = int(words[17])
    sample["process_cpu_us"] = process_time_ns() // 1000
    sample["allowed_cores"] = len(os.sched_getaffinity(0))
    sample["cores"] = os.cpu_count()
    used = getrusage(RUSAGE_SELF)
    sample |= {"minor_faults": used.ru_minflt, "major_faults": used.ru_majflt}
    sample |= {"voluntary_switches": used.ru_nvcsw, "involuntary_switches": used.ru_nivcsw}
    counted = fields_of(read(f"{process}/io"), ":")
    return sample | {IO_FIELDS[name]: value for name, value in counted.items() if name in IO_FIELDS}


def host_sample(proc: str = PROC, read: Read = read_text) -> Sample:
    """Load, runnable threads, busy and stolen time of all cores (in ticks), and pressure stall totals in us."""
    sample: Sample = {}
    if load := read(f"{proc}/loadavg").split():
        sample["load_1min"] = float(load[0])
        # The same count as procs_running of /proc/stat, which is expensive to read whole on a large machine.
        runnable = whole_number(load[3].partition("/")[0]) if len(load) > 3 else None
        if runnable is not None:
            sample["runnable"] = runnable
    first = read(f"{proc}/stat").split("\n", 1)[0].split()
    if first[:1] == ["cpu"]:
        ticks = [int(each) for each in first[1:]]
        sample |= {"cpu_total_ticks": sum(ticks[:8]), "cpu_idle_ticks": ticks[3] + ticks[4]}
        sample["cpu_steal_ticks"] = ticks[7]
    for resource in ("cpu", "io", "memory"):
        for line in read(f"{proc}/pressure/{resource}").splitlines():
            kind, *pairs = line.split()
            sample[f"pressure_{resource}_{kind}_us"] = int(pairs[-1].partition("=")[2])
    return sample


def _cuda() -> Any:  # noqa: ANN401 - torch.cuda, which is not imported here
    """The accelerator that the script already uses, else None; never wakes one up."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def device_sample() -> Sample:
    """Return the memory of the accelerator in use."""
    if (cuda := _cuda()) is None:
        return {}
    sample = {"device_allocated_bytes": cuda.memory_allocated(), "device_reserved_bytes": cuda.memory_reserved()}
    return {**sample, "device_peak_bytes": cuda.max_memory_allocated()}


def utilisation_sample() -> Sample:
    """Return the utilisation of the accelerator in use; the vendor's library has none for a part of a device."""
    with suppress(ImportError):  # without the vendor's library only memory is known
        return {"device_utilisation_pct": cuda.utilization()} if (cuda := _cuda()) else {}
    return {}


class Sampler:
    """Samples all of it; a source that fails ``MOST_FAILURES`` times in a row is left out from then on."""

    def __init__(self, whole_host: bool, training_thread: int) -> None:
        self._files = procfs.OpenFiles()
        read = self._files.read
        self._sources: list[tuple[str, Callable[[], Sample]]] = [
            ("process_sample", partial(process_sample, read=read)),
            ("cgroup_sample", procfs.GroupWatch(read=read).sample),
            ("device_sample", device_sample),
            ("utilisation_sample", utilisation_sample),
            ("framework_sample", framework_sample),
            ("network_sample", partial(network_sample, read=read)),
            ("thread_sample", procfs.ThreadWatch(training_thread).sample),
            ("child_sample", procfs.ChildWatch().sample),
            ("rdma_sample", RdmaWatch().sample),
        ]
        if whole_host:  # one rank of a machine samples for it
            self._sources.append(("host_sample", partial(host_sample, read=read)))
        self._failures: Counter[str] = Counter()

    def add(self, name: str, source: Callable[[], Sample]) -> None:
        """Add a source; it may raise anything."""
        self._sources.append((name, source))

    def close(self) -> None:
        """Close the files that stay open between samples; it may be used on."""
        self._files.close()

    def sample(self) -> Sample:
        """One sample; fields of failed sources are missing."""
        found: Sample = {}
        for name, source in tuple(self._sources):
            try:
                found |= source()
                self._failures[name] = 0
            except Exception as error:  # a boundary: drivers' libraries have exceptions of their own
                self._failures[name] += 1
                if self._failures[name] == MOST_FAILURES:
                    self._sources.remove((name, source))
                found[f"{name}_failed"] = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
        return found
