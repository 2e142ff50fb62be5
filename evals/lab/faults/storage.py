"""Checkpoints or log lines stall the training."""

from __future__ import annotations

from dataclasses import replace

from evals.lab.environment_faults.storage import SlowStore
from evals.lab.fault import Fault, Right, Symptom
from evals.lab.scenarios import Habits, Training, World
from evals.lab.variants import told, variants


def _saved(training: Training, habits: Habits) -> tuple[World, World]:
    return told(training, habits=habits), told(training, habits=replace(habits, saves_every=0))


def _saved_far(training: Training, store: SlowStore) -> tuple[World, World]:
    habits = Habits(saves_every=10, saved_mb=1)
    return replace(told(training, habits=habits), surroundings=(store,)), told(training, habits=habits)


def _logged_far(training: Training, store: SlowStore) -> tuple[World, World]:
    usual = told(training, habits=Habits(log_lines=4))
    return replace(usual, surroundings=(store,)), usual


def _logged(training: Training, lines: int) -> tuple[World, World]:
    habits = Habits(log_lines=lines, synced=True)
    return told(training, habits=habits), told(training, habits=replace(habits, synced=False))


FAULTS: tuple[Fault, ...] = (
    Fault(
        id="synchronous_saves",
        cause="checkpoint_stall",
        mechanism="synchronous_save",
        ranks=(0, 1),
        injected="Every few steps each rank writes its state to the disk and waits until it is there.",
        fix="Save once in many hundred steps (none in the measured ones), or aside.",
        must_name=("checkpoint",),
        sources=("steps", "monitor"),
        steps="those that save",
        statistic="mean",
        variants=variants(
            _saved,
            {
                "images-strong": Habits(saves_every=6, saved_mb=160, synced=True),
                "images-mild": Habits(saves_every=8, saved_mb=80, synced=True),
                "tokens-strong": Habits(saves_every=5, saved_mb=144, synced=True),
                "tokens-mild": Habits(saves_every=7, saved_mb=80, synced=True),
                "sounds-strong": Habits(saves_every=6, saved_mb=160, synced=True),
                "sounds-mild": Habits(saves_every=9, saved_mb=96, synced=True),
            },
        ),
    ),
    Fault(
        id="saves_to_slow_store",
        cause="checkpoint_stall",
        mechanism="slow_storage",
        ranks=(0, 1),
        injected="Checkpoints go to a file server with little bandwidth, and the training waits for it.",
        fix="Save to the local disk; move the file later.",
        must_name=("checkpoint",),
        sources=("steps", "monitor"),
        steps="those that save",
        statistic="mean",
        also_right=(Right("checkpoint_stall/synchronous_save", "saving aside removes the same wait"),),
        variants=variants(
            _saved_far,
            {
                "images-strong": SlowStore(mbyte_per_s=12),
                "images-mild": SlowStore(mbyte_per_s=60),
                "tokens-strong": SlowStore(mbyte_per_s=15),
                "tokens-mild": SlowStore(mbyte_per_s=70),
                "sounds-strong": SlowStore(mbyte_per_s=12),
                "sounds-mild": SlowStore(mbyte_per_s=50),
            },
        ),
    ),
    Fault(
        id="log_to_slow_store",
        cause="checkpoint_stall",
        mechanism="remote_logging",
        ranks=(0, 1),
        injected="Log lines of each step go to a file server that takes its time.",
        fix="Log to the local disk.",
        must_name=("log",),
        sources=("steps", "monitor"),
        symptoms=(Symptom("straggler", (0, 1)),),
        variants=variants(
            _logged_far,
            {
                "images-strong": SlowStore(mbyte_per_s=50, latency_ms=8),
                "images-mild": SlowStore(mbyte_per_s=50, latency_ms=2),
                "tokens-strong": SlowStore(mbyte_per_s=50, latency_ms=6),
                "tokens-mild": SlowStore(mbyte_per_s=50, latency_ms=2),
                "sounds-strong": SlowStore(mbyte_per_s=50, latency_ms=8),
                "sounds-mild": SlowStore(mbyte_per_s=50, latency_ms=3),
            },
        ),
    ),
    Fault(
        id="synced_log",
        cause="checkpoint_stall",
        mechanism="remote_logging",
        ranks=(0, 1),
        injected="Each log line of each step is brought to the disk before training goes on.",
        fix="Leave that to the system.",
        must_name=("log",),
        sources=("steps", "monitor"),
        also_right=(Right("checkpoint_stall/slow_storage", "the time goes into waiting for the disk"),),
        variants=variants(
            _logged,
            {
                "images-strong": 12,
                "images-mild": 4,
                "tokens-strong": 12,
                "tokens-mild": 4,
                "sounds-strong": 24,
                "sounds-mild": 12,
            },
        ),
    ),
)
