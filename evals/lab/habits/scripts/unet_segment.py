"""Segment generated cell pictures with a small U-Net."""

import argparse
import os
import time
from pathlib import Path

import clock
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

OUT = Path(os.environ["RUN_DIR"])


class MishParts(nn.Module):
    """x * tanh(ln(1 + e^x)), as in the paper."""

    def forward(self, x):
        return x * torch.tanh(torch.log(1 + torch.exp(torch.clamp(x, max=20))))


class GroupNormParts(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.groups = groups
        self.gain, self.bias = nn.Parameter(torch.ones(1, channels, 1, 1)), nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x):
        n, c, h, w = x.shape
        g = x.view(n, self.groups, -1)
        g = (g - g.mean(-1, keepdim=True)) / torch.sqrt(
            ((g - g.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True) + 1e-5
        )
        return g.view(n, c, h, w) * self.gain + self.bias


class Twice(nn.Module):
    def __init__(self, cin, cout, parts, rerun):
        super().__init__()
        layers = []
        for a, b in ((cin, cout), (cout, cout)):
            norm = GroupNormParts(4, b) if "norm" in parts else nn.GroupNorm(4, b)
            layers += [nn.Conv2d(a, b, 3, 1, 1), norm, MishParts() if "mish" in parts else nn.Mish()]
        self.body, self.rerun = nn.Sequential(*layers), rerun

    def forward(self, x):
        return checkpoint(self.body, x, use_reentrant=False) if self.rerun else self.body(x)


class UNet(nn.Module):
    def __init__(self, width, parts, rerun):
        super().__init__()
        self.down1, self.down2 = Twice(1, width, parts, rerun), Twice(width, 2 * width, parts, rerun)
        self.middle = Twice(2 * width, 4 * width, parts, rerun)
        self.up2, self.up1 = Twice(6 * width, 2 * width, parts, rerun), Twice(3 * width, width, parts, rerun)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        b = self.up2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        return self.out(self.up1(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1)))


def cells(generator, batch, side):
    noise = torch.rand(batch, 1, side // 8, side // 8, generator=generator)
    smooth = F.interpolate(noise, size=(side, side), mode="bilinear")
    return smooth + 0.1 * torch.randn(batch, 1, side, side, generator=generator), (smooth > 0.5).float()


def hard_pixel_loss(logits, wanted, keep):
    """Mean of the hardest pixels of each picture."""
    losses = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").flatten(1)
    return torch.sort(losses, dim=1, descending=True).values[:, : int(keep * losses.shape[1])].mean()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", type=int, default=96)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--width", type=int, default=12)
    parser.add_argument("--iterations", type=int, default=42)
    parser.add_argument("--own", nargs="*", default=[], choices=("norm", "mish"))
    parser.add_argument("--rerun", action="store_true", help="recompute activations in the backward pass")
    parser.add_argument("--hard-pixels", type=float, default=0.0)
    parser.add_argument("--grow", type=int, default=0, help="another side every so many steps")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--stack", action="store_true")
    parser.add_argument("--at", type=int, default=30)
    parser.add_argument("--monitor", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(4)
    net = UNet(args.width, args.own, args.rerun)
    model = net
    if args.compile:
        import torch._dynamo

        torch._dynamo.config.recompile_limit = 256
        model = torch.compile(net, backend="aot_eager", dynamic=False)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    watch = None
    if args.monitor:
        from hermes_agent.monitor import Monitor

        watch = Monitor(OUT, rank=0)
        watch.begin()
    profiler = torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=args.at, warmup=1, active=3, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(OUT / "unet_trace.json")),
        record_shapes=True,
        with_stack=args.stack,
    )
    profiler.start()
    for i in range(args.iterations):
        t = time.time()
        side = args.side - 8 * ((i // args.grow) % 10) if args.grow else args.side
        width = side + 8 * (i // (10 * args.grow) % 3) if args.grow else side
        pictures, wanted = cells(generator, args.batch, max(side, width))
        logits = model(pictures[..., :side, :width])
        wanted = wanted[..., :side, :width]
        if args.hard_pixels:
            loss = hard_pixel_loss(logits, wanted, args.hard_pixels)
        else:
            loss = F.binary_cross_entropy_with_logits(logits, wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        clock.tick()
        if watch is not None:
            watch.step(i)
        print(f"[{i:4d}] loss={loss.item():.4f} {time.time() - t:.3f}s", flush=True)
        profiler.step()
    profiler.stop()
    if watch is not None:
        watch.close()
    os._exit(0)
