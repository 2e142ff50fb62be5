"""The start conditions of a recorded training (options, environment, faults around it) and the plan of one launch.

Every default is the healthy choice; a fault is a difference from it. Whatever a field is called, nothing that is
recorded holds these names.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from evals.lab.environment_faults.placement import EnvironmentFault, all_missing

Packing = Literal["plain", "zlib", "lzma"]
WorkloadName = Literal["images", "tokens", "sounds", "experts", "stages"]


@dataclass(frozen=True)
class Data:
    """Samples on disk, and their way to the step."""

    raw_on: tuple[int, ...] = ()  # ranks that prepare raw samples while they train
    raw_size: int = 160  # how large a raw sample is: pixels a side, words of text, or values of a waveform
    packing: Packing = "plain"
    samples_in_pack: int = 1  # a pack is unpacked whole to get one sample
    in_files: bool = False  # one read per pack, from the disk or a file server; else in memory
    workers: int = 0  # processes of the DataLoader
    workers_unbound: bool = False  # workers leave the cores that the training is bound to
    sizes: tuple[int, ...] = ()  # pixels a side, tokens or frames, drawn per batch; () for the usual size
    sizes_differ: bool = False  # each rank draws its own
    padded: bool = False  # every batch is filled up to the largest size
    pinned: bool = True  # accelerator: batches lie in pinned memory and are copied without waiting
    ahead: bool = True  # accelerator: the next batch is copied while this one is computed


@dataclass(frozen=True)
class Program:
    """The program of the step."""

    looped_share: float = 0.0  # share of the batch whose loss is computed number by number
    statistics_share: float = 0.0  # share of the parameters' rows whose statistics are read one by one
    chained_blocks: int = 0  # blocks whose activation is a chain of element-wise operators
    recomputed_blocks: int = 0  # blocks whose activations are computed again in the backward pass
    double_blocks: int = 0  # last blocks that compute in float64; 99 makes it the default type
    odd_width: bool = False  # widths that are no multiple of 8
    compiler: str = ""  # backend of torch.compile
    threads: int = 1  # of torch's own pool
    traced_autograd: bool = False  # anomaly detection
    watched: bool = False  # the script's own profiler runs in every step, with stacks, shapes and memory
    precision: Literal["tf32", "fp32", "bf16"] = "tf32"  # accelerator only
    graph: Literal["", "kept", "again"] = ""  # accelerator: the step as one graph, captured once or every step
    cache_emptied: bool = False  # accelerator: torch.cuda.empty_cache() after every step


@dataclass(frozen=True)
class Parallel:
    """The division of the work among the ranks."""

    bucket_mb: float = 25.0
    small_parameters: int = 0  # more parameters of a few numbers each
    overlapped: bool = True  # gradients travel during the backward pass; else all of them after it
    one_by_one: bool = False  # where they travel after it, each in a message of its own
    hot_share: float = 0.0  # experts: share of the tokens that the router sends to the first rank's experts beyond even
    micro_batches: int = 8  # stages
    schedule: Literal["gpipe", "1f1b"] = "1f1b"
    first_stage_blocks: int = 3  # stages: of six


@dataclass(frozen=True)
class ScriptOptions:
    """Work of the script next to the step."""

    saves_every: int = 0  # steps between checkpoints
    saved_mb: int = 0  # optimizer state and the like next to the model
    log_lines: int = 0  # of about a kilobyte, a step
    synced: bool = False  # checkpoints and log lines are brought to the disk before training goes on
    side_thread_share: float = 0.0  # share of the time that a second Python thread is busy
    heap_on: tuple[int, ...] = ()  # ranks that keep many Python objects
    heap_objects: int = 0
    heap_frozen: bool = False
    collects_every: int = 0  # steps between collections that the script asks for; ranks in turn


@dataclass(frozen=True)
class Training:
    """All options of the script."""

    workload: WorkloadName = "images"
    shape: int = 0  # which of the workload's sizes
    device: Literal["cpu", "cuda"] = "cpu"
    data: Data = field(default_factory=Data)
    program: Program = field(default_factory=Program)
    parallel: Parallel = field(default_factory=Parallel)
    script_options: ScriptOptions = field(default_factory=ScriptOptions)


@dataclass(frozen=True)
class Scenario:
    """One training with everything around it."""

    training: Training = field(default_factory=Training)
    ranks: int = 2
    environment: tuple[tuple[str, str], ...] = ()
    environment_faults: tuple[EnvironmentFault, ...] = ()

    def missing(self) -> str:
        """Return why this machine cannot run the scenario; nothing when it can."""
        return all_missing(self.environment_faults)


def with_options(training: Training, **options: object) -> Scenario:
    """Return the usual scenario of a training with other options: ``with_options(training, data=Data(workers=2))``."""
    return Scenario(replace(training, **options))  # type: ignore[arg-type]


WARMUP_STEPS = 4
MEASURED_STEPS = 34  # per launch; two launches of each scenario
PERIODIC_STEPS = 60  # where the fault hits some steps only
PROFILED_STEPS = 3


@dataclass(frozen=True)
class Plan:
    """One launch: the options of the script, the folder for its data and records, and whether its end is profiled."""

    training: Training
    folder: Path
    ranks: int
    profile: bool
    measured_steps: int = MEASURED_STEPS

    @property
    def measured(self) -> range:
        """Steps whose time counts: after the warm-up and before any profiler of the lab is active."""
        return range(WARMUP_STEPS, WARMUP_STEPS + self.measured_steps)

    @property
    def profiled(self) -> range:
        """Steps in the trace; one step between lets the profiler start, as its own warm-up."""
        first = self.measured.stop + 1
        return range(first, first + PROFILED_STEPS) if self.profile else range(0)

    @property
    def steps(self) -> int:
        """Steps in all."""
        return max(self.measured.stop, self.profiled.stop)

    @property
    def run(self) -> Path:
        """The folder of what is recorded."""
        return self.folder / "run"

    def trace(self, rank: int) -> Path:
        """Path of that rank's Kineto trace."""
        return self.run / f"rank{rank}.pt.trace.json"

    def step_log(self, rank: int) -> Path:
        """Path of that rank's step log: one JSON object per step."""
        return self.run / f"steps_rank{rank}.jsonl"

    def summary(self, rank: int) -> Path:
        """Path of that rank's versions and last loss."""
        return self.folder / f"summary_rank{rank}.json"

    def messages(self, rank: int) -> Path:
        """Path of the rank's output."""
        return self.folder / f"messages_rank{rank}.txt"

    def samples(self, rank: int) -> Path:
        """The disk of that rank."""
        return self.folder / f"data{rank}"


_PLANS = TypeAdapter(Plan)


def write_plan(plan: Plan, path: Path) -> None:
    """Write a plan for the processes of a launch."""
    path.write_bytes(_PLANS.dump_json(plan))


def read_plan(path: Path) -> Plan:
    """Read back what ``write_plan`` wrote."""
    return _PLANS.validate_json(path.read_bytes())
