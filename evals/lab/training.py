"""One process of a recorded training: ``python -m evals.lab.training PLAN RANK``. Needs the extra ``lab`` (torch)."""

from __future__ import annotations

import gc
import io
import itertools
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

from evals.lab.environment_faults.store import store_of
from evals.lab.samples import batches
from evals.lab.scenarios import Plan, Training, read_plan
from evals.lab.workloads.classifiers import Images, Sounds
from evals.lab.workloads.data_parallel import Workload
from evals.lab.workloads.language import Experts, Stages, Tokens
from hermes_agent.cli.commands.env import environment
from hermes_agent.monitor import Monitor, Options
from hermes_agent.monitor.flush import FlushPlan

WORKLOADS: dict[str, Callable[[Training], Workload]] = {
    "images": Images,
    "tokens": Tokens,
    "sounds": Sounds,
    "experts": Experts,
    "stages": Stages,
}
SAMPLE_S = 0.25


def monitor(folder: Path, rank: int) -> Monitor:
    """The monitor as a user starts it, with more samples than by default: the recorded runs are short."""
    return Monitor(folder, rank=rank, options=Options(plan=FlushPlan(flush_s=SAMPLE_S, sample_s=SAMPLE_S)))


@contextmanager
def profiled(plan: Plan, rank: int) -> Iterator[Callable[[], None]]:
    """Records the plan's last steps; before them the script's own profiler runs where the scenario has one.

    Gives what has to be called after every step.
    """
    training = plan.training
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if training.device == "cuda" else [])]
    details = {"with_stack": True, "profile_memory": True} if training.program.watched else {}
    last = None
    if plan.profile:
        last = profile(
            activities=kinds,
            schedule=schedule(wait=plan.measured.stop, warmup=1, active=len(plan.profiled), repeat=1),
            on_trace_ready=lambda finished: finished.export_chrome_trace(str(plan.trace(rank))),
            record_shapes=True,
            **details,
        )
    own = profile(activities=kinds, record_shapes=True, **details) if training.program.watched else None
    ended = itertools.count(1)

    def stepped() -> None:
        if own is not None and next(ended) == plan.measured.stop:
            own.stop()
        if last is not None:
            last.step()

    for each in filter(None, (own, last)):
        each.start()
    yield stepped
    if last is not None:
        last.stop()


LINE = "step {step} " + "x" * 1000 + "\n"
TURN_S = 0.02


class ScriptWork:
    """Work of the script next to the step: collections of a heap, checkpoints, log lines, a second busy thread.

    Checkpoints and lines go to the launch's folder or the file server of the environment faults.
    """

    def __init__(self, plan: Plan, rank: int, model: torch.nn.Module | None) -> None:
        self._options = options = plan.training.script_options
        self._folder, self._rank, self._ranks, self._model = plan.folder, rank, plan.ranks, model
        self._store = store_of(plan.folder, os.environ)
        self._state = torch.rand(options.saved_mb << 18)
        count = options.heap_objects if rank in options.heap_on else 0
        self._index = [{"sample": number, "parts": [number]} for number in range(count // 2)]  # as long as the training
        if options.heap_frozen:
            gc.collect()
            gc.freeze()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sum_up, name="statistics", daemon=True)
        if options.side_thread_share:
            self._thread.start()

    def step(self, step: int) -> None:
        """After each step; training waits. Ranks collect in steps of their own."""
        options = self._options
        every = options.collects_every if self._rank in options.heap_on else 0
        if every and step % every == self._rank * (every // self._ranks):
            gc.collect()
        if options.saves_every and step % options.saves_every == 0:
            content = io.BytesIO()
            model = self._model.state_dict() if self._model is not None else {}
            torch.save({"step": step, "model": model, "state": self._state}, content)
            self._store.write(f"checkpoint{self._rank}", content.getvalue())
            self._sync(f"checkpoint{self._rank}")
        for _ in range(options.log_lines):
            self._store.append(f"log{self._rank}", LINE.format(step=step).encode())
            self._sync(f"log{self._rank}")

    def end(self) -> None:
        """End the second thread."""
        self._ended.set()
        if self._options.side_thread_share:
            self._thread.join()

    def _sync(self, name: str) -> None:
        if self._options.synced:
            with (self._folder / name).open("rb") as file:
                os.fsync(file.fileno())

    def _sum_up(self) -> None:
        """Sum up texts for a share of the time."""
        share = self._options.side_thread_share
        while not self._ended.is_set():
            until = time.perf_counter() + TURN_S * share
            seen: dict[str, int] = {}
            while time.perf_counter() < until:
                for word in ("loss", "rate", "norm"):
                    seen[word] = seen.get(word, 0) + len(word)
            if share < 1:
                time.sleep(TURN_S * (1 - share))


SAME_MODEL = ("images", "tokens", "sounds")  # workloads whose ranks hold the same model
OF_TOKENS = ("tokens", "experts", "stages")


def train(plan: Plan, rank: int) -> float:
    """Run all steps, writing the step log as they pass; gives the last step's loss."""
    work = WORKLOADS[plan.training.workload](plan.training)
    work.write(plan.samples(rank), rank)
    script = ScriptWork(plan, rank, work.learns)
    loss = torch.zeros(())
    with (
        monitor(plan.run, rank) as watch,
        plan.step_log(rank).open("w", encoding="utf-8") as log,
        profiled(plan, rank) as stepped,
    ):
        if plan.training.workload in SAME_MODEL and plan.ranks > 1 and work.learns is not None:
            watch.watch_model(work.learns)
        source = batches(plan, work, rank)
        dist.barrier()
        watch.begin()
        for step in range(plan.steps):
            start = time.perf_counter()
            batch = next(source)
            loss = work.step(batch)
            script.step(step)
            if plan.training.device == "cuda":
                torch.cuda.current_stream().synchronize()
            wall_ms = (time.perf_counter() - start) * 1e3
            watch.step(step, samples=len(batch[0]))
            size = batch[0].shape[-1] * len(batch[0])
            line = {"step": step, "wall_ms": round(wall_ms, 3), "samples": len(batch[0])}
            if plan.training.workload in OF_TOKENS:
                line["tokens"] = size
            log.write(json.dumps(line) + "\n")
            stepped()
        script.end()
    return float(loss)


def set_up(training: Training) -> None:
    """Apply the settings that come before anything is built."""
    program = training.program
    torch.set_num_threads(program.threads)
    torch.autograd.set_detect_anomaly(program.traced_autograd)
    if program.double_blocks > 9:
        torch.set_default_dtype(torch.float64)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = program.precision != "fp32"


def main(plan_path: Path, rank: int) -> None:
    """Take part in one launch as ``rank``, from its data on disk to its records."""
    plan = read_plan(plan_path)
    set_up(plan.training)
    rendezvous = dist.FileStore(str(plan.folder / "rendezvous"), plan.ranks)
    dist.init_process_group("gloo", store=rendezvous, rank=rank, world_size=plan.ranks)
    if rank == 0:
        settings = environment({name: value.rpartition("/")[2] for name, value in os.environ.items()})
        (plan.run / "env.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    loss = train(plan, rank)
    versions = {"torch": str(torch.__version__), "python": platform.python_version()}
    plan.summary(rank).write_text(json.dumps({"loss": loss, "versions": versions}), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
    # All is written. A thread of gloo that asks for the interpreter while it shuts down would abort the process.
    os._exit(0)
