"""What is fuzzed: every reader, and the whole diagnosis of a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import yaml

from case_library.library import parse_case
from evals.fuzz import seeds
from evals.fuzz.cuts import ALONE, diagnosed
from evals.fuzz.report_seeds import reports, tracker_export
from evals.fuzz.tracker_files import event_file, range_export, trainer_state, wandb_run
from evals.suite.labels import others_cases, recorded_cases
from tools.documents import parse_json, parse_toml, parse_yaml
from tools.run.packing import DamagedError, read_header, unpack
from tools.sources.ascend.source import ASCEND_TABLES
from tools.sources.collect_env.source import COLLECT_ENV
from tools.sources.environment import ENVIRONMENT
from tools.sources.files import packed
from tools.sources.flight_recorder.source import FLIGHT_RECORDER
from tools.sources.formats import Anchor, FolderFiles, RecordFormat
from tools.sources.job_log.source import JOB_LOG, job_log_by
from tools.sources.kineto.collect import Collected, NeedsCareError, Walk
from tools.sources.kineto.parallel_decode import absorb
from tools.sources.kineto.reader import read_trace
from tools.sources.load import load_run
from tools.sources.memory_snapshot.source import MEMORY_SNAPSHOT
from tools.sources.monitor.source import MONITOR
from tools.sources.nccl_inspector.source import NCCL_INSPECTOR
from tools.sources.nccl_ras.source import NCCL_RAS
from tools.sources.options import Limits, LoadOptions
from tools.sources.prometheus.source import PROMETHEUS
from tools.sources.py_spy.source import PY_SPY, PY_SPY_TEXT
from tools.sources.step_log import STEP_LOG
from tools.sources.straggler_analysis.source import STEP_OPERATIONS
from tools.sources.tensorboard.source import TENSORBOARD
from tools.sources.trace_file import TraceFile
from tools.sources.trainer_state.source import TRAINER_STATE
from tools.sources.utilisation.source import UTILISATION, UTILISATION_JSON
from tools.sources.wandb_file.source import WANDB
from tools.summaries.file import decode, encode
from tools.summaries.summarize import summarize
from tools.whatif.planners.registry import MODULES, planner

Form = Literal["text", "binary", "packed"]
SLICED = LoadOptions(workers=1, limits=Limits(slice_bytes=700))  # so that a small trace falls into several slices
KEY = "fuzzed"
GIVEN_LOG = job_log_by(r"iteration\s+(?P<step>\d+).*\(ms\): (?P<time_ms>[\d.]+)")
STEP_FILE, EVENT_FILE = "monitor/rank0.steps", "monitor/rank0.events.jsonl"


@dataclass(frozen=True)
class Target:
    """One reader: the file its input is written to, sound inputs, and what is done with it."""

    name: str
    file: str  # inside a folder of its own
    seeds: Callable[[], Sequence[bytes]]
    form: Form
    execute: Callable[[Path], object] | Callable[[bytes], object]
    share: float  # of all executions: cheap readers get more
    takes: Literal["file", "bytes"] = "file"
    named: str | None = None  # what the sentence of an error names, the file's name where None
    allowed: tuple[type[Exception], ...] = ()  # the errors that its contract names, next to HermesError


def _traces() -> list[bytes]:
    return [seeds.trace(), seeds.trace(device=False), seeds.old_trace(), *seeds.real_traces()]


def _load(path: Path) -> None:
    load_run([path], ALONE)


def _shared(path: Path) -> None:
    """Two walks that take turns, as two processes do: together they collect what one careful walk collects."""
    turns = (lambda index: index % 2 == 0, lambda index: index % 2 == 1)
    try:
        first, second = (Walk(path, SLICED.limits, turn).run() for turn in turns)
    except NeedsCareError:
        read_trace(path, "", SLICED)
        return
    absorb(first.columns, second.columns)
    one = Walk(path, SLICED.limits).run()
    assert _counts(first) == _counts(one), f"{_counts(first)} by two, {_counts(one)} by one"


def _counts(collected: Collected) -> tuple[int, int, int]:
    return collected.columns.rows, collected.columns.spans, collected.columns.seen


@dataclass(frozen=True)
class OfRecords:
    """Reads the file as the only one of a format of records; where the format has a folder, it lies in that."""

    wanted: RecordFormat

    def __call__(self, path: Path) -> None:
        run = path.parent.parent if self.wanted.folder else path.parent
        self.wanted.read([FolderFiles(self.wanted, run, (path,))], Anchor())


def _monitor_events(path: Path) -> None:
    """Read the events next to a sound step file."""
    (path.parent / f"{path.name.split('.')[0]}.steps").write_bytes(seeds.step_file())
    OfRecords(MONITOR)(path)


def _label(path: Path) -> None:
    recorded_cases([path.parent.parent], "lab")


def _others(path: Path) -> None:
    others_cases(path.parent)


def _counters() -> list[bytes]:
    return [*seeds.counters(), *reports(), tracker_export()]


def _json_seeds() -> list[bytes]:
    return [seeds.environment(), seeds.fault_label(), *seeds.planner_inputs()]


def _toml(data: bytes) -> None:
    parse_toml(data.decode("utf-8", "replace"))


def _case(data: bytes) -> None:
    parse_case(Path("case.yaml"), data)


def _decode(data: bytes) -> None:
    decode(data, KEY)


def _planner(name: str) -> Callable[[bytes], object]:
    return lambda data: planner(name).plan(data)


def _planners() -> tuple[Target, ...]:
    """One target for each planner, from the example that its input model takes."""

    def example(name: str) -> Callable[[], Sequence[bytes]]:
        return lambda: [text for text in seeds.planner_inputs() if _taken(name, text)]

    return tuple(
        Target(f"plan {name}", "input.json", example(name), "text", _planner(name), 0.004, "bytes", named="")
        for name in MODULES
    )


def _taken(name: str, text: bytes) -> bool:
    try:
        planner(name).input.model_validate_json(text)
    except ValueError:
        return False
    return True


def _read(text: bytes) -> TraceFile:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        path.write_bytes(text)
        return read_trace(path, KEY, ALONE)


def _stored() -> list[bytes]:
    return [b"".join(packed(_read(text))) for text in (seeds.trace(), seeds.trace(device=False))]


def _unpack(data: bytes) -> None:
    unpack(memoryview(data), read_header(memoryview(data)))


def _summaries() -> list[bytes]:
    return [encode(summarize(_read(text)), KEY) for text in (seeds.trace(), seeds.trace(device=False))]


TARGETS = (
    Target("kineto", "t.json", _traces, "text", _load, 0.004),
    Target("kineto gzip", "t.json.gz", _traces, "packed", _load, 0.004),
    Target("kineto shared", "t.json", _traces, "text", _shared, 0.004),
    Target("step log", "steps_rank0.jsonl", lambda: [seeds.step_log()], "text", OfRecords(STEP_LOG), 0.008),
    Target("step log gzip", "steps_rank0.jsonl.gz", lambda: [seeds.step_log()], "packed", OfRecords(STEP_LOG), 0.003),
    Target("job log", "train.log", lambda: [seeds.job_log()], "text", OfRecords(JOB_LOG), 0.004),
    Target("job log by a pattern", "train.log", lambda: [seeds.job_log()], "text", OfRecords(GIVEN_LOG), 0.002),
    Target("job log gzip", "train.log.gz", lambda: [seeds.job_log()], "packed", OfRecords(JOB_LOG), 0.003),
    Target("utilization samples", "smi.csv", _counters, "text", OfRecords(UTILISATION), 0.004),
    Target("utilization documents", "smi.json", seeds.device_documents, "text", OfRecords(UTILISATION_JSON), 0.01),
    Target("W&B run", "r.wandb", lambda: [wandb_run()], "binary", OfRecords(WANDB), 0.002),
    Target("Prometheus export", "p.json", lambda: [range_export()], "text", OfRecords(PROMETHEUS), 0.004),
    Target("Trainer state", "s.json", lambda: [trainer_state()], "text", OfRecords(TRAINER_STATE), 0.004),
    Target("TensorBoard events", "e.tfevents", lambda: [event_file()], "binary", OfRecords(TENSORBOARD), 0.002),
    Target("ascend tables", "table.csv", seeds.ascend_tables, "text", OfRecords(ASCEND_TABLES), 0.004),
    Target(
        "step operations",
        "trace.parquet",
        lambda: [seeds.step_operations()],
        "binary",
        OfRecords(STEP_OPERATIONS),
        0.01,
    ),
    Target("nsys", "t.sqlite", lambda: [seeds.nsys_export()], "binary", _load, 0.004),
    Target("ascend database", "t.db", lambda: [seeds.ascend_database()], "binary", _load, 0.004),
    Target("rocprof", "p.json", lambda: [seeds.rocprof()], "text", _load, 0.004),
    Target("xplane", "t.xplane.pb", lambda: [seeds.xplane()], "binary", _load, 0.004),
    Target("flight recorder", "_dump_0", seeds.flight_dumps, "binary", OfRecords(FLIGHT_RECORDER), 0.004),
    Target(
        "memory snapshot", "m.pickle", lambda: [seeds.memory_snapshot()], "binary", OfRecords(MEMORY_SNAPSHOT), 0.01
    ),
    Target("py-spy stacks", "stacks.json", seeds.stacks, "text", OfRecords(PY_SPY), 0.01),
    Target("py-spy text", "stacks.txt", lambda: seeds.stacks()[1:3], "text", OfRecords(PY_SPY_TEXT), 0.01),
    Target("inspector", "node-pid1.log", seeds.inspector_lines, "text", OfRecords(NCCL_INSPECTOR), 0.004),
    Target("ras", "ras.json", seeds.ras_answers, "text", OfRecords(NCCL_RAS), 0.004),
    Target("collect_env", "c.txt", lambda: [seeds.collect_env()], "text", OfRecords(COLLECT_ENV), 0.02),
    Target("environment", "env.json", lambda: [seeds.environment()], "text", OfRecords(ENVIRONMENT), 0.1),
    Target("monitor steps", STEP_FILE, lambda: [seeds.step_file()], "binary", OfRecords(MONITOR), 0.003),
    Target("monitor events", EVENT_FILE, lambda: [seeds.event_lines()], "text", _monitor_events, 0.001),
    Target("anomalies", "monitor/anomalies-n.jsonl", lambda: [seeds.anomaly_lines()], "text", _monitor_events, 0.003),
    Target("fault label", "lab/label.json", lambda: [seeds.fault_label()], "text", _label, 0.02),
    Target("labels of others", "labels.yaml", lambda: [seeds.others_labels()], "text", _others, 0.01),
    Target("json", "", _json_seeds, "text", parse_json, 0.35, "bytes", "", (ValueError,)),
    Target("yaml", "", seeds.case_files, "text", parse_yaml, 0.03, "bytes", "", (ValueError, yaml.YAMLError)),
    Target("toml", "", lambda: [seeds.SETTINGS], "text", _toml, 0.3, "bytes", "", (ValueError,)),
    Target("case", "", seeds.case_files, "text", _case, 0.02, "bytes", "case.yaml"),
    *_planners(),
    Target("stored trace", "", _stored, "binary", _unpack, 0.05, "bytes", "", (DamagedError,)),
    Target("rank summary", "", _summaries, "binary", _decode, 0.04, "bytes", "", (DamagedError,)),
    Target("diagnosis", "t.json", _traces, "text", diagnosed, 0.0001),
)
