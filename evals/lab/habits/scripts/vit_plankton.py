"""Train a small vision transformer on plankton crops.

python vit_plankton.py --epochs 2 --workers 1 --augment strong
"""

import argparse
import csv
import os
import time
from pathlib import Path

import clock
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler
from torch.utils.data import DataLoader, Dataset

RUN_DIR = Path(os.environ.get("RUN_DIR", "."))


class PlanktonCrops(Dataset):
    """Grey crops of 64 by 64 pixels in one memory-mapped file."""

    def __init__(self, path, labels, augment, rounds):
        self.crops = np.load(path, mmap_mode="r")
        self.labels = labels
        self.augment = augment
        self.rounds = rounds

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        x = self.crops[i].astype(np.float32) / 255.0
        if self.augment == "flip":
            if np.random.rand() < 0.5:
                x = x[:, ::-1]
        elif self.augment == "strong":
            x = self.strong(x)
        return torch.from_numpy(np.ascontiguousarray(x))[None], int(self.labels[i])

    def strong(self, x):
        for _ in range(self.rounds):
            angle = np.random.uniform(-0.5, 0.5)
            c, s = np.cos(angle), np.sin(angle)
            yy, xx = np.mgrid[0:64, 0:64] - 31.5
            u = np.clip(c * xx - s * yy + 31.5, 0, 63).astype(np.int64)
            v = np.clip(s * xx + c * yy + 31.5, 0, 63).astype(np.int64)
            x = x[v, u]
            x = (x + np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1)) / 5.0
            x = np.clip(x ** np.random.uniform(0.8, 1.25) + np.random.normal(0, 0.02, x.shape), 0, 1)
        return x.astype(np.float32)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.heads = heads

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + self.out(a)
        return x + self.mlp(self.n2(x))


class PlanktonViT(nn.Module):
    def __init__(self, dim=128, depth=4, heads=4, classes=24):
        super().__init__()
        self.patch = nn.Conv2d(1, dim, 8, 8)
        self.pos = nn.Parameter(torch.randn(1, 64, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        return self.head(self.blocks(x).mean(1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--augment", choices=["none", "flip", "strong"], default="flip")
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--depth", type=int, default=4)
    p.add_argument("--profile-at", type=int, default=48)
    p.add_argument("--profile-steps", type=int, default=4)
    p.add_argument("--stack", action="store_true")
    args = p.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)

    rng = np.random.default_rng(5)
    n = args.batch * args.steps
    np.save("crops.npy", rng.integers(0, 255, (n, 64, 64), dtype=np.uint8))
    ds = PlanktonCrops("crops.npy", rng.integers(0, 24, n), args.augment, args.rounds)
    dl = DataLoader(ds, batch_size=args.batch, shuffle=True, num_workers=args.workers)
    model = PlanktonViT(depth=args.depth)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05)
    prof = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=args.profile_at, warmup=2, active=args.profile_steps, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(RUN_DIR / "tb"), use_gzip=True),
        with_stack=args.stack,
    )
    with prof, (RUN_DIR / "metrics.csv").open("w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["step", "loss", "acc", "sec"])
        t0 = time.time()
        for i, (x, y) in enumerate(dl):
            logits = model(x)
            loss = F.cross_entropy(logits, y, label_smoothing=0.1)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            now = time.time()
            out.writerow(
                [i, f"{loss.item():.4f}", f"{(logits.argmax(1) == y).float().mean().item():.3f}", f"{now - t0:.4f}"]
            )
            t0 = now
            clock.tick()
            prof.step()
    print("done", args.steps, "steps")


if __name__ == "__main__":
    main()
