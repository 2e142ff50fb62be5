"""Fine-tune a tiny BERT on product reviews with the Hugging Face Trainer (random weights, generated reviews)."""

import os
import random
import re
from dataclasses import dataclass, field

import clock
import torch
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    HfArgumentParser,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

RUN_DIR = os.environ.get("RUN_DIR", "run")
WORDS = ["good", "bad", "battery", "screen", "arrived", "late", "never", "again", "love", "works", "broken", "refund"]
PIECE = re.compile(r"[a-z]+|[0-9]|[^\w\s]")


@dataclass
class DataArguments:
    reviews: int = field(default=3000)
    words: int = field(default=90)
    tokenize: str = field(default="upfront", metadata={"help": "upfront or collate"})
    length: int = field(default=96)
    layers: int = field(default=3)
    hidden: int = field(default=128)
    profile_at: int = field(default=50)
    profile_steps: int = field(default=3)


def encode(text: str, length: int) -> list[int]:
    """Greedy pieces of one to four letters, made in plain Python."""
    ids = [1]
    for word in PIECE.findall(text.lower()):
        start = 0
        while start < len(word):
            for n in (4, 3, 2, 1):
                piece = word[start : start + n]
                if len(piece) == n and (n == 1 or sum(map(ord, piece)) % 3):
                    ids.append(10 + sum(ord(c) * 31**k for k, c in enumerate(piece)) % 4000)
                    start += n
                    break
    return (ids + [0] * length)[:length]


class Reviews(Dataset):
    def __init__(self, args: DataArguments, seed: int, count: int):
        rng = random.Random(seed)
        self.texts = [
            " ".join(rng.choice(WORDS) + str(rng.randrange(99)) for _ in range(args.words)) for _ in range(count)
        ]
        self.stars = [rng.randrange(5) for _ in range(count)]
        self.ids = [encode(t, args.length) for t in self.texts] if args.tokenize == "upfront" else None

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return {"ids": self.ids[i] if self.ids else None, "text": self.texts[i], "label": self.stars[i]}


class Profile(TrainerCallback):
    def __init__(self, at, steps):
        self.prof = profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=at, warmup=1, active=steps, repeat=1),
            on_trace_ready=lambda p: p.export_chrome_trace(
                os.path.join(RUN_DIR, f"trainer_step{p.step_num}.pt.trace.json")
            ),
            record_shapes=True,
        )

    def on_train_begin(self, args, state, control, **kwargs):
        self.prof.start()

    def on_step_end(self, args, state, control, **kwargs):
        clock.tick()
        self.prof.step()

    def on_train_end(self, args, state, control, **kwargs):
        self.prof.stop()


def main():
    data, args = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
    train, held_out = Reviews(data, 1, data.reviews), Reviews(data, 2, 256)

    def collate(rows):
        ids = torch.tensor([row["ids"] or encode(row["text"], data.length) for row in rows])
        return {
            "input_ids": ids,
            "attention_mask": (ids != 0).long(),
            "labels": torch.tensor([r["label"] for r in rows]),
        }

    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=4096,
            hidden_size=data.hidden,
            num_hidden_layers=data.layers,
            num_attention_heads=4,
            intermediate_size=4 * data.hidden,
            num_labels=5,
        )
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=train,
        eval_dataset=held_out,
        data_collator=collate,
        callbacks=[Profile(data.profile_at, data.profile_steps)],
    )
    trainer.train()


if __name__ == "__main__":
    main()
