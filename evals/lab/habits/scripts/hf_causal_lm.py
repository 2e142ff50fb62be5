"""Fine-tune a small causal language model with the Hugging Face Trainer."""

import os
import re
from dataclasses import dataclass, field

import clock
import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    HfArgumentParser,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

RUN_DIR = os.environ["RUN_DIR"]
RANK = int(os.environ.get("RANK", "0"))
SYLLABLES = ["ka", "to", "mi", "re", "sol", "du", "an", "ek", "ver", "lo", "tra", "ni", "pe", "os", "ul", "gre"]


@dataclass
class ScriptArguments:
    hidden: int = field(default=128)
    layers: int = field(default=4)
    vocab: int = field(default=4000)
    block: int = field(default=64)
    rows: int = field(default=2000)
    eval_rows: int = field(default=48)
    tokenize: str = field(default="ahead", metadata={"help": "ahead or live"})
    words: int = field(default=120, metadata={"help": "words of a raw text"})
    grad_norms: bool = field(default=False, metadata={"help": "log the norm of every gradient"})
    with_stack: bool = field(default=False)
    profile_wait: int = field(default=20)
    profile_active: int = field(default=2)
    monitor: bool = field(default=False)


class Texts(torch.utils.data.Dataset):
    def __init__(self, args, rows, seed):
        rng = np.random.default_rng(seed)
        self.args = args
        self.table = {}
        self.texts = []
        for _ in range(rows):
            words = ["".join(rng.choice(SYLLABLES, rng.integers(1, 5))) for _ in range(args.words)]
            self.texts.append(" ".join(words))
        self.ids = None if args.tokenize == "live" else [self.encode(text) for text in self.texts]

    def encode(self, text):
        """Greedy byte-pair merges, word by word."""
        ids = []
        for word in re.findall(r"\w+|\s", text):
            pieces = list(word)
            while len(pieces) > 1:
                pairs = [(pieces[i] + pieces[i + 1], i) for i in range(len(pieces) - 1)]
                known = [(text, i) for text, i in pairs if len(text) < 6]
                if not known:
                    break
                text, i = min(known, key=lambda pair: hash(pair[0]) % 997)
                pieces[i : i + 2] = [text]
            ids += [self.table.setdefault(piece, len(self.table) % self.args.vocab) for piece in pieces]
        return (ids + [0] * self.args.block)[: self.args.block]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        ids = self.encode(self.texts[index]) if self.ids is None else self.ids[index]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(ids)}


class ProfilerCallback(TrainerCallback):
    def __init__(self, prof):
        self.prof = prof

    def on_step_end(self, args, state, control, **kwargs):
        self.prof.step()


class StepClock(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        clock.tick()


class MonitorCallback(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        from hermes_agent.monitor import Monitor

        self.monitor = Monitor(RUN_DIR, rank=RANK)
        self.monitor.begin()

    def on_step_end(self, args, state, control, **kwargs):
        self.monitor.step(state.global_step)

    def on_train_end(self, args, state, control, **kwargs):
        self.monitor.close()


class GradNorms(TrainerCallback):
    """Norms of all gradients, for the dashboard."""

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        self.norms = {}
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                self.norms[f"{name}/norm"] = parameter.grad.norm().item()
                self.norms[f"{name}/max"] = parameter.grad.abs().max().item()
                self.norms[f"{name}/mean"] = parameter.grad.mean().item()
                self.norms[f"{name}/zeros"] = (parameter.grad == 0).sum().item()


def main():
    parser = HfArgumentParser((ScriptArguments, TrainingArguments))
    args, training_args = parser.parse_args_into_dataclasses()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=args.vocab,
        n_positions=args.block,
        n_embd=args.hidden,
        n_layer=args.layers,
        n_head=4,
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    prof = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(skip_first=args.profile_wait, wait=0, warmup=1, active=args.profile_active, repeat=1),
        on_trace_ready=tensorboard_trace_handler(os.path.join(RUN_DIR, "traces")),
        record_shapes=True,
        with_stack=args.with_stack,
    )
    callbacks = [StepClock(), ProfilerCallback(prof)]
    if args.grad_norms:
        callbacks.append(GradNorms())
    if args.monitor:
        callbacks.append(MonitorCallback())
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=Texts(args, args.rows, 1),
        eval_dataset=Texts(args, args.eval_rows, 2),
        callbacks=callbacks,
    )
    with prof:
        trainer.train()


if __name__ == "__main__":
    main()
