"""Residual perceptron on a table, averaged over the ranks by hand."""

import argparse
import json
import os
import pathlib

import clock
import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.profiler import profile, record_function, schedule

rank = int(os.environ.get("RANK", "0"))
world = int(os.environ.get("WORLD_SIZE", "1"))
out = pathlib.Path(os.environ["RUN_DIR"])


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Table:
    def __init__(self, rows, columns):
        rng = np.random.default_rng(rank)
        self.x = rng.normal(size=(rows, columns)).astype(np.float32)
        self.y = rng.normal(size=rows).astype(np.float32)

    def draw(self, n):
        picked = np.random.randint(0, len(self.x), n)
        return torch.from_numpy(self.x[picked]), torch.from_numpy(self.y[picked])


def reduce_gradients(model, how):
    grads = [p.grad for p in model.parameters()]
    if how == "each":
        for grad in grads:
            dist.all_reduce(grad)
            grad.div_(world)
        return
    flat = torch.cat([g.reshape(-1) for g in grads])
    dist.all_reduce(flat)
    flat.div_(world)
    at = 0
    for grad in grads:
        grad.copy_(flat[at : at + grad.numel()].view_as(grad))
        at += grad.numel()


def histograms(model, bins):
    """Counts per bin of every weight matrix."""
    found = {}
    for name, p in model.named_parameters():
        values = p.detach().flatten().numpy()
        found[name] = np.histogram(values, bins)[0].tolist()
    return found


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--columns", type=int, default=64)
    p.add_argument("--width", type=int, default=192)
    p.add_argument("--blocks", type=int, default=6)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--reduce", choices=("flat", "each"), default="flat")
    p.add_argument("--histograms", action="store_true")
    p.add_argument("--log-rows", type=int, default=0)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--val-every", type=int, default=0)
    p.add_argument("--val-batches", type=int, default=4)
    p.add_argument("--save-every", type=int, default=0)
    p.add_argument("--moments", type=int, default=0, help="million further values in a checkpoint")
    p.add_argument("--active", type=int, default=4)
    p.add_argument("--wait", type=int, default=46)
    p.add_argument("--monitor", action="store_true")
    args = p.parse_args()

    if args.threads:
        torch.set_num_threads(args.threads)
    if world > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    table = Table(50_000, args.columns)
    model = nn.Sequential(
        nn.Linear(args.columns, args.width),
        *[Residual(args.width) for _ in range(args.blocks)],
        nn.Linear(args.width, 1),
    )
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    extra = torch.rand(args.moments * 1_000_000) if args.moments else None
    lines = (out / f"log_{rank}.jsonl").open("w")
    watch = None
    if args.monitor:
        from hermes_agent.monitor import Monitor

        watch = Monitor(out, rank=rank)
        watch.begin()

    def finished(prof):
        prof.export_chrome_trace(str(out / f"profile-rank{rank}.json"))

    with profile(
        schedule=schedule(wait=args.wait, warmup=1, active=args.active, repeat=1), on_trace_ready=finished
    ) as prof:
        for step in range(args.steps):
            with record_function("data"):
                x, y = table.draw(args.batch)
            with record_function("train"):
                loss = nn.functional.huber_loss(model(x).squeeze(1), y)
                optimizer.zero_grad()
                loss.backward()
                if world > 1:
                    reduce_gradients(model, args.reduce)
                optimizer.step()
            entry = {"step": step, "loss": loss.item()}
            if args.histograms and rank == 0:
                entry["histograms"] = histograms(model, 64)
            lines.write(json.dumps(entry) + "\n")
            for row in range(args.log_rows):
                lines.write(json.dumps({"step": step, "row": row, "x": float(x[row, 0])}) + "\n")
            if args.val_every and step % args.val_every == args.val_every - 1:
                with torch.no_grad(), record_function("validate"):
                    total = sum(float(model(table.draw(args.batch)[0]).mean()) for _ in range(args.val_batches))
                print(f"step {step + 1}: validation {total / args.val_batches:.4f}", flush=True)
            if args.save_every and step % args.save_every == args.save_every - 1 and rank == 0:
                with open("checkpoint.pt", "wb") as file:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "ema": extra}, file)
                    file.flush()
                    os.fsync(file.fileno())
            clock.tick()
            if watch is not None:
                watch.step(step)
            prof.step()
    lines.close()
    if rank == 0:
        print(f"done: {args.steps} steps, last loss {loss.item():.4f}", flush=True)
    if watch is not None:
        watch.close()
    if world > 1:
        dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
