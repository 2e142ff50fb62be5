"""Node classification on a citation graph: two-layer GraphSAGE with sampled neighbours."""

import argparse
import os
import random
import sys
import time

import clock
import numpy as np
import torch
from torch import nn
from torch.profiler import profile, schedule

HERE = os.environ.get("RUN_DIR", ".")


class Graph:
    """Neighbours in CSR form, features as one matrix."""

    def __init__(self, nodes, degree, features, seed=11):
        rng = np.random.default_rng(seed)
        counts = rng.poisson(degree, nodes) + 1
        self.start = np.concatenate([[0], np.cumsum(counts)])
        self.neighbour = rng.integers(0, nodes, self.start[-1])
        self.x = torch.from_numpy(rng.standard_normal((nodes, features), dtype=np.float32))
        self.y = torch.from_numpy(rng.integers(0, 16, nodes))
        self.rng = rng

    def sample(self, nodes, fanout):
        """(len(nodes), fanout) neighbours, with replacement, all at once."""
        count = (self.start[nodes + 1] - self.start[nodes])[:, None]
        return self.neighbour[
            self.start[nodes][:, None] + (self.rng.random((len(nodes), fanout)) * count).astype(np.int64)
        ]

    def sample_each(self, nodes, fanout):
        """The same, node by node."""
        rows = []
        for node in nodes.tolist():
            own = self.neighbour[self.start[node] : self.start[node + 1]].tolist()
            rows.append([own[random.randrange(len(own))] for _ in range(fanout)])
        return np.array(rows)


class Sage(nn.Module):
    def __init__(self, features, hidden, classes, per_node):
        super().__init__()
        self.first, self.second = nn.Linear(2 * features, hidden), nn.Linear(2 * hidden, classes)
        self.per_node = per_node

    def pool(self, x):
        """(nodes, fanout, features) to the mean of each node's neighbours."""
        if self.per_node:
            return torch.stack([x[i].mean(0) for i in range(len(x))])
        return x.mean(1)

    def forward(self, seeds, one, two):
        h0 = torch.relu(self.first(torch.cat([seeds, self.pool(one)], -1)))
        b, f, _ = one.shape
        h1 = torch.relu(self.first(torch.cat([one.reshape(b * f, -1), two.mean(1)], -1))).view(b, f, -1)
        return self.second(torch.cat([h0, self.pool(h1)], -1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=60000)
    ap.add_argument("--features", type=int, default=128)
    ap.add_argument("--hidden", type=int, default=256)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--fanout", type=int, default=10)
    ap.add_argument("--sampler", choices=["csr", "each"], default="csr")
    ap.add_argument("--pool", choices=["mean", "stack"], default="mean")
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--wait", type=int, default=68)
    ap.add_argument("--active", type=int, default=3)
    ap.add_argument("--stack", action="store_true")
    a = ap.parse_args()
    g = Graph(a.nodes, 12, a.features)
    net = Sage(a.features, a.hidden, 16, a.pool == "stack")
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    draw = g.sample_each if a.sampler == "each" else g.sample
    prof = profile(
        schedule=schedule(wait=a.wait, warmup=2, active=a.active, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(f"{HERE}/sage.json"),
        with_stack=a.stack,
    )
    began, shown = time.perf_counter(), 0.0
    with prof:
        for step in range(a.steps):
            nodes = g.rng.integers(0, a.nodes, a.batch)
            one = draw(nodes, a.fanout)
            two = draw(one.reshape(-1), a.fanout)
            logits = net(g.x[nodes], g.x[one], g.x[two])
            loss = nn.functional.cross_entropy(logits, g.y[nodes])
            opt.zero_grad()
            loss.backward()
            opt.step()
            passed = time.perf_counter() - began
            if passed - shown > 0.5:
                shown = passed
                rate = (step + 1) / passed
                print(
                    f"\r{step + 1}/{a.steps} [{passed:.1f}s, {rate:.2f}it/s, loss={loss.item():.3f}]",
                    end="",
                    file=sys.stderr,
                )
            clock.tick()
            prof.step()
    print("", file=sys.stderr)


if __name__ == "__main__":
    main()
