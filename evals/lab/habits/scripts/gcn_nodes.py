"""Node classification with a graph convolution network; sampled neighbourhoods, one process or data parallel."""

import argparse
import logging
import os
import random
import time

import clock
import numpy as np
import torch
import torch.distributed as dist
from torch import nn

logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
log = logging.getLogger("gcn")
RUN_DIR = os.environ["RUN_DIR"]
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


class Graph:
    def __init__(self, nodes, degree, features, classes, double):
        rng = np.random.default_rng(5)
        self.neighbours = rng.integers(0, nodes, (nodes, degree))
        self.lists = None
        x = rng.normal(size=(nodes, features))
        self.x = torch.from_numpy(x if double else x.astype(np.float32))
        self.y = torch.from_numpy(rng.integers(0, classes, nodes))

    def as_lists(self):
        if self.lists is None:
            self.lists = [list(map(int, row)) for row in self.neighbours]
        return self.lists

    def sample_fast(self, seeds, fan):
        picks = self.neighbours[seeds][:, np.random.randint(0, self.neighbours.shape[1], fan)]
        return np.concatenate([seeds, picks.ravel()]), None

    def sample(self, seeds, fan):
        """Neighbours drawn node by node."""
        lists, nodes = self.as_lists(), [int(s) for s in seeds]
        for seed in seeds:
            own = lists[seed]
            weights = [1 / (1 + len(lists[n])) for n in own]
            nodes += random.choices(own, weights, k=fan)
        return np.asarray(nodes), None


class Layer(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.own, self.other = nn.Linear(cin, cout), nn.Linear(cin, cout)

    def forward(self, own, others):
        return torch.relu(self.own(own) + self.other(others))


class Net(nn.Module):
    def __init__(self, features, hidden, classes, fan, looped, depth):
        super().__init__()
        self.first = Layer(features, hidden)
        self.deep = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth))
        self.last = nn.Linear(hidden, classes)
        self.fan, self.looped = fan, looped

    def forward(self, x, seeds):
        own, others = x[:seeds], x[seeds:].view(seeds, self.fan, -1)
        if self.looped:
            pooled = torch.stack([others[i].max(dim=0).values for i in range(seeds)])
        else:
            pooled = others.max(dim=1).values
        h = self.first(own, pooled)
        for linear in self.deep:
            h = torch.relu(linear(h)) + h
        return self.last(h)


def confusion(matrix, predicted, wanted):
    for p, w in zip(predicted, wanted):
        matrix[int(w), int(p)] += 1
    return matrix


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=20000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--fan", type=int, default=10)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--iters", type=int, default=56)
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--looped", action="store_true")
    parser.add_argument("--sampler", choices=("array", "list"), default="array")
    parser.add_argument("--confusion", action="store_true")
    parser.add_argument("--stacks", action="store_true")
    parser.add_argument("--monitor", action="store_true")
    parser.add_argument("--traced-steps", type=int, default=4)
    parser.add_argument("--from-step", type=int, default=45)
    args = parser.parse_args()
    if WORLD > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    np.random.seed(RANK)
    graph = Graph(args.nodes, 24, args.features, 8, args.double)
    net = Net(args.features, args.hidden, 8, args.fan, args.looped, args.depth)
    if args.double:
        net = net.double()
    model = nn.parallel.DistributedDataParallel(net) if WORLD > 1 else net
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    matrix = torch.zeros(8, 8)
    watch = None
    if args.monitor:
        from hermes_agent.monitor import Monitor

        watch = Monitor(RUN_DIR, rank=RANK)
        watch.begin()
    profiler = torch.profiler.profile(record_shapes=True, with_stack=args.stacks)
    sampled = graph.sample if args.sampler == "list" else graph.sample_fast
    t0 = time.time()
    for it in range(args.iters):
        if it == args.from_step:
            profiler.start()
        seeds = np.random.randint(0, args.nodes, args.batch)
        nodes, _ = sampled(seeds, args.fan)
        x, y = graph.x[nodes], graph.y[seeds]
        logits = model(x, len(seeds))
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if args.confusion:
            matrix = confusion(matrix, logits.argmax(1), y)
        clock.tick()
        if watch is not None:
            watch.step(it)
        if it % 10 == 9 and RANK == 0:
            log.info("iteration %d loss %.4f time %.1f ms", it + 1, loss.item(), (time.time() - t0) * 100)
            t0 = time.time()
        if it == args.from_step + args.traced_steps - 1:
            profiler.stop()
            profiler.export_chrome_trace(os.path.join(RUN_DIR, f"gcn_rank{RANK}_steps.json"))
    if watch is not None:
        watch.close()
    if WORLD > 1:
        dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
