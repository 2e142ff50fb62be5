"""The callbacks as real trainers call them, and the same in a plain loop; each skips where its trainer is missing."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.hermes_agent.monitor.monitored import start_script
from tools.run.recorded.records import MonitorRecords
from tools.sources.monitor.reader import read_monitor

DATA = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FOLDER, STEPS = sys.argv[1], 6
torch.set_num_threads(1)
torch.manual_seed(3)

class Points(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        return {"inputs": torch.full((16,), index / 48), "labels": torch.tensor(index % 4)}

class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, inputs, labels):
        found = self.layers(inputs)
        return {"loss": nn.functional.cross_entropy(found, labels), "logits": found}
"""

PLAIN = """
from hermes_agent import monitor

model = Classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
monitor.start(FOLDER, batch_size=8)
monitor.watch_model(model)
for batch in DataLoader(Points(), batch_size=8):
    optimizer.zero_grad()
    model(**batch)["loss"].backward()
    optimizer.step()
    monitor.step()
"""

LIGHTNING = """
import warnings
warnings.filterwarnings("ignore")
import lightning
from hermes_agent.monitor import LightningCallback

FAIL_AT = int(sys.argv[2])

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Classifier()

    def training_step(self, batch, number):
        if number == FAIL_AT:
            raise ValueError("the loss is nan")
        return self.model(**batch)["loss"]

    def validation_step(self, batch, number):
        self.log("loss", self.model(**batch)["loss"])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)

quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False)
trainer = lightning.Trainer(
    max_steps=STEPS, accelerator="cpu", devices=1, val_check_interval=3, limit_val_batches=2,
    default_root_dir=FOLDER + "/own", callbacks=[LightningCallback(FOLDER, batch_size=8)], **quiet,
)
loader = DataLoader(Points(), batch_size=8)
trainer.fit(Module(), loader, DataLoader(Points(), batch_size=8))
trainer.save_checkpoint(FOLDER + "/own/end.ckpt")  # asks every callback for its state
"""

HUGGING_FACE = """
from transformers import Trainer, TrainingArguments
from hermes_agent.monitor import TrainerCallback

settings = TrainingArguments(
    output_dir=FOLDER + "/own", max_steps=STEPS, per_device_train_batch_size=4, gradient_accumulation_steps=2,
    use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, remove_unused_columns=False,
)
Trainer(Classifier(), settings, train_dataset=Points(), callbacks=[TrainerCallback(FOLDER, batch_size=8)]).train()
"""


def needs(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


def run(folder: Path, script: str, *words: str) -> tuple[int | None, str]:
    code, _, errors = outputs(folder, script, *words)
    return code, errors


def outputs(folder: Path, script: str, *words: str) -> tuple[int | None, str, str]:
    known = {"RANK": "0", "WORLD_SIZE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    process = start_script(DATA + script, str(folder), *words, **known)
    out, errors = process.communicate(timeout=300)
    assert "hermes-dx monitor:" not in errors, errors  # what it would say if it had failed
    return process.returncode, out, errors


def check_six_steps(records: MonitorRecords) -> None:
    (rank,) = records.ranks
    steps = records.steps
    assert rank.ended_in_order
    assert list(steps["step"]) == [0, 1, 2, 3, 4, 5]
    assert list(steps["first"]) == [True, *[False] * 5]
    assert (steps["data_wait_ms"] > 0).all()
    assert ((steps["own_ms"] > 0) & (steps["own_ms"] <= steps["wall_ms"])).all()
    assert (steps["samples_per_s"] * steps["wall_ms"] / 1e3).round(6).tolist() == [8.0] * 6


@needs("torch")
def test_a_plain_loop_is_recorded_and_ends_in_order_without_a_word(run_folder: Path) -> None:
    code, errors = run(run_folder, PLAIN)
    assert code == 0, errors
    records = read_monitor(run_folder)
    check_six_steps(records)
    assert list(records.steps["fetches"]) == [1] * 6


@needs("torch", "lightning")
def test_lightnings_trainer_records_each_training_batch_a_validation_before_it_counted_in(run_folder: Path) -> None:
    code, errors = run(run_folder, LIGHTNING, "-1")
    assert code == 0, errors
    records = read_monitor(run_folder)
    check_six_steps(records)
    assert list(records.steps["fetches"]) == [1, 1, 1, 3, 1, 1]


@needs("torch", "lightning")
def test_a_training_of_lightning_that_fails_leaves_the_steps_until_then_in_order(run_folder: Path) -> None:
    code, errors = run(run_folder, LIGHTNING, "4")
    assert code != 0
    assert "the loss is nan" in errors
    records = read_monitor(run_folder)
    assert list(records.steps["step"]) == [0, 1, 2, 3]
    assert records.ranks[0].ended_in_order


@needs("torch", "transformers", "accelerate")
def test_hugging_faces_trainer_records_each_optimizer_step_with_all_its_batches(run_folder: Path) -> None:
    code, errors = run(run_folder, HUGGING_FACE)
    assert code == 0, errors
    records = read_monitor(run_folder)
    check_six_steps(records)
    # Two batches for every step; accelerate fetches one ahead.
    assert list(records.steps["fetches"]) == [3, 2, 2, 2, 2, 2]


@needs("torch", "transformers", "accelerate")
def test_two_lines_give_a_verdict_at_the_end_of_hugging_faces_trainer(
    run_folder: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_DX_CACHE_DIR", str(shared_cache))
    without = HUGGING_FACE.replace("callbacks=[TrainerCallback(FOLDER, batch_size=8)]", "callbacks=[]")
    plain = without.replace("from hermes_agent.monitor import TrainerCallback\n", "").replace("STEPS,", "60,")
    script = plain.replace("Trainer(Classifier()", "trainer = Trainer(Classifier()").replace(").train()", ")")
    added = "from hermes_agent.monitor import TrainerCallback\n"
    added += "trainer.add_callback(watched := TrainerCallback(FOLDER, verdict=True))\n"
    shown = "trainer.train()\nprint(watched.summary['hermes/verdict'], watched.summary['hermes/step_ms'])\n"

    code, out, errors = outputs(run_folder, script + added + shown)

    assert code == 0, errors
    lines = [line for line in errors.splitlines() if line.startswith("hermes-dx: ")]
    verdict, step_ms = out.split()[-2:]
    assert len(lines) == 1
    assert lines[0].startswith(f"hermes-dx: {verdict.upper()}: ")
    steps = read_monitor(run_folder).steps["wall_ms"]
    assert steps.quantile(0.2) < float(step_ms) < steps.quantile(0.8)
