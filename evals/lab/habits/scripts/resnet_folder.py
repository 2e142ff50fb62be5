"""Train a small residual network on a folder of pictures, one subfolder per class."""

import argparse
import io
import os
import time
from multiprocessing.connection import Client
from pathlib import Path

import clock
import numpy as np
import torch
import torch.distributed as dist
from PIL import Image, ImageEnhance, ImageFilter
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import profile, schedule
from torch.utils.data import DataLoader, Dataset, RandomSampler

RUN = Path(os.environ["RUN_DIR"])
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def build_folder(root, classes, per_class, side):
    rng = np.random.default_rng(0)
    for label in range(classes):
        folder = root / f"class{label}"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(per_class):
            coarse = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
            picture = Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)
            picture.save(folder / f"{number}.jpg", quality=90)


class Shards:
    """Bytes of a file on the team's object store."""

    def __init__(self, address):
        self.address, self.pid, self.connection = address, 0, None

    def get(self, name):
        if self.pid != os.getpid():
            self.connection, self.pid = Client(self.address), os.getpid()
        self.connection.send(("read", name))
        return self.connection.recv()


class PictureFolder(Dataset):
    def __init__(self, root, side, augment):
        self.files = sorted(root.rglob("*.jpg"))
        self.side, self.augment = side, augment
        address = os.environ.get("SHARD_STORE")
        self.store = Shards(address) if address else None

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        file = self.files[index]
        raw = self.store.get(str(file)) if self.store else file.read_bytes()
        picture = Image.open(io.BytesIO(raw)).convert("RGB")
        if self.augment == "full":
            picture = picture.rotate(float(np.random.uniform(-15, 15)), Image.Resampling.BICUBIC)
            picture = picture.filter(ImageFilter.GaussianBlur(1.5))
            picture = ImageEnhance.Color(picture).enhance(float(np.random.uniform(0.6, 1.4)))
            picture = ImageEnhance.Contrast(picture).enhance(float(np.random.uniform(0.6, 1.4)))
        if picture.size[0] != self.side:
            picture = picture.resize((self.side, self.side), Image.Resampling.BILINEAR)
        pixels = np.asarray(picture, dtype=np.float32).transpose(2, 0, 1) / 255
        return torch.from_numpy(pixels.copy()), int(file.parent.name[5:])


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False) if stride != 1 or cin != cout else nn.Identity()

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.skip(x))


def build_model(width, classes):
    stages = [nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    for cin, cout, stride in ((1, 1, 1), (1, 2, 2), (2, 4, 2), (4, 8, 2)):
        stages += [Block(width * cin, width * cout, stride), Block(width * cout, width * cout, 1)]
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width * 8, classes))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=42, help="steps per epoch")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--sync-last-only", action="store_true")
    parser.add_argument("--source-side", type=int, default=64)
    parser.add_argument("--augment", choices=("none", "full"), default="none")
    parser.add_argument("--augment-rank", type=int, default=None, help="only this rank sees augmented pictures")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--find-unused", action="store_true")
    parser.add_argument("--stacks", action="store_true")
    parser.add_argument("--profile-at", type=int, default=29)
    parser.add_argument("--monitor", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(RANK)
    if args.threads:
        torch.set_num_threads(args.threads)
    root = Path("pictures") / f"part{RANK}"
    build_folder(root, 4, 64, args.source_side)
    if WORLD > 1:
        dist.init_process_group("gloo")
    augment = args.augment if args.augment_rank in (None, RANK) else "none"
    data = PictureFolder(root, 64, augment)
    needed = args.steps * args.accumulate * args.batch_size
    loader = DataLoader(
        data,
        batch_size=args.batch_size,
        sampler=RandomSampler(data, replacement=True, num_samples=needed),
        num_workers=args.workers,
        persistent_workers=args.persistent and args.workers > 0,
    )
    model = build_model(args.width, 4)
    if WORLD > 1:
        model = DistributedDataParallel(model, find_unused_parameters=args.find_unused)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loss_function = nn.CrossEntropyLoss()
    watch = None
    if args.monitor:
        from hermes_agent.monitor import Monitor

        watch = Monitor(RUN, rank=RANK)
        watch.begin()

    def export(finished):
        finished.export_chrome_trace(str(RUN / f"trace_{RANK}.json"))

    plan = schedule(wait=args.profile_at, warmup=1, active=3, repeat=1)
    with profile(schedule=plan, on_trace_ready=export, record_shapes=True, with_stack=args.stacks) as profiler:
        step, start = 0, time.time()
        for epoch in range(args.epochs):
            for number, (pictures, labels) in enumerate(loader):
                last = (number + 1) % args.accumulate == 0
                if args.sync_last_only and not last and WORLD > 1:
                    with model.no_sync():
                        (loss_function(model(pictures), labels) / args.accumulate).backward()
                    continue
                loss = loss_function(model(pictures), labels) / args.accumulate
                loss.backward()
                if not last:
                    continue
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                clock.tick()
                if watch is not None:
                    watch.step(step)
                if step % 10 == 0 and RANK == 0:
                    seconds = (time.time() - start) / 10
                    print(
                        f"Epoch [{epoch + 1}/{args.epochs}] Step [{step}] loss: {float(loss):.4f} ({seconds:.3f} s/it)"
                    )
                    start = time.time()
                profiler.step()
    if watch is not None:
        watch.close()
    del loader
    if WORLD > 1:
        dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
