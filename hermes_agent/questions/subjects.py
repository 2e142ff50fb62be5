"""What a question speaks of, in the words of the taxonomy: ids, and the names people use for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from hermes_agent.model.display import FAMILY_TITLES, plain
from tools.knowledge.taxonomy import causes


@dataclass(frozen=True)
class Subject:
    """One or several causes a question may mean; ``mechanism`` narrows a single cause."""

    title: str
    causes: tuple[str, ...]
    mechanism: str | None = None


NETWORK = (
    "network_configuration",
    "slow_link",
    "small_packet",
    "bandwidth_contention",
    "rdma_retransmission",
    "byte_alignment",
)
DATA = ("slow_data_reading", "slow_data_processing", "slow_data_fetching")

# Pattern over normalised words -> (title, causes, mechanism).
SYNONYMS: tuple[tuple[str, str, tuple[str, ...], str | None], ...] = (
    (r"network(ing)?|interconnect|fabric|infiniband|nvlink|ethernet|nics?|links?", "the network", NETWORK, None),
    (r"nccl|hccl|gloo|rccl|(all ?)?reduces?|all ?gathers?|collectives?", "communication", ("straggler",
     "data_skew", "poor_overlap", *NETWORK), None),
    (r"all ?to ?all|experts?|moe|mixture of experts", "expert load", ("moe_imbalance",), None),
    (r"data ?loaders?|data ?loading|loading( the)? data|input pipeline|data pipeline|data ?sets?|input data|"
     r"(the )?data|batch loading|loaders?", "data input", DATA, None),
    (r"num workers|(more|few|fewer|loader|dataloader) workers|worker processes", "too few loader workers",
     ("slow_data_processing",), "too_few_workers"),
    (r"augmentations?|transforms?|tokeni[sz](er|ation|ing)|decod(e|ing)|pre ?process(ing)?", "heavy transforms",
     ("slow_data_processing",), "heavy_transform"),
    (r"storage|disks?|file ?systems?|nfs|s3|lustre|ssd", "storage", ("slow_data_reading", "checkpoint_stall"), None),
    (r"checkpoint(s|ing)?|saving( the)?( model)?|save", "checkpoints", ("checkpoint_stall",), None),
    (r"gc|garbage( collector)?|python gc", "garbage collection", ("garbage_collection",), None),
    (r"gil|global interpreter lock", "contention for the interpreter lock", ("operator_dispatch",), "gil_contention"),
    (r"tensor ?cores?|tf32|bf16|bfloat16|fp16|amp|mixed precision|half precision", "unused tensor cores",
     ("underutilization",), "no_tensor_core"),
    (r"items?( calls?)?|synchroni[sz](e|es|ation|ing)|syncs?|cudadevicesynchronize|cuda synchroni[sz]e",
     "host synchronization", ("operator_dispatch",), "host_synchronization"),
    (r"(small|tiny|short|many) (kernels?|operators?|ops)|kernel launch(es)?|launch(es)?( bound| overhead)?|"
     r"cuda ?graphs?|dispatch(ing)?( overhead)?", "many small operators", ("operator_dispatch",), "small_operators"),
    (r"cuda launch blocking|blocking launch(es)?", "launch blocking", ("operator_dispatch",), "launch_blocking"),
    (r"(host|cpu|python) ?bound|host|cpu|python( overhead)?|the program", "the host program", ("operator_dispatch",
     "operator_compilation", "garbage_collection", "cpu_contention", "environment_configuration",
     "profiling_overhead"), None),
    (r"re ?compil(e|es|ing|ation|ations)|compil(e|er|ing|ation)|torch ?compile|jit|inductor|dynamo",
     "compilation during steps", ("operator_compilation",), None),
    (r"dynamic shapes?|(varying|changing|variable) shapes?", "dynamic shapes", ("operator_compilation",),
     "dynamic_shape"),
    (r"(noisy )?neighbou?rs?|(an)?other process(es)?|foreign process(es)?|cpu (contention|pressure)",
     "contention for the CPU", ("cpu_contention",), None),
    (r"oversubscription|too many threads|omp num threads|thread counts?", "too many threads", ("cpu_contention",),
     "thread_oversubscription"),
    (r"numa|taskset|pinning( of)?( cpus?)?|cpu affinity|core binding", "core binding", ("cpu_contention",), "affinity"),
    (r"cgroups?|cpu quota|container limits?", "a CPU quota", ("cpu_contention",), "cgroup_throttling"),
    (r"profil(er|ing)( overhead)?|tracing overhead", "the profiler's own cost", ("profiling_overhead",), None),
    (r"environment( variables?)?|env( vars?)?|debug (mode|flags?|variables?)|misconfigur(ed|ation)|settings",
     "the environment", ("environment_configuration",), None),
    (r"slow (gpu|device|accelerator|hardware|node|machine)|(bad|faulty|broken) (gpu|device|hardware|node)|"
     r"throttl(ed|ing)|over ?heat(ed|ing)|clocks?|hardware", "a slow device", ("slow_device",), None),
    (r"flops|compute ?bound|more gpus|computation limit", "the device's computing power", ("compute_bound",), None),
    (r"memory ?bound|memory bandwidth|hbm|element ?wise", "memory bandwidth", ("memory_bound",), None),
    (r"(low |poor |gpu )?utili[sz]ation|under ?utili[sz]ed|mfu|occupancy", "low utilization of the device",
     ("underutilization",), None),
    (r"channels last|layouts?|transposes?|format casts?", "layout conversion", ("underutilization",),
     "layout_conversion"),
    (r"kernels?|gpu|operators?|compute|computing|model|matmuls?", "computation", ("slow_device", "compute_bound",
     "memory_bound", "underutilization"), None),
    (r"stragglers?|late ranks?|slow (ranks?|workers?)|lagging( ranks?)?", "a straggler", ("straggler",), None),
    (r"(load )?(im|un)balanced?|sequence lengths?|uneven (batches|data|work)|skew", "uneven work", ("data_skew",
     "moe_imbalance", "pipeline_imbalance"), None),
    (r"bubbles?", "pipeline bubbles", ("pipeline_bubble",), None),
    (r"pipeline( parallel(ism)?)?( stages?)?|micro ?batch(es)?", "the pipeline", ("pipeline_bubble",
     "pipeline_imbalance"), None),
    (r"overlap(ping)?|exposed communication", "poor overlap", ("poor_overlap",), None),
    (r"rdma|retransmi(t|ts|ssion|ssions)|packet loss|roce", "RDMA retransmission", ("rdma_retransmission",), None),
    (r"(small|tiny) (messages?|packets?|collectives?|buckets?)|bucket size|gradient fusion", "small messages",
     ("small_packet",), None),
    (r"bandwidth", "bandwidth", ("bandwidth_contention", "slow_link", "network_configuration"), None),
    (r"sockets?|gpu ?direct|gdr", "the network's configuration", ("network_configuration",), None),
    (r"oom|out of memory|memory pressure|allocat(or|ion|ions)|cuda ?malloc|cuda ?free|empty cache|memory",
     "memory pressure", ("memory_pressure",), None),
    (r"(activation|gradient) checkpointing|recompute", "recomputation", ("memory_pressure",), "recomputation"),
    (r"offload(ing)?|swap(ping)?", "offloading", ("memory_pressure",), "offload_stall"),
    (r"pin(ned)? memory|pageable( copies| memory)?|h2d|host to device( copies)?|uploads?|non blocking",
     "copies to the device", ("slow_data_fetching",), "pageable_copy"),
    (r"prefetch(ing|er)?", "missing prefetch", ("slow_data_fetching",), "no_prefetch"),
    (r"log(s|ging)", "logging", ("checkpoint_stall", "environment_configuration"), None),
)  # fmt: skip


def subject_of(words: str) -> Subject | None:
    """What normalised words speak of: the longest name in them; of equal ones a cause before a synonym."""
    mentions = _mentions(words)
    return mentions[0][2] if mentions else None


def subjects_of(words: str) -> tuple[Subject, ...]:
    """All that normalised words speak of, in their order; of names that overlap the longest, as in ``subject_of``."""
    taken: list[tuple[int, int, Subject]] = []
    for begin, end, subject in _mentions(words):
        if all(end <= start or stop <= begin for start, stop, _ in taken):
            taken.append((begin, end, subject))
    return tuple(dict.fromkeys(subject for _, _, subject in sorted(taken, key=lambda each: each[0])))


def _mentions(words: str) -> list[tuple[int, int, Subject]]:
    """Every name in the words with its place; the longest first, of equal ones a cause before a synonym."""
    found = [
        (match.start() - match.end(), order, match.start(), match.end(), subject)
        for order, (pattern, subject) in enumerate(_names())
        for match in pattern.finditer(words)
    ]
    found.sort(key=lambda each: each[:3])
    return [(begin, end, subject) for _, _, begin, end, subject in found]


@lru_cache(maxsize=1)
def _names() -> tuple[tuple[re.Pattern[str], Subject], ...]:
    rows: list[tuple[str, Subject]] = []
    for cause in causes().values():
        rows.append((_spelt(cause.id), Subject(plain(cause.id), (cause.id,))))
        for mechanism in cause.mechanisms:
            rows.append((_spelt(mechanism), Subject(plain(mechanism), (cause.id,), mechanism)))
    rows.extend((pattern, Subject(title, names, mechanism)) for pattern, title, names, mechanism in SYNONYMS)
    for family, title in FAMILY_TITLES.items():
        members = tuple(cause.id for cause in causes().values() if cause.family == family)
        rows.append((f"{_spelt(family)}|{title}", Subject(title, members)))
    return tuple((re.compile(rf"\b(?:{pattern})\b"), subject) for pattern, subject in rows)


def _spelt(identifier: str) -> str:
    return plain(identifier).replace(" ", " ?") + "s?"
