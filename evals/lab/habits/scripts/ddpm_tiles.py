"""Denoising diffusion on small texture tiles. One process, CPU.

usage: ddpm_tiles.py [--preview-every N] [--attention-dtype float64] ...
"""

import argparse
import copy
import json
import logging
import math
import os
import time
from pathlib import Path

import clock
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler import profile

log = logging.getLogger("ddpm")
RUN = Path(os.environ.get("RUN_DIR", "."))
T = 200


def timestep_embedding(t, dim):
    freqs = torch.exp(-math.log(10000) * torch.arange(dim // 2) / (dim // 2))
    a = t[:, None].float() * freqs[None]
    return torch.cat([a.sin(), a.cos()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(8, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.emb = nn.Linear(emb, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x))) + self.emb(e)[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class SelfAttention(nn.Module):
    """Attention over all pixels, in the precision that is asked for."""

    def __init__(self, c, dtype):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.GroupNorm(8, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)
        self.dtype = dtype

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).flatten(2).to(self.dtype).chunk(3, dim=1)
        weights = torch.softmax(q.transpose(1, 2) @ k / math.sqrt(c), dim=-1)
        out = (v @ weights.transpose(1, 2)).to(x.dtype).view(b, c, h, w)
        return x + self.proj(out)


class UNet(nn.Module):
    def __init__(self, c=32, emb=64, dtype=torch.float32):
        super().__init__()
        self.emb = emb
        self.inp = nn.Conv2d(3, c, 3, padding=1)
        self.d1, self.d2 = ResBlock(c, c, emb), ResBlock(c, 2 * c, emb)
        self.mid, self.att = ResBlock(2 * c, 2 * c, emb), SelfAttention(2 * c, dtype)
        self.u2, self.u1 = ResBlock(4 * c, c, emb), ResBlock(2 * c, c, emb)
        self.out = nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x, t):
        e = timestep_embedding(t, self.emb)
        h1 = self.d1(self.inp(x), e)
        h2 = self.d2(F.avg_pool2d(h1, 2), e)
        h = self.att(self.mid(h2, e))
        h = F.interpolate(self.u2(torch.cat([h, h2], 1), e), scale_factor=2)
        return self.out(self.u1(torch.cat([h, h1], 1), e))


@torch.no_grad()
def preview(model, alphas, n, stride):
    """Draw a few samples from noise so that one sees how it goes."""
    x = torch.randn(n, 3, 32, 32)
    for i in reversed(range(0, T, stride)):
        eps = model(x, torch.full((n,), i))
        x0 = (x - (1 - alphas[i]).sqrt() * eps) / alphas[i].sqrt()
        before = alphas[max(i - stride, 0)]
        x = before.sqrt() * x0.clamp(-1, 1) + (1 - before).sqrt() * eps
    return x


def spectral_loss(a, b):
    """Difference of the log spectra at three scales: what the textures are judged by."""
    total = 0.0
    for k in (1, 2, 4):
        fa, fb = torch.fft.rfft2(F.avg_pool2d(a, k)), torch.fft.rfft2(F.avg_pool2d(b, k))
        total = total + (fa.abs().log1p() - fb.abs().log1p()).abs().mean()
    return total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=70)
    ap.add_argument("--bs", type=int, default=16)
    ap.add_argument("--preview-every", type=int, default=0)
    ap.add_argument("--preview-n", type=int, default=4)
    ap.add_argument("--preview-stride", type=int, default=20)
    ap.add_argument("--attention-dtype", default="float32")
    ap.add_argument("--spectral", type=float, default=0.0, help="weight of the spectral loss")
    ap.add_argument("--width", type=int, default=32)
    ap.add_argument("--trace-from", type=int, default=60)
    ap.add_argument("--trace-steps", type=int, default=4)
    ap.add_argument("--shapes", action="store_true")
    ap.add_argument("--stack", action="store_true")
    a = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(1)
    model = UNet(a.width, dtype=getattr(torch, a.attention_dtype))
    ema = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.Adam(model.parameters(), 2e-4)
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, T), 0)
    tiles = torch.rand(512, 3, 32, 32) * 2 - 1
    history = (RUN / "history.jsonl").open("w")
    prof = None
    t0 = time.perf_counter()
    for it in range(a.iters):
        if it == a.trace_from:
            prof = profile(record_shapes=a.shapes, with_stack=a.stack)
            prof.start()
        x0 = tiles[torch.randint(0, len(tiles), (a.bs,))]
        t = torch.randint(0, T, (a.bs,))
        noise = torch.randn_like(x0)
        ab = alphas[t][:, None, None, None]
        xt = ab.sqrt() * x0 + (1 - ab).sqrt() * noise
        eps = model(xt, t)
        loss = F.mse_loss(eps, noise)
        if a.spectral:
            loss = loss + a.spectral * spectral_loss((xt - (1 - ab).sqrt() * eps) / ab.sqrt(), x0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 0.005)
        if a.preview_every and it % a.preview_every == a.preview_every - 1:
            grid = preview(ema, alphas, a.preview_n, a.preview_stride)
            log.info("preview at %d: mean %.3f std %.3f", it, grid.mean(), grid.std())
        t1 = time.perf_counter()
        history.write(json.dumps({"it": it, "loss": round(loss.item(), 5), "it_s": round(t1 - t0, 4)}) + "\n")
        t0 = t1
        clock.tick()
        if prof is not None and it == a.trace_from + a.trace_steps - 1:
            prof.stop()
            prof.export_chrome_trace(str(RUN / "unet.trace.json"))
            prof = None
            t0 = time.perf_counter()
    log.info("finished after %d iterations", a.iters)


if __name__ == "__main__":
    main()
