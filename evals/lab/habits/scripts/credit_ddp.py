"""Credit scoring with an MLP over tabular data, DistributedDataParallel, features prepared per batch."""

import argparse
import contextlib
import json
import os
import time
from pathlib import Path

import clock
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import profile, schedule

from hermes_agent import monitor

RUN_DIR = Path(os.environ.get("RUN_DIR", "."))


def rank_transform(x, bins):
    """Quantile features, column by column."""
    out = np.empty_like(x)
    for c in range(x.shape[1]):
        edges = np.quantile(x[:, c], np.linspace(0, 1, bins))
        out[:, c] = np.searchsorted(edges, x[:, c]) / bins
    return out


def mlp(width, depth, inputs):
    layers = []
    for k in range(depth):
        layers += [nn.Linear(inputs if k == 0 else width, width), nn.BatchNorm1d(width), nn.SiLU()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=512, help="rows per batch and rank")
    ap.add_argument("--columns", type=int, default=64)
    ap.add_argument("--width", type=int, default=384)
    ap.add_argument("--depth", type=int, default=4)
    ap.add_argument("--bins", type=int, default=0, help="quantile features with so many bins, 0 for none")
    ap.add_argument("--bins-on", type=int, nargs="*", help="only on these ranks (their region's data comes unprepared)")
    ap.add_argument("--accumulate", type=int, default=1)
    ap.add_argument("--no-sync", type=int, default=1)
    ap.add_argument("--validate-every", type=int, default=0)
    ap.add_argument("--validate-batches", type=int, default=2)
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--wait", type=int, default=48)
    ap.add_argument("--active", type=int, default=4)
    ap.add_argument("--monitor", action="store_true")
    a = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    rng = np.random.default_rng(rank)
    table = rng.standard_normal((16 * a.rows, a.columns)).astype(np.float32)
    target = torch.from_numpy((table.sum(1) > 0).astype(np.float32))
    bins = a.bins if a.bins_on is None or rank in a.bins_on else 0
    torch.manual_seed(2)
    net = nn.parallel.DistributedDataParallel(mlp(a.width, a.depth, a.columns))
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    if a.monitor:
        monitor.start(RUN_DIR)
        monitor.watch_model(net)
    bce = nn.BCEWithLogitsLoss()
    log = (RUN_DIR / f"log_{rank}.jsonl").open("w")

    def batch():
        at = rng.integers(0, 15 * a.rows)
        x = table[at : at + a.rows]
        return torch.from_numpy(rank_transform(x, bins) if bins else x), target[at : at + a.rows]

    with profile(
        schedule=schedule(wait=a.wait, warmup=1, active=a.active, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(RUN_DIR / f"worker{rank}.pt.trace.json.gz")),
    ) as prof:
        for step in range(a.steps):
            begin = time.perf_counter()
            opt.zero_grad()
            for k in range(a.accumulate):
                last = k == a.accumulate - 1
                with contextlib.nullcontext() if last or not a.no_sync else net.no_sync():
                    x, y = batch()
                    loss = bce(net(x).squeeze(1), y)
                    (loss / a.accumulate).backward()
            opt.step()
            if a.validate_every and step % a.validate_every == a.validate_every - 1:
                net.eval()
                with torch.no_grad():
                    held = [
                        bce(net.module(x).squeeze(1), y).item() for x, y in (batch() for _ in range(a.validate_batches))
                    ]
                net.train()
                log.write(json.dumps({"step": step, "val_loss": float(np.mean(held))}) + "\n")
            took = time.perf_counter() - begin
            log.write(json.dumps({"step": step, "loss": loss.item(), "seconds": round(took, 5)}) + "\n")
            if rank == 0 and step % 20 == 0:
                print(f"{step}: loss {loss.item():.4f}, {a.rows * a.accumulate * world / took:.0f} rows/s", flush=True)
            clock.tick()
            if a.monitor:
                monitor.step(step)
            prof.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
