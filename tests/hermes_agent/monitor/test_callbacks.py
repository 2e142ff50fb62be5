from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from hermes_agent.monitor.api import LightningCallback, TrainerCallback
from tests.hermes_agent.monitor.monitored import options
from tools.sources.monitor.reader import read_monitor


class Model:
    def parameters(self) -> tuple[()]:
        return ()


@dataclass
class State:
    global_step: int


def test_a_lightning_trainers_batches_are_steps(run_folder: Path) -> None:
    callback = LightningCallback(run_folder, options=options())
    trainer = object()
    assert callback.state_key == "hermes_dx_monitor"
    assert callback.state_dict() == {}
    callback.setup(trainer, Model(), stage="fit")
    callback.on_train_start(trainer, Model())
    for batch in range(3):
        callback.on_train_batch_start(trainer, Model(), None, batch)
        callback.on_train_batch_end(trainer, Model(), None, None, batch)
    callback.on_validation_end(trainer, Model())
    callback.on_train_end(trainer, Model())
    assert list(read_monitor(run_folder).steps["step"]) == [0, 1, 2]


@dataclass
class Trainer:
    global_rank: int


def test_the_rank_is_lightnings_where_no_launcher_names_one(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    callback = LightningCallback(run_folder, options=options())
    callback.on_train_start(Trainer(3), Model())
    callback.on_train_batch_end(Trainer(3), Model(), None, None, 0)
    callback.on_train_end(Trainer(3), Model())
    assert [each.rank for each in read_monitor(run_folder).ranks] == [3]


def test_a_lightning_training_that_fails_leaves_whole_records(run_folder: Path) -> None:
    callback = LightningCallback(run_folder, options=options())
    callback.on_train_start(object(), Model())
    callback.on_train_batch_end(object(), Model(), None, None, 0)
    callback.on_exception(object(), Model(), ValueError("loss is nan"))
    assert read_monitor(run_folder).ranks[0].ended_in_order


def test_hugging_face_steps_carry_the_trainers_number(run_folder: Path) -> None:
    callback = TrainerCallback(run_folder, options=options())
    callback.on_init_end(object(), State(0), object())
    callback.on_train_begin(object(), State(10), object(), model=Model(), optimizer=None)
    for done in (11, 12):
        callback.on_step_begin(object(), State(done - 1), object())
        callback.on_step_end(object(), State(done), object(), model=Model())
    callback.on_train_end(object(), State(12), object())
    assert list(read_monitor(run_folder).steps["step"]) == [10, 11]


def test_what_is_no_hook_is_missing_as_on_any_object() -> None:
    with pytest.raises(AttributeError, match="colour"):
        _ = TrainerCallback().colour
