"""Language models on made-up texts: with data parallelism, with experts over the ranks, and cut into two stages."""

from __future__ import annotations

import re
import unicodedata
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from evals.lab.samples import Samples, write_samples
from evals.lab.scenarios import Training
from evals.lab.workloads.data_parallel import Batch, DataParallelStep
from evals.lab.workloads.layers import activation, stacked, token_loss

VOCABULARY = 512
SEQUENCES_PER_RANK = 64
LENGTH = 96
WIDTH, HEADS, BLOCKS = 160, 4, 2
WORD = re.compile(r"\w+")


def raw_texts(rank: int, words: int) -> NDArray[np.uint8]:
    """Texts (n, bytes) of made-up words, filled with blanks, different on each rank."""
    rng = np.random.default_rng(2000 + rank)
    stems = ["".join(rng.choice(list("aeioubdfgklmnprst"), 7)) for _ in range(400)]
    texts = [" ".join(rng.choice(stems, words)).encode() for _ in range(SEQUENCES_PER_RANK)]
    return np.stack([np.frombuffer(text.ljust(words * 8), np.uint8) for text in texts])


def tokenise(text: torch.Tensor, length: int) -> torch.Tensor:
    """Text normalised and cut into words, each word a number: the first ``length`` of them, in turn where fewer."""
    plain = unicodedata.normalize("NFKC", text.numpy().tobytes().decode()).lower()
    numbers = [zlib.crc32(word.encode()) % VOCABULARY for word in WORD.findall(plain)]
    return torch.tensor((numbers * (length // len(numbers) + 1))[:length])


class TokenSamples:
    """Sequences with, at each place, the next token; raw, where the scenario has that, they are texts."""

    length: int
    words = 100  # of a text
    _training: Training

    def texts(self, rank: int) -> NDArray[np.uint8]:
        """The rank's texts."""
        return raw_texts(rank, self.words)

    def write(self, folder: Path, rank: int) -> None:
        """As text, or as numbers."""
        texts = self.texts(rank)
        prepared = torch.stack([tokenise(text, self.length) for text in torch.from_numpy(texts)])
        raw = rank in self._training.data.raw_on
        following = prepared.roll(-1, dims=1).numpy()
        write_samples(folder, texts if raw else prepared.numpy(), following, self._training.data)

    def samples(self, folder: Path) -> Samples:
        """Sequences with their next tokens."""
        length = self.length
        return Samples(folder, self._training.data, lambda text: tokenise(text, length))

    def trim(self, batch: Batch, size: int, filled: int) -> Batch:
        """Cut to fewer tokens; filled up with tokens that count nothing."""
        tokens, following = (each[:, :size].contiguous() for each in batch)
        if filled <= size:
            return tokens, following
        return functional.pad(tokens, (0, filled - size)), functional.pad(following, (0, filled - size), value=-1)


class AttentionLayer(nn.Module):
    """Causal attention with its shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self._heads = nn.LayerNorm(width), HEADS if width % HEADS == 0 else 1
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, tokens, width) to the same."""
        parts = self.mixed(self.norm(x)).unflatten(-1, (3, self._heads, -1)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        result: torch.Tensor = x + self.out(seen.transpose(1, 2).flatten(2))
        return result


class FeedForward(nn.Module):
    """A feed-forward layer with its shortcut: few operators."""

    def __init__(self, width: int, act: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), act, nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, tokens, width) to the same."""
        result: torch.Tensor = x + self.layers(x)
        return result


def token_network(training: Training) -> nn.Sequential:
    """A language model of about 0.7 million parameters, the same on every rank."""
    torch.manual_seed(7)
    program = training.program
    width = WIDTH - 1 if program.odd_width else WIDTH
    embed = nn.Embedding(VOCABULARY, width)
    blocks = stacked(program, BLOCKS, lambda _, act: nn.Sequential(AttentionLayer(width), FeedForward(width, act)))
    return nn.Sequential(embed, *blocks, nn.LayerNorm(width), nn.Linear(width, VOCABULARY))


class Tokens(TokenSamples, DataParallelStep):
    """The workload ``tokens``."""

    def __init__(self, training: Training) -> None:
        self.batch = 8 if training.device == "cpu" else 128
        self.length, self.words = max(training.data.sizes, default=LENGTH), training.data.raw_size
        super().__init__(training, token_network(training), token_loss)


SHAPES = ((128, 2, 2), (160, 2, 4), (96, 3, 2))  # width, layers, experts a rank
EXPERT_WIDTH = 9  # times the width


class Exchange(torch.autograd.Function):
    """Rows to the rank that computes them: ``sent`` and ``received`` rows per rank."""

    @staticmethod
    def forward(ctx: object, rows: torch.Tensor, sent: list[int], received: list[int]) -> torch.Tensor:
        """Rows of all ranks for this one, in the order of the ranks."""
        ctx.sizes = (sent, received)  # type: ignore[attr-defined]
        return exchanged(rows, sent, received)

    @staticmethod
    def backward(ctx: object, grown: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """The gradients travel back."""
        sent, received = ctx.sizes  # type: ignore[attr-defined]
        return exchanged(grown, received, sent), None, None


def exchanged(rows: torch.Tensor, sent: list[int], received: list[int]) -> torch.Tensor:
    """One all-to-all of rows."""
    result = rows.new_empty(sum(received), *rows.shape[1:])
    dist.all_to_all_single(result, rows.contiguous(), received, sent)
    return result


class ExpertLayer(nn.Module):
    """Each token goes to one expert; a router with fixed random weights and a share of hot tokens decides."""

    def __init__(self, width: int, experts: int, hot_share: float) -> None:
        super().__init__()
        ranks, rank = dist.get_world_size(), dist.get_rank()
        self._experts, self._ranks, self._hot_share = experts, ranks, hot_share
        self.norm = nn.LayerNorm(width)
        generator = torch.Generator().manual_seed(50 + rank)
        self.experts = nn.ModuleList([_expert(width, generator) for _ in range(experts)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, tokens, width) to the same."""
        rows = self.norm(x).flatten(0, 1)
        chosen = self._route(rows)
        order = torch.argsort(chosen, stable=True)
        counts = torch.bincount(chosen, minlength=self._ranks * self._experts)
        coming = torch.empty_like(counts)
        dist.all_to_all_single(coming, counts)
        sent = counts.view(self._ranks, -1).sum(1).tolist()
        received = coming.view(self._ranks, -1).sum(1).tolist()
        here = Exchange.apply(rows[order], sent, received)
        back = Exchange.apply(self._compute(here, coming), received, sent)
        shaped: torch.Tensor = x + torch.zeros_like(rows).index_copy(0, order, back).view_as(x)
        return shaped

    def _route(self, rows: torch.Tensor) -> torch.Tensor:
        """The expert of each row: as many rows for each, but for the hot ones, which the first rank's experts get."""
        count, experts = len(rows), self._ranks * self._experts
        key = (rows.detach() @ torch.ones(rows.shape[1], 1, dtype=rows.dtype)).flatten()
        even = torch.argsort(torch.argsort(key)) * experts // count
        hot = torch.arange(count) % 100 < round(self._hot_share * 100)
        return torch.where(hot, even % self._experts, even)

    def _compute(self, rows: torch.Tensor, coming: torch.Tensor) -> torch.Tensor:
        """The rows of this rank's experts, which lie by sender and then by expert."""
        pieces = rows.split(coming.tolist())
        computed: list[torch.Tensor] = [rows] * len(pieces)
        for place, expert in enumerate(self.experts):
            mine = range(place, len(pieces), self._experts)
            result = expert(torch.cat([pieces[each] for each in mine]))
            for each, part in zip(mine, result.split([len(pieces[each]) for each in mine]), strict=True):
                computed[each] = part
        return torch.cat(computed)


def expert_network(training: Training) -> nn.Sequential:
    """The part of the experts is this rank's own; all else is the same on every rank."""
    torch.manual_seed(7)
    width, blocks, experts = SHAPES[training.shape]
    layers: list[nn.Module] = [nn.Embedding(VOCABULARY, width)]
    for _ in range(blocks):
        layers += [AttentionLayer(width), ExpertLayer(width, experts, training.parallel.hot_share)]
    return nn.Sequential(*layers, nn.Linear(width, VOCABULARY))


class Experts(TokenSamples, DataParallelStep):
    """The workload ``experts``."""

    batch, length = 8, LENGTH

    def __init__(self, training: Training) -> None:
        model = expert_network(training)
        own = [name for name, _ in model.named_parameters() if ".experts." in name]
        model._ddp_params_and_buffers_to_ignore = own  # type: ignore[assignment]
        super().__init__(training, model, token_loss)


def _expert(width: int, generator: torch.Generator) -> nn.Sequential:
    expert = nn.Sequential(nn.Linear(width, EXPERT_WIDTH * width), nn.GELU(), nn.Linear(EXPERT_WIDTH * width, width))
    with torch.no_grad():
        for each in expert.parameters():
            each.copy_(torch.randn(each.shape, generator=generator) * 0.02)
    return expert


STAGE_BLOCKS = 6
WIDTHS = (160, 192, 128)


class Stages(TokenSamples):
    """The workload ``stages``: both ranks draw the same batch; the first needs its tokens, the last its targets."""

    batch, length = 16, 64

    def __init__(self, training: Training) -> None:
        self._training = training
        self._rank, ranks = dist.get_rank(), dist.get_world_size()
        self._last = self._rank == ranks - 1
        stage = part(training, self._rank)
        self.learns = stage
        kinds: dict[str, Any] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}
        self._schedule = kinds[training.parallel.schedule](
            PipelineStage(stage, self._rank, ranks, torch.device(training.device)),
            n_microbatches=training.parallel.micro_batches,
            loss_fn=lambda scores, targets: token_loss(scores, targets, 0.0),
        )
        self._optimizer = torch.optim.SGD(stage.parameters(), lr=0.01, momentum=0.9)

    def texts(self, rank: int) -> NDArray[np.uint8]:
        """The same on every rank."""
        return raw_texts(0, self.words)

    def step(self, batch: Batch) -> torch.Tensor:
        """All micro-batches through both stages and back, then the update; gives the mean loss on the last stage."""
        self._optimizer.zero_grad()
        losses: list[torch.Tensor] = []
        if self._last:
            self._schedule.step(target=batch[1], losses=losses)
        else:
            self._schedule.step(batch[0])
        self._optimizer.step()
        return torch.stack(losses).mean().detach() if losses else torch.zeros(())


def part(training: Training, rank: int) -> nn.Sequential:
    """The blocks of one stage; the first also embeds, the last also scores."""
    torch.manual_seed(7)
    width, first = WIDTHS[training.shape], training.parallel.first_stage_blocks
    blocks: list[nn.Module] = [FeedForward(width, activation(False)) for _ in range(STAGE_BLOCKS)]
    embed, score = nn.Embedding(VOCABULARY, width), nn.Linear(width, VOCABULARY)
    if rank == 0:
        return nn.Sequential(embed, *blocks[:first])
    return nn.Sequential(*blocks[first:], nn.LayerNorm(width), score)
