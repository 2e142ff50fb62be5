"""The monitor in real training; needs the extra ``lab``."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from hermes_agent.monitor.capture import TorchProfiler
from hermes_agent.watch.agent import AgentOptions, NodeAgent, Noticed
from hermes_agent.watch.anomaly import AnomalyKind
from hermes_agent.watch.rings import RequestLimits
from tests.hermes_agent.monitor.monitored import start_script
from tools.sources.load import load_run
from tools.sources.monitor.reader import read_monitor
from tools.sources.options import LoadOptions

pytest.importorskip("torch", reason="torch is not installed (extra `lab`)")

TRAINING = """
import hashlib, os, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from hermes_agent import monitor

FOLDER, WATCHED = sys.argv[1], sys.argv[5]
STEPS, WORKERS, FAULT_AT = map(int, sys.argv[2:5])
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
BATCH = 16
at = [0]

class Points(Dataset):
    def __len__(self):
        return BATCH * STEPS

    def __getitem__(self, index):
        if RANK == 1 and at[0] >= FAULT_AT:
            time.sleep(0.002)
        return torch.full((64,), index / 1000), index % 10

torch.set_num_threads(1)
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
if SIZE > 1:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(model)
if WATCHED == "yes":
    monitor.start(FOLDER, batch_size=BATCH)
    monitor.watch_model(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for points, labels in DataLoader(Points(), batch_size=BATCH, num_workers=WORKERS):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(points), labels).backward()
    optimizer.step()
    at[0] += 1
    if WATCHED == "yes":
        monitor.step()
if WATCHED == "yes":
    monitor.stop()
digest = hashlib.sha256()
for each in model.parameters():
    digest.update(each.detach().numpy().tobytes())
print(digest.hexdigest(), flush=True)
os._exit(0)
"""


def train(folder: Path, steps: int, workers: int, watched: str) -> str:
    process = start_script(TRAINING, str(folder), str(steps), str(workers), "-1", watched, RANK="0", WORLD_SIZE="1")
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out.split()[-1]


def test_the_monitor_does_not_change_what_is_learnt_and_sees_torchs_loader_and_gradients(run_folder: Path) -> None:
    assert train(run_folder, 12, 0, "yes") == train(run_folder, 12, 0, "no")
    steps = read_monitor(run_folder).steps
    assert list(steps["step"]) == list(range(12))
    assert list(steps["fetches"]) == [1] * 12
    assert (steps["data_wait_ms"] > 0).all()
    assert ((steps["own_ms"] > steps["data_wait_ms"]) & (steps["own_ms"] < steps["wall_ms"])).all()
    assert steps["result_queue"].isna().all()


def test_the_queues_of_a_loader_with_workers_are_seen(run_folder: Path) -> None:
    train(run_folder, 12, 1, "yes")
    steps = read_monitor(run_folder).steps
    assert len(steps) == 12
    assert steps["in_flight"].between(0, 2).all()
    assert steps["result_queue"].between(0, 2).all()
    assert steps["pinned_queue"].isna().all()


def test_in_real_training_the_late_rank_is_noticed_and_profiled_without_a_restart(run_folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    words = (str(run_folder), "300", "0", "200", "yes")
    ranks = [start_script(TRAINING, *words, RANK=str(rank), OMP_NUM_THREADS="1", **shared) for rank in (0, 1)]
    agent = NodeAgent(run_folder, AgentOptions(limits=RequestLimits(per_hour=20, apart_s=0.0), foreign=lambda _: ()))
    noticed: list[Noticed] = []
    deadline = time.monotonic() + 120
    while any(each.poll() is None for each in ranks) and time.monotonic() < deadline:
        noticed += agent.poll()
        time.sleep(agent.pause_s)
    weights = [each.communicate(timeout=10)[0].split()[-1] for each in ranks]
    assert weights[0] == weights[1]
    kinds = (AnomalyKind.CHANGE, AnomalyKind.RANK_CHANGE)
    changes = [each for each in noticed if each.anomaly.deviation.kind in kinds]
    late = [each for each in changes if each.anomaly.deviation.noticed >= 200 and each.anomaly.suspect is not None]
    assert late, [each.anomaly.claim for each in noticed]
    first = late[0]
    assert first.anomaly.deviation.noticed < 210
    assert first.anomaly.suspect is not None
    assert (first.anomaly.rank, first.anomaly.suspect.part) == (1, "data wait")
    assert first.capture is not None
    capture = run_folder / f"capture-{first.capture.request:04d}"
    compared, rank = load_run([capture], LoadOptions(cache_dir=None)).ranks
    assert (compared.rank, rank.rank) == (0, 1)
    assert len(rank.steps) == 3
    assert rank.steps[0].number > 200
    assert min(step.wall_ns for step in rank.steps) > 30e6  # sixteen samples of 2 ms each


GAN = """
import os, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from hermes_agent import monitor

torch.set_num_threads(1)
dist.init_process_group("gloo")
judge, maker = (DistributedDataParallel(nn.Linear(64, 64)) for _ in range(2))
judging, making = (torch.optim.SGD(each.parameters(), lr=0.01) for each in (judge, maker))
monitor.start(sys.argv[1])
for _ in range(12):
    if dist.get_rank() == 1:
        time.sleep(0.06)
    judging.zero_grad()
    judge(maker(torch.ones(8, 64)).detach()).square().mean().backward()
    judging.step()
    making.zero_grad()
    judge(maker(torch.ones(8, 64))).square().mean().backward()
    making.step()
    monitor.step()
monitor.stop()
os._exit(0)
"""


def test_with_two_optimizers_the_wait_for_a_late_rank_is_not_the_others_own_time(run_folder: Path) -> None:
    """The late rank holds up the exchange before the first of the two updates, as in a GAN."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [start_script(GAN, str(run_folder), RANK=str(rank), OMP_NUM_THREADS="1", **shared) for rank in (0, 1)]
    for each in ranks:
        assert each.wait(120) == 0
    steps = read_monitor(run_folder).steps
    own_ms = steps[steps["step"] > 1].groupby("rank")["own_ms"].median()
    assert own_ms[1] > 60
    assert own_ms[0] < 30


def test_a_script_that_profiles_itself_is_not_disturbed() -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]), pytest.raises(RuntimeError, match="another profiler is running"):
        TorchProfiler().start(0, 1)
