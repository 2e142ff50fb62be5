"""Two-tower retrieval model for a web shop: user history tower and item tower, sampled softmax."""

import argparse
import os
import random
import time
from pathlib import Path

import clock
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.profiler as tp

OUT = Path(os.getenv("RUN_DIR", "."))


class Towers(nn.Module):
    def __init__(self, items, users, dim, hidden, sparse):
        super().__init__()
        self.item = nn.Embedding(items, dim, sparse=sparse)
        self.user = nn.Embedding(users, dim, sparse=sparse)
        self.history = nn.Sequential(
            nn.Linear(2 * dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, dim)
        )
        self.candidate = nn.Sequential(
            nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, dim)
        )

    def forward(self, user, seen, positive, negatives):
        past = self.item(seen).mean(1)
        u = F.normalize(self.history(torch.cat([self.user(user), past], 1)), dim=1)
        pos = F.normalize(self.candidate(self.item(positive)), dim=1)
        neg = F.normalize(self.candidate(self.item(negatives)), dim=2)
        scores = torch.cat([(u * pos).sum(1, keepdim=True), torch.einsum("bd,bnd->bn", u, neg)], 1)
        return F.cross_entropy(scores / 0.07, torch.zeros(len(user), dtype=torch.long))


class Clicks:
    """Draws batches; negatives are items that the user has not seen."""

    def __init__(self, items, users, batch, negatives, vectorized):
        rng = np.random.default_rng(0)
        self.items, self.users, self.batch, self.negatives, self.vectorized = items, users, batch, negatives, vectorized
        self.seen = rng.integers(0, items, (users, 20))
        self.sets = None if vectorized else {}
        self.rng = rng

    def draw(self):
        user = self.rng.integers(0, self.users, self.batch)
        seen = self.seen[user]
        if self.vectorized:
            negatives = self.rng.integers(0, self.items, (self.batch, self.negatives))
        else:
            negatives = []
            for u in user.tolist():
                own = self.sets.setdefault(u, set(self.seen[u].tolist()))
                row = []
                while len(row) < self.negatives:
                    item = random.randrange(self.items)
                    if item not in own:
                        row.append(item)
                negatives.append(row)
        return [torch.as_tensor(np.asarray(c)) for c in (user, seen[:, :19], seen[:, 19], negatives)]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--items", type=int, default=120_000)
    ap.add_argument("--users", type=int, default=60_000)
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--hidden", type=int, default=256)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--negatives", type=int, default=24)
    ap.add_argument("--sparse", type=int, default=1)
    ap.add_argument("--vectorized-negatives", type=int, default=1)
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--profile", default="70:3")
    ap.add_argument("--stack", type=int, default=0)
    a = ap.parse_args()
    torch.manual_seed(7)
    random.seed(7)
    model = Towers(a.items, a.users, a.dim, a.hidden, bool(a.sparse))
    tables = list(model.item.parameters()) + list(model.user.parameters())
    dense = list(model.history.parameters()) + list(model.candidate.parameters())
    opts = [torch.optim.Adam(dense, 1e-3)]
    opts.append(torch.optim.SparseAdam(tables, 1e-3) if a.sparse else torch.optim.Adam(tables, 1e-3))
    clicks = Clicks(a.items, a.users, a.batch, a.negatives, bool(a.vectorized_negatives))
    first, count = map(int, a.profile.split(":"))
    with tp.profile(
        schedule=tp.schedule(skip_first=first - 2, wait=0, warmup=2, active=count, repeat=1),
        on_trace_ready=tp.tensorboard_trace_handler(OUT / "plugins", worker_name="shop"),
        record_shapes=True,
        with_stack=bool(a.stack),
    ) as p:
        tick = time.time()
        for step in range(1, a.steps + 1):
            batch = clicks.draw()
            loss = model(*batch)
            for o in opts:
                o.zero_grad()
            loss.backward()
            for o in opts:
                o.step()
            if step % 10 == 0:
                now = time.time()
                print(f"step={step} loss={loss.item():.4f} samples/s={10 * a.batch / (now - tick):.1f}")
                tick = now
            clock.tick()
            p.step()


if __name__ == "__main__":
    main()
