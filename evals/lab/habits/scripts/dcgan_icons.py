"""DCGAN on 32 by 32 icons."""

import argparse
import os
import threading
import time
from collections import deque
from pathlib import Path

import clock
import torch
import torch.nn as nn
from torch.profiler import ProfilerActivity, profile, schedule

from hermes_agent import monitor

RUN_DIR = Path(os.environ.get("RUN_DIR", "."))


class Dashboard(threading.Thread):
    """Keeps an HTML page with sparklines of the losses up to date while training runs."""

    def __init__(self, path, interval):
        super().__init__(name="dashboard", daemon=True)
        self.path, self.interval = path, interval
        self.points = deque(maxlen=4000)
        self.points.extend((0.1 * (k % 17), 0.2 * (k % 11)) for k in range(4000))

    def run(self):
        while True:
            rows = []
            for name, column in (("d", 0), ("g", 1)):
                values = [p[column] for p in list(self.points)]
                top = max(values) or 1.0
                path = " ".join(
                    f"{'M' if k == 0 else 'L'}{k / 10:.1f},{100 - 100 * v / top:.2f}" for k, v in enumerate(values)
                )
                rows.append(f"<svg id={name}><path d='{path}'/></svg>")
            self.path.write_text("<html>" + "".join(rows) + "</html>")
            time.sleep(self.interval)


def generator(nz, c):
    return nn.Sequential(
        nn.ConvTranspose2d(nz, 4 * c, 4, 1, 0, bias=False), nn.BatchNorm2d(4 * c), nn.ReLU(True),
        nn.ConvTranspose2d(4 * c, 2 * c, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * c), nn.ReLU(True),
        nn.ConvTranspose2d(2 * c, c, 4, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(True),
        nn.ConvTranspose2d(c, 3, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip


def discriminator(c):
    return nn.Sequential(
        nn.Conv2d(3, c, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True),
        nn.Conv2d(c, 2 * c, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * c), nn.LeakyReLU(0.2, True),
        nn.Conv2d(2 * c, 4 * c, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * c), nn.LeakyReLU(0.2, True),
        nn.Conv2d(4 * c, 1, 4, 1, 0, bias=False),
    )  # fmt: skip


def save(path, tensors):
    """Write and make sure that it is on disk."""
    with path.open("wb") as f:
        torch.save(tensors, f)
        f.flush()
        os.fsync(f.fileno())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--niter", type=int, default=70)
    ap.add_argument("--batchSize", type=int, default=32)
    ap.add_argument("--ngf", type=int, default=32)
    ap.add_argument("--nz", type=int, default=64)
    ap.add_argument("--dashboard", type=float, default=0.0, help="seconds between two refreshes, 0 for none")
    ap.add_argument("--snapshot", type=int, default=0, help="iterations between two snapshots, 0 for none")
    ap.add_argument("--keep-icons", type=int, default=512, help="generated icons in a snapshot")
    ap.add_argument("--double-d", action="store_true", help="discriminator in double precision")
    ap.add_argument("--prof", type=int, nargs=2, default=(58, 4))
    ap.add_argument("--monitor", action="store_true")
    opt = ap.parse_args()
    torch.manual_seed(99)
    kind = torch.float64 if opt.double_d else torch.float32
    g, d = generator(opt.nz, opt.ngf), discriminator(opt.ngf).to(kind)
    bce = nn.BCEWithLogitsLoss()
    og = torch.optim.Adam(g.parameters(), 2e-4, (0.5, 0.999))
    od = torch.optim.Adam(d.parameters(), 2e-4, (0.5, 0.999))
    icons = torch.rand(1024, 3, 32, 32) * 2 - 1
    if opt.monitor:
        monitor.start(RUN_DIR)
    board = Dashboard(Path("dashboard.html"), opt.dashboard) if opt.dashboard else None
    if board:
        board.start()
    prof = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=opt.prof[0], warmup=1, active=opt.prof[1], repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(RUN_DIR / "gan_profile.json.gz")),
    )
    prof.start()
    for i in range(opt.niter):
        real = icons[torch.randint(0, len(icons), (opt.batchSize,))].to(kind)
        fake = g(torch.randn(opt.batchSize, opt.nz, 1, 1))
        od.zero_grad()
        out_real, out_fake = d(real).flatten(), d(fake.detach().to(kind)).flatten()
        loss_d = bce(out_real, torch.ones_like(out_real)) + bce(out_fake, torch.zeros_like(out_fake))
        loss_d.backward()
        od.step()
        og.zero_grad()
        out = d(fake.to(kind)).flatten()
        loss_g = bce(out, torch.ones_like(out))
        loss_g.backward()
        og.step()
        if opt.snapshot and i % opt.snapshot == opt.snapshot - 1:
            with torch.no_grad():
                grid = fake.repeat(opt.keep_icons // opt.batchSize, 1, 1, 1)
            save(
                Path(f"snapshot_{i}.pt"),
                {"g": g.state_dict(), "d": d.state_dict(), "og": og.state_dict(), "icons": grid},
            )
        if board:
            board.points.append((loss_d.item(), loss_g.item()))
        if i % 5 == 0:
            print(
                f"[{i}/{opt.niter}] Loss_D: {loss_d.item():.4f} Loss_G: {loss_g.item():.4f} D(x): {out_real.mean():.4f}"
            )
        clock.tick()
        if opt.monitor:
            monitor.step(i, samples=opt.batchSize)
        prof.step()
    prof.stop()


if __name__ == "__main__":
    main()
