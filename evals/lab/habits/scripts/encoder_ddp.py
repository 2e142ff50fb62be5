"""Masked-token pre-training of a small transformer encoder, data parallel."""

import argparse
import json
import os
import time
from contextlib import nullcontext
from pathlib import Path

import clock
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

run_dir = Path(os.environ["RUN_DIR"])
rank = int(os.environ.get("RANK", 0))
world = int(os.environ.get("WORLD_SIZE", 1))


class Encoder(nn.Module):
    def __init__(self, vocab, dim, depth, heads, length):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        self.positions = nn.Parameter(torch.zeros(1, length, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(dim, vocab)
        self.pooler = nn.Linear(dim, dim)

    def forward(self, ids):
        return self.head(self.layers(self.tokens(ids) + self.positions[:, : ids.shape[1]]))


def synthetic_batch(generator, batch, length, vocab):
    ids = torch.randint(5, vocab, (batch, length), generator=generator)
    mask = torch.rand(batch, length, generator=generator) < 0.15
    return ids.masked_fill(mask, 4), ids


def global_norm(parameters):
    """For the dashboard."""
    return torch.sqrt(sum((p.grad.detach() ** 2).sum() for p in parameters if p.grad is not None))


def make_index(count):
    """Look-up of documents by key, kept for sampling."""
    return {f"doc-{i}": {"id": i, "spans": [i, i + 1], "meta": {"lang": "en"}} for i in range(count)}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=46)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--length", type=int, default=64)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--depth", type=int, default=4)
    ap.add_argument("--vocab", type=int, default=2000)
    ap.add_argument("--accumulate", type=int, default=1)
    ap.add_argument("--no-sync", action="store_true")
    ap.add_argument("--find-unused", action="store_true")
    ap.add_argument("--reduce", choices=("ddp", "after"), default="ddp")
    ap.add_argument("--bucket-mb", type=float, default=25)
    ap.add_argument("--index", type=int, default=0)
    ap.add_argument("--index-rank", type=int, default=0)
    ap.add_argument("--collect-every", type=int, default=0)
    ap.add_argument("--threads", type=int, default=0)
    ap.add_argument("--profile-wait", type=int, default=34)
    ap.add_argument("--active", type=int, default=3)
    ap.add_argument("--with-stack", action="store_true")
    ap.add_argument("--monitor", action="store_true")
    args = ap.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    if world > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Encoder(args.vocab, args.dim, args.depth, 4, args.length)
    if not args.find_unused:
        del model.pooler
    net = model
    if world > 1 and args.reduce == "ddp":
        net = DDP(model, find_unused_parameters=args.find_unused, bucket_cap_mb=args.bucket_mb)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    generator = torch.Generator().manual_seed(rank)
    index = make_index(args.index) if rank == args.index_rank else {}
    watch = None
    if args.monitor:
        from hermes_agent.monitor import Monitor

        watch = Monitor(run_dir, rank=rank)
        watch.begin()
    prof = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=args.profile_wait, warmup=1, active=args.active, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(run_dir / "tb")),
        record_shapes=True,
        with_stack=args.with_stack,
    )
    prof.start()
    for step in range(args.steps):
        began = time.perf_counter()
        for micro in range(args.accumulate):
            masked, ids = synthetic_batch(generator, args.batch, args.length, args.vocab)
            skip = args.no_sync and micro + 1 < args.accumulate and world > 1
            with net.no_sync() if skip else nullcontext():
                logits = net(masked)
                loss = F.cross_entropy(logits.flatten(0, 1), ids.flatten()) / args.accumulate
                loss.backward()
        if world > 1 and args.reduce == "after":
            flat = torch.cat([p.grad.flatten() for p in model.parameters()])
            dist.all_reduce(flat)
            flat /= world
            offset = 0
            for p in model.parameters():
                p.grad.copy_(flat[offset : offset + p.numel()].view_as(p))
                offset += p.numel()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if args.collect_every and step % args.collect_every == 0:
            import gc

            gc.collect()
        clock.tick()
        if watch is not None:
            watch.step(step)
        if rank == 0:
            ms = (time.perf_counter() - began) * 1e3
            record = {"step": step, "loss": round(loss.item() * args.accumulate, 4), "step_time_ms": round(ms, 2)}
            print(json.dumps({**record, "docs": len(index)}), flush=True)
        prof.step()
    prof.stop()
    if watch is not None:
        watch.close()
    if world > 1:
        dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
