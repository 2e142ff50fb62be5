#!/usr/bin/env python
"""Click-through model: embedding bags, two towers of dense layers, binary cross entropy."""

import argparse
import csv
import os
import sys

import clock
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import profile, schedule

RANK = int(os.getenv("RANK", "0"))
WORLD = int(os.getenv("WORLD_SIZE", "1"))
OUT = os.environ["RUN_DIR"]


class ClickModel(nn.Module):
    def __init__(self, rows, tables, dim, dense, hidden, sparse):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, dim, mode="sum", sparse=sparse) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(dense, hidden), nn.ReLU(), nn.Linear(hidden, dim), nn.ReLU())
        width = dim * (tables + 1)
        layers = [nn.Linear(width, hidden), nn.ReLU()]
        for _ in range(6):
            layers += [nn.Linear(hidden, hidden), nn.ReLU()]
        self.top = nn.Sequential(*layers, nn.Linear(hidden, 1))

    def forward(self, dense, ids):
        parts = [self.bottom(dense)] + [bag(ids[:, t]) for t, bag in enumerate(self.bags)]
        return self.top(torch.cat(parts, dim=1)).squeeze(1)


class ClickLog:
    """Rows of the log; a row is text until it is asked for."""

    def __init__(self, n, rows, tables, hots, dense, as_text, seed):
        rng = np.random.default_rng(seed)
        self.dense = rng.random((n, dense), dtype=np.float32)
        self.ids = rng.zipf(1.3, (n, tables, hots)) % rows
        self.clicks = rng.integers(0, 2, n).astype(np.float32)
        self.lines = None
        if as_text:
            rows = zip(self.dense, self.ids.reshape(n, -1))
            self.lines = ["\t".join([*(f"{v:.5f}" for v in a), *(f"{v:x}" for v in b)]) for a, b in rows]

    def batch(self, picks):
        if self.lines is None:
            return torch.from_numpy(self.dense[picks]), torch.from_numpy(self.ids[picks]), self._clicks(picks)
        dense, ids = [], []
        for i in picks:
            fields = self.lines[i].split("\t")
            dense.append([float(v) for v in fields[: self.dense.shape[1]]])
            ids.append([int(v, 16) for v in fields[self.dense.shape[1] :]])
        shape = (len(picks), *self.ids.shape[1:])
        return torch.tensor(dense), torch.tensor(ids).view(shape), self._clicks(picks)

    def _clicks(self, picks):
        return torch.from_numpy(self.clicks[picks])


def average_each(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= WORLD


def average_flat(model):
    grads = [p.grad for p in model.parameters()]
    flat = torch._utils._flatten_dense_tensors(grads)
    dist.all_reduce(flat)
    flat /= WORLD
    for grad, part in zip(grads, torch._utils._unflatten_dense_tensors(flat, grads), strict=True):
        grad.copy_(part)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rows", type=int, default=100_000)
    p.add_argument("--tables", type=int, default=8)
    p.add_argument("--dim", type=int, default=16)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--hots", type=int, default=4)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--sparse", action="store_true")
    p.add_argument("--text", action="store_true")
    p.add_argument("--average", choices=("flat", "each"), default="flat")
    p.add_argument("--auc-every", type=int, default=0)
    p.add_argument("--shapes", action="store_true")
    p.add_argument("--stack", action="store_true")
    p.add_argument("--monitor", action="store_true")
    p.add_argument("--start-profile", type=int, default=46)
    args = p.parse_args()

    if WORLD > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = ClickModel(args.rows, args.tables, args.dim, 13, args.hidden, args.sparse)
    if args.sparse:
        dense_parameters = [*model.bottom.parameters(), *model.top.parameters()]
        optimizers = [torch.optim.SparseAdam(model.bags.parameters(), 1e-3), torch.optim.Adam(dense_parameters, 1e-3)]
    else:
        optimizers = [torch.optim.Adam(model.parameters(), 1e-3)]
    log = ClickLog(20_000, args.rows, args.tables, args.hots, 13, args.text, RANK)
    rng = np.random.default_rng(RANK)
    criterion = nn.BCEWithLogitsLoss()
    seen_scores, seen_clicks = [], []
    watch = None
    if args.monitor:
        from hermes_agent.monitor import Monitor

        watch = Monitor(OUT, rank=RANK)
        watch.begin()
    metrics = open(os.path.join(OUT, f"metrics_{RANK}.csv"), "w", newline="")
    table = csv.writer(metrics)
    table.writerow(["iteration", "loss", "auc"])
    profiler = profile(
        schedule=schedule(wait=args.start_profile, warmup=1, active=4, repeat=1),
        on_trace_ready=lambda prof: prof.export_chrome_trace(os.path.join(OUT, f"dlrm-r{RANK}.json.gz")),
        record_shapes=args.shapes,
        with_stack=args.stack,
    )
    profiler.start()
    for it in range(args.steps):
        dense, ids, clicks = log.batch(rng.integers(0, 20_000, args.batch))
        scores = model(dense, ids)
        loss = criterion(scores, clicks)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        if WORLD > 1:
            (average_each if args.average == "each" else average_flat)(model)
        for optimizer in optimizers:
            optimizer.step()
        auc = ""
        if args.auc_every and it % args.auc_every == 0:
            seen_scores += scores.tolist()
            seen_clicks += clicks.tolist()
            order = sorted(zip(seen_scores, seen_clicks, strict=True), key=lambda pair: pair[0])
            ranks = sum(i + 1 for i, pair in enumerate(order) if pair[1] > 0)
            positives = sum(seen_clicks)
            auc = round((ranks - positives * (positives + 1) / 2) / (positives * (len(order) - positives)), 4)
            seen_scores, seen_clicks = seen_scores[-20_000:], seen_clicks[-20_000:]
        table.writerow([it, f"{loss.item():.5f}", auc])
        clock.tick()
        if watch is not None:
            watch.step(it)
        if it % 20 == 0 and RANK == 0:
            sys.stdout.write(f"iter {it}: loss={loss.item():.4f} auc={auc}\n")
            sys.stdout.flush()
        profiler.step()
    profiler.stop()
    metrics.close()
    if watch is not None:
        watch.close()
    if WORLD > 1:
        dist.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
