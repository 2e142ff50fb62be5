"""Keyword spotting with DistributedDataParallel: a CNN over log-mel frames of utterances of different length.

torchrun --nproc-per-node 2 kws_ddp.py --bucketing 1
"""

import argparse
import io
import lzma
import os
import time
import zlib
from pathlib import Path

import clock
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

RUN_DIR = Path(os.environ.get("RUN_DIR", "."))
PACK = {"raw": bytes, "zlib": zlib.compress, "lzma": lambda b: lzma.compress(b, preset=1)}
UNPACK = {"raw": bytes, "zlib": zlib.decompress, "lzma": lzma.decompress}


class KeywordNet(nn.Module):
    def __init__(self, width, blocks, speaker):
        super().__init__()
        self.stem = nn.Conv1d(40, width, 5, padding=2)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(width, width, 9, padding=4, groups=width),
                nn.Conv1d(width, width, 1),
                nn.GroupNorm(1, width),
                nn.ReLU(),
            )
            for _ in range(blocks)
        )
        self.head = nn.Linear(width, 35)
        self.speaker = nn.Linear(width, 64) if speaker else None

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        x = x.mean(-1)
        return self.head(x), None if self.speaker is None else self.speaker(x)


def write_corpus(folder, utterances, batch, packing, rank, shortest, longest):
    """Batches of this rank's shard in files of their own; gives the number of frames of each."""
    rng = np.random.default_rng(1000 + rank)
    folder.mkdir()
    frames = rng.integers(shortest, longest + 1, utterances // batch)
    for i, n in enumerate(frames):
        mel = np.round(rng.standard_normal((batch, 40, n)), 1).astype(np.float32)
        buffer = io.BytesIO()
        np.save(buffer, mel)
        (folder / f"{i:04d}.bin").write_bytes(PACK[packing](buffer.getvalue()))
    return frames


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--steps", type=int, default=70)
    ap.add_argument("--width", type=int, default=128)
    ap.add_argument("--blocks", type=int, default=5)
    ap.add_argument("--frames", type=int, nargs=2, default=(100, 100))
    ap.add_argument("--bucketing", type=int, default=0)
    ap.add_argument("--packing", nargs="+", default=["raw"], help="one for all ranks or one for each")
    ap.add_argument("--normalize", nargs="+", type=int, default=[0], help="sliding median passes per rank")
    ap.add_argument("--find-unused", type=int, default=0)
    ap.add_argument("--bucket-mb", type=float, default=25.0)
    ap.add_argument("--save-every", type=int, default=0)
    ap.add_argument("--speaker", type=int, default=0)
    ap.add_argument("--adam", type=int, default=0)
    ap.add_argument("--wait", type=int, default=56)
    ap.add_argument("--active", type=int, default=4)
    ap.add_argument("--log-every", type=int, default=10)
    a = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    packing = a.packing[rank % len(a.packing)]
    passes = a.normalize[rank % len(a.normalize)]
    folder = Path(f"shard{rank}")
    frames = write_corpus(folder, a.batch * a.steps, a.batch, packing, rank, *a.frames)
    order = np.argsort(frames, kind="stable") if a.bucketing else np.arange(len(frames))
    if a.bucketing:  # neighbours in length meet in one step, steps are shuffled alike on all ranks
        order = order[np.random.default_rng(4).permutation(len(order))]
    model = DDP(
        KeywordNet(a.width, a.blocks, a.speaker), find_unused_parameters=bool(a.find_unused), bucket_cap_mb=a.bucket_mb
    )
    opt = (
        torch.optim.Adam(model.parameters(), 1e-3)
        if a.adam
        else torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    )
    loss_fn = nn.CrossEntropyLoss()
    prof = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=a.wait, warmup=2, active=a.active, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(RUN_DIR / "traces"), worker_name=f"kws_rank{rank}", use_gzip=True),
        record_shapes=True,
    )
    prof.start()
    mark = time.time()
    for step, index in enumerate(order):
        raw = UNPACK[packing]((folder / f"{index:04d}.bin").read_bytes())
        mel = np.load(io.BytesIO(raw))
        for _ in range(passes):
            padded = np.pad(mel, ((0, 0), (0, 0), (15, 15)), mode="edge")
            mel = mel - np.median(np.lib.stride_tricks.sliding_window_view(padded, 31, axis=-1), axis=-1)
        x, y = torch.from_numpy(mel), torch.randint(0, 35, (a.batch,))
        keyword, speaker = model(x)
        loss = loss_fn(keyword, y)
        if speaker is not None:
            loss = loss + 0.01 * speaker.pow(2).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if rank == 0 and a.save_every and step % a.save_every == 0:
            state = {"step": step, "model": model.module.state_dict(), "optimizer": opt.state_dict()}
            torch.save(state, f"kws_{step}.ckpt")
            with open(f"kws_{step}.ckpt", "rb") as f:
                os.fsync(f.fileno())
        if rank == 0 and a.log_every and step % a.log_every == 0:
            speed = a.batch * world * a.log_every / (time.time() - mark)
            mark = time.time()
            print(f"step {step:4d}/{len(order)} loss {loss.item():.4f} {speed:.0f} utt/s", flush=True)
        clock.tick()
        prof.step()
    prof.stop()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
