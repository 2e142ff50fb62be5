"""Denoising autoencoder for ECG windows with Lightning.

python lit_denoiser.py --val_check_interval 200 --log_histograms 0
"""

import argparse
import os
from pathlib import Path

import clock
import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.profilers import PyTorchProfiler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

RUN_DIR = Path(os.environ.get("RUN_DIR", "."))


def conv(a, b, stride):
    return nn.Sequential(nn.Conv1d(a, b, 7, stride, 3), nn.BatchNorm1d(b), nn.LeakyReLU(0.1))


def deconv(a, b):
    return nn.Sequential(nn.ConvTranspose1d(a, b, 8, 2, 3), nn.BatchNorm1d(b), nn.LeakyReLU(0.1))


class Denoiser(L.LightningModule):
    def __init__(self, width=32, lr=1e-3, log_histograms=0):
        super().__init__()
        self.save_hyperparameters()
        w = width
        self.encoder = nn.Sequential(conv(2, w, 2), conv(w, 2 * w, 2), conv(2 * w, 4 * w, 2), conv(4 * w, 4 * w, 1))
        self.decoder = nn.Sequential(deconv(4 * w, 2 * w), deconv(2 * w, w), deconv(w, w), nn.Conv1d(w, 2, 7, 1, 3))

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        noisy = x + 0.2 * torch.randn_like(x)
        loss = nn.functional.smooth_l1_loss(self(noisy), x)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def on_after_backward(self):
        every = self.hparams.log_histograms
        if every and self.global_step % every == 0:
            for name, p in self.named_parameters():
                for kind, values in (("w", p.detach()), ("g", p.grad)):
                    edges = torch.quantile(values.flatten(), torch.linspace(0, 1, 33))
                    spread = (edges[-1] - edges[0]).item()
                    self.log(f"{kind}/{name}/spread", spread)
                    self.log(f"{kind}/{name}/std", values.std().item() if values.numel() > 1 else 0.0)

    def validation_step(self, batch, batch_idx):
        (x,) = batch
        self.log("val_loss", nn.functional.mse_loss(self(x + 0.2 * torch.randn_like(x)), x))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


class Tick(Callback):
    def on_train_batch_end(self, *_):
        clock.tick()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=70)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--width", type=int, default=32)
    ap.add_argument("--val_check_interval", type=int, default=0)
    ap.add_argument("--val_windows", type=int, default=128)
    ap.add_argument("--log_histograms", type=int, default=0)
    ap.add_argument("--save_every", type=int, default=0)
    ap.add_argument("--detect_anomaly", action="store_true")
    ap.add_argument("--profile_from", type=int, default=58)
    ap.add_argument("--profile_steps", type=int, default=4)
    a = ap.parse_args()
    L.seed_everything(3, workers=True)
    train = DataLoader(TensorDataset(torch.randn(a.batch * a.steps, 2, 1024)), a.batch, shuffle=True)
    val = DataLoader(TensorDataset(torch.randn(a.val_windows, 2, 1024)), a.batch)
    profiler = PyTorchProfiler(
        dirpath=str(RUN_DIR),
        filename="ecg",
        export_to_chrome=True,
        schedule=torch.profiler.schedule(wait=a.profile_from, warmup=1, active=a.profile_steps, repeat=1),
        record_shapes=True,
    )
    callbacks = [Tick()]
    if a.save_every:
        callbacks.append(ModelCheckpoint(dirpath="ckpt", every_n_train_steps=a.save_every, save_top_k=-1))
    trainer = L.Trainer(
        max_steps=a.steps,
        accelerator="cpu",
        logger=CSVLogger(str(RUN_DIR), name="csv", version=0),
        callbacks=callbacks,
        enable_checkpointing=bool(a.save_every),
        val_check_interval=a.val_check_interval or None,
        limit_val_batches=1.0 if a.val_check_interval else 0,
        num_sanity_val_steps=0,
        detect_anomaly=a.detect_anomaly,
        log_every_n_steps=10,
        profiler=profiler,
        enable_model_summary=True,
    )
    trainer.fit(Denoiser(a.width, log_histograms=a.log_histograms), train, val)


if __name__ == "__main__":
    main()
