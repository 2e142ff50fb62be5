"""Lightning: a convolutional autoencoder on generated digits."""

import argparse
import gc
import os

import clock
import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint, TQDMProgressBar
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.profilers import PyTorchProfiler
from torch import nn
from torch.utils.data import DataLoader, Dataset

RUN_DIR = os.environ["RUN_DIR"]


class Strokes(Dataset):
    """Pictures of a few strokes; with `elastic`, bent anew every time."""

    def __init__(self, count, side, elastic, seed):
        rng = np.random.default_rng(seed)
        self.elastic, self.side = elastic, side
        self.pictures = np.zeros((count, side, side), dtype=np.float32)
        for picture in self.pictures:
            for _ in range(4):
                (x, y), (dx, dy) = rng.uniform(side * 0.2, side * 0.8, 2), rng.uniform(-1, 1, 2)
                for t in range(side // 3):
                    picture[int(y + dy * t) % side, int(x + dx * t) % side] = 1.0

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        picture = self.pictures[index]
        for _ in range(self.elastic):
            field = np.random.normal(0, 1.2, (2, self.side, self.side))
            for axis in (1, 2):
                field = (np.roll(field, 1, axis) + field + np.roll(field, -1, axis)) / 3
            rows, columns = np.mgrid[: self.side, : self.side]
            rows = np.clip(np.rint(rows + field[0]), 0, self.side - 1).astype(int)
            columns = np.clip(np.rint(columns + field[1]), 0, self.side - 1).astype(int)
            picture = picture[rows, columns]
        return torch.from_numpy(picture)[None]


class AutoEncoder(L.LightningModule):
    def __init__(self, width, side):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * width * (side // 4) ** 2, 64),
        )
        self.decoder = nn.Sequential(
            nn.Linear(64, 2 * width * (side // 4) ** 2),
            nn.Unflatten(1, (2 * width, side // 4, side // 4)),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 1, 4, 2, 1),
        )

    def training_step(self, batch, batch_idx):
        loss = F.mse_loss(self.decoder(self.encoder(batch)), batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", F.mse_loss(self.decoder(self.encoder(batch)), batch), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class StepClock(L.Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        clock.tick()


class MonitorCallback(L.Callback):
    def on_train_start(self, trainer, pl_module):
        from hermes_agent.monitor import Monitor

        self.monitor = Monitor(RUN_DIR, rank=trainer.global_rank)
        self.monitor.begin()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.monitor.step(trainer.global_step)

    def on_train_end(self, trainer, pl_module):
        self.monitor.close()


class Tidy(L.Callback):
    """Free memory after every batch; keeps a replay table."""

    def __init__(self, entries, every):
        self.every = every
        self.replay = [{"key": i, "history": [i]} for i in range(entries)]

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if self.every and batch_idx % self.every == 0:
            gc.collect()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=56)
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--width", type=int, default=40)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--elastic", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--val-every", type=int, default=1000)
    parser.add_argument("--val-rows", type=int, default=512)
    parser.add_argument("--replay", type=int, default=0)
    parser.add_argument("--tidy-every", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--profiler", choices=("window", "always", "callback"), default="window")
    parser.add_argument("--profile-wait", type=int, default=40)
    parser.add_argument("--with-stack", action="store_true")
    parser.add_argument("--with-memory", action="store_true")
    parser.add_argument("--monitor", action="store_true")
    args = parser.parse_args()

    L.seed_everything(1)
    train = DataLoader(
        Strokes(args.batch_size * 100, args.side, args.elastic, 0),
        args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        persistent_workers=args.workers > 0,
    )
    validation = DataLoader(Strokes(args.val_rows, args.side, args.elastic, 1), args.batch_size)
    window = torch.profiler.schedule(wait=args.profile_wait, warmup=1, active=3, repeat=1)
    ready = torch.profiler.tensorboard_trace_handler(os.path.join(RUN_DIR, "profile"))
    profiler, own = None, None
    if args.profiler == "window":
        profiler = PyTorchProfiler(
            dirpath=RUN_DIR,
            filename="fit",
            schedule=window,
            on_trace_ready=ready,
            export_to_chrome=True,
            record_shapes=True,
            with_stack=args.with_stack,
        )
    callbacks = [StepClock(), TQDMProgressBar(refresh_rate=10)]
    if args.profiler != "window":
        # `always`: cycles follow each other for the whole run, the first one is kept.
        cycles = window if args.profiler == "callback" else torch.profiler.schedule(wait=0, warmup=0, active=3)
        written = []

        def once(finished):
            if not written:
                ready(finished)
            written.append(True)

        own = torch.profiler.profile(
            schedule=cycles,
            on_trace_ready=once,
            record_shapes=args.with_memory,
            with_stack=args.with_stack,
            profile_memory=args.with_memory,
        )

        class ProfileCallback(L.Callback):
            def on_train_start(self, trainer, pl_module):
                own.start()

            def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
                own.step()

            def on_train_end(self, trainer, pl_module):
                own.stop()

        callbacks.append(ProfileCallback())
    if args.replay or args.tidy_every:
        callbacks.append(Tidy(args.replay, args.tidy_every))
    if args.save_every:
        callbacks.append(ModelCheckpoint("checkpoints", every_n_train_steps=args.save_every, save_top_k=-1))
    if args.monitor:
        callbacks.append(MonitorCallback())
    trainer = L.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=args.max_steps,
        max_epochs=1,
        val_check_interval=min(args.val_every, 100),
        limit_val_batches=1.0 if args.val_every <= 100 else 0,
        num_sanity_val_steps=0,
        log_every_n_steps=5,
        logger=CSVLogger(RUN_DIR, name="csv"),
        callbacks=callbacks,
        profiler=profiler,
        enable_checkpointing=bool(args.save_every),
        enable_model_summary=False,
    )
    trainer.fit(AutoEncoder(args.width, args.side), train, validation)
