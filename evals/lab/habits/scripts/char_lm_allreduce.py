"""Character language model on several processes; gradients are averaged by hand after backward."""

import argparse
import gc
import os
import time

import clock
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

RUN_DIR = os.environ.get("RUN_DIR", ".")


class CharLM(nn.Module):
    def __init__(self, dim, layers, length, vocab=96):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Parameter(torch.zeros(length, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(dim, vocab)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, x):
        return self.out(self.body(self.tok(x) + self.pos, mask=self.mask, is_causal=True))


def average_each(params, world):
    for p in params:
        dist.all_reduce(p.grad)
        p.grad /= world


def average_flat(params, world):
    flat = torch.cat([p.grad.reshape(-1) for p in params])
    dist.all_reduce(flat)
    flat /= world
    offset = 0
    for p in params:
        p.grad.copy_(flat[offset : offset + p.numel()].view_as(p))
        offset += p.numel()


def average_half(params, world):
    """Flat, as bfloat16 on the wire."""
    flat = torch.cat([p.grad.reshape(-1) for p in params]).bfloat16()
    dist.all_reduce(flat)
    flat = flat.float() / world
    offset = 0
    for p in params:
        p.grad.copy_(flat[offset : offset + p.numel()].view_as(p))
        offset += p.numel()


AVERAGE = {"each": average_each, "flat": average_flat, "half": average_half}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--layers", type=int, default=3)
    ap.add_argument("--length", type=int, default=64)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--micro", type=int, default=1)
    ap.add_argument("--average", choices=AVERAGE, default="flat")
    ap.add_argument("--average-after", choices=["micro", "all"], default="all")
    ap.add_argument("--steps", type=int, default=70)
    ap.add_argument("--samples", type=int, default=0, help="size of the Python list of text samples that rank 0 keeps")
    ap.add_argument("--gc-every", type=int, default=0)
    ap.add_argument("--prof", type=int, default=58)
    ap.add_argument("--nprof", type=int, default=3)
    a = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = CharLM(a.dim, a.layers, a.length)
    torch.manual_seed(100 + rank)
    params = list(model.parameters())
    average = AVERAGE[a.average]
    opt = torch.optim.AdamW(params, 3e-4)
    samples = [{"text": ["a", "b", k], "score": (k, k + 1)} for k in range(a.samples)] if rank == 0 else []
    prof = torch.profiler.profile(record_shapes=True)
    since = time.time()
    for step in range(a.steps):
        if step == a.prof:
            prof.start()
        opt.zero_grad()
        for micro in range(a.micro):
            x = torch.randint(0, 96, (a.batch, a.length + 1))
            logits = model(x[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, 96), x[:, 1:].reshape(-1)) / a.micro
            loss.backward()
            if a.average_after == "micro" or micro == a.micro - 1:
                average(params, world)
        opt.step()
        if samples:
            samples[step % len(samples)] = {"text": [step], "score": (step, step)}
        if a.gc_every and step % a.gc_every == 0:
            gc.collect()
        if step and step % 10 == 0:
            print(
                f"[rank{rank}] it {step} loss {loss.item() * a.micro:.3f} {(time.time() - since) * 100:.1f} ms/it",
                flush=True,
            )
            since = time.time()
        clock.tick()
        if step == a.prof + a.nprof - 1:
            prof.stop()
            prof.export_chrome_trace(os.path.join(RUN_DIR, f"lm-{rank}.json.gz"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
