"""Forecast load curves with a recurrent network."""

import argparse
import os
from pathlib import Path

import clock
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.profiler import profile
from tqdm import tqdm

RUN_DIR = Path(os.environ["RUN_DIR"])
RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))


class Curves(torch.utils.data.Dataset):
    def __init__(self, count, shortest, longest, weekly, features, dtype, same):
        rng = np.random.default_rng(7 if same else 7 + RANK)
        self.lengths = rng.integers(shortest, longest + 1, count)
        if weekly:
            self.lengths = np.where(rng.random(count) < weekly, longest, shortest)
        noise = np.random.default_rng(RANK)
        self.series = [np.cumsum(noise.normal(0, 1, (n, features)), axis=0).astype(dtype) / 10 for n in self.lengths]

    def __len__(self):
        return len(self.series)

    def __getitem__(self, i):
        values = torch.from_numpy(self.series[i])
        return values[:-1], values[1:, 0]


def collate(pairs):
    inputs, targets = zip(*pairs, strict=True)
    return pad_sequence(inputs, batch_first=True), pad_sequence(targets, batch_first=True)


class Forecaster(nn.Module):
    def __init__(self, features, hidden, stepwise):
        super().__init__()
        self.stepwise, self.hidden = stepwise, hidden
        self.encode = nn.Linear(features, hidden)
        self.rnn = nn.LSTMCell(hidden, hidden) if stepwise else nn.LSTM(hidden, hidden, batch_first=True)
        self.out = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, 1))

    def forward(self, x):
        x = self.encode(x)
        if not self.stepwise:
            return self.out(self.rnn(x)[0]).squeeze(-1)
        h = c = x.new_zeros(x.shape[0], self.hidden)
        predictions = []
        for t in range(x.shape[1]):
            h, c = self.rnn(x[:, t], (h, c))
            predictions.append(self.out(h).squeeze(-1))
        return torch.stack(predictions, dim=1)


def errors(prediction, target, history):
    """Mean absolute, percentage and symmetric errors over all that was seen, value by value."""
    for p, t in zip(prediction.flatten(), target.flatten()):
        off = (p - t).abs()
        history.append((off.item(), (off / (t.abs() + 1e-3)).item(), (off / (p.abs() + t.abs() + 1e-3)).item()))
    return np.mean(history[-2000:], axis=0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=52)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--shortest", type=int, default=96)
    parser.add_argument("--longest", type=int, default=96)
    parser.add_argument("--weekly", type=float, default=0.0, help="share of whole weeks, the others are days")
    parser.add_argument("--same-lengths", action="store_true")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--stepwise", action="store_true")
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--traced-steps", type=int, default=4)
    parser.add_argument("--stacks", action="store_true")
    parser.add_argument("--monitor", action="store_true")
    args = parser.parse_args()

    if WORLD > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(3)
    data = Curves(2000, args.shortest, args.longest, args.weekly, 6, args.dtype, args.same_lengths)
    order = np.random.default_rng(11).permutation(len(data)).tolist()
    loader = torch.utils.data.DataLoader(data, args.batch_size, sampler=order, collate_fn=collate, drop_last=True)
    model = Forecaster(6, args.hidden, args.stepwise).to(getattr(torch, args.dtype))
    net = nn.parallel.DistributedDataParallel(model) if WORLD > 1 else model
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    history = []
    watch = None
    if args.monitor:
        from hermes_agent.monitor import Monitor

        watch = Monitor(RUN_DIR, rank=RANK)
        watch.begin()
    profiler, step, batches = None, 0, iter(loader)
    bar = tqdm(total=args.iterations, desc="train", disable=RANK != 0, mininterval=0.5)
    while step < args.iterations:
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            continue
        if step == args.iterations - 10:
            profiler = profile(record_shapes=True, with_stack=args.stacks)
            profiler.start()
        x, y = batch
        prediction = net(x)
        loss = nn.functional.mse_loss(prediction, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        shown = {"loss": f"{loss.item():.3f}"}
        if args.errors:
            mae, mape, smape = errors(prediction.detach(), y, history)
            shown |= {"mae": f"{mae:.3f}", "mape": f"{mape:.3f}", "smape": f"{smape:.3f}"}
        bar.set_postfix(shown)
        bar.update(1)
        step += 1
        clock.tick()
        if watch is not None:
            watch.step(step)
        if profiler is not None and step == args.iterations - 10 + args.traced_steps:
            profiler.stop()
            profiler.export_chrome_trace(str(RUN_DIR / f"lstm.{RANK}.pt.trace.json"))
            profiler = None
    bar.close()
    if watch is not None:
        watch.close()
    if WORLD > 1:
        dist.barrier()
    os._exit(0)
