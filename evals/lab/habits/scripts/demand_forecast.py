"""Demand forecast per article: a gated convolution network over days with recency features."""

import argparse
import os
import time
from pathlib import Path

import clock
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

RUN_DIR = Path(os.environ.get("RUN_DIR", "."))


class GatedBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(width, 2 * width, 3, dilation=dilation)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        a, b = self.conv(nn.functional.pad(x, (self.pad, 0))).chunk(2, 1)
        return self.norm((x + torch.tanh(a) * torch.sigmoid(b)).transpose(1, 2)).transpose(1, 2)


class Decay(nn.Module):
    """Exponential moving averages of the inputs with learned rates, step by step over the days."""

    def __init__(self, width):
        super().__init__()
        self.rate = nn.Parameter(torch.full((width,), 0.0))

    def forward(self, x):
        keep = torch.sigmoid(self.rate)[None, :]
        state, out = torch.zeros_like(x[:, :, 0]), []
        for t in range(x.shape[2]):
            state = keep * state + (1 - keep) * x[:, :, t]
            out.append(state)
        return torch.stack(out, 2)


class Forecaster(nn.Module):
    def __init__(self, width, blocks, decay):
        super().__init__()
        self.inp = nn.Conv1d(8, width, 1)
        self.blocks = nn.Sequential(*[GatedBlock(width, 2**k) for k in range(blocks)])
        self.decay = Decay(8) if decay else nn.Identity()
        self.out = nn.Linear(width, 14)

    def forward(self, x):
        return self.out(self.blocks(self.inp(self.decay(x)))[:, :, -1])


def recency(days, batch, half_life):
    """exp(-age / half_life) of the last sale; articles that were not sold for long fade to nothing."""
    age = torch.arange(days)[None, None, :] + torch.randint(0, 30, (batch, 8, 1))
    return torch.exp(-age.float() / half_life)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--width", type=int, default=64)
    ap.add_argument("--blocks", type=int, default=4)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--days", type=int, nargs="+", default=[128], help="history lengths, one is drawn per batch")
    ap.add_argument("--half-life", type=float, default=20.0)
    ap.add_argument("--flush", type=int, default=0)
    ap.add_argument("--decay", type=int, default=0)
    ap.add_argument("--compile", type=int, default=0)
    ap.add_argument("--static", type=int, default=0)
    ap.add_argument("--pad-to", type=int, default=0)
    ap.add_argument("--steps", type=int, default=70)
    ap.add_argument("--first", type=int, default=58)
    ap.add_argument("--count", type=int, default=4)
    ap.add_argument("--warmup", type=int, default=1)
    a = ap.parse_args()
    torch.manual_seed(5)
    if a.flush:
        torch.set_flush_denormal(True)
    net = Forecaster(a.width, a.blocks, a.decay)
    run = torch.compile(net, dynamic=False if a.static else None) if a.compile else net
    opt = torch.optim.RAdam(net.parameters(), 1e-3)
    prof = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=a.first, warmup=a.warmup, active=a.count, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(RUN_DIR)),
        record_shapes=True,
    )
    t = time.monotonic()
    with prof:
        for step in range(a.steps):
            days = a.days[int(torch.randint(0, len(a.days), ()))]
            x = recency(days, a.batch, a.half_life) * torch.rand(a.batch, 8, 1)
            if a.pad_to:
                x = nn.functional.pad(x, (a.pad_to - days, 0))
            y = torch.rand(a.batch, 14)
            loss = nn.functional.mse_loss(run(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 4 == 3:
                print(f"INFO step={step} mse={loss.item():.5f} step_time={(time.monotonic() - t) / 4:.3f}", flush=True)
                t = time.monotonic()
            clock.tick()
            prof.step()


if __name__ == "__main__":
    main()
