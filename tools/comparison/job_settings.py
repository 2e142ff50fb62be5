"""Settings that the outputs of two jobs state differently: of another model, of other work, or of another layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tools.findings import Sentence
from tools.run.recorded.job_log import JobLog

Weight = Literal["model", "work", "layout"]
# Names as Megatron-LM prints them, which other frameworks' names are read into (docs/job_logs.md).
SETTINGS: Mapping[str, Weight] = {
    **dict.fromkeys(("num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size"), "model"),
    **dict.fromkeys(("global_batch_size", "seq_length"), "work"),
    **dict.fromkeys(("micro_batch_size", "fp16", "bf16", "num_microbatches"), "layout"),
    **dict.fromkeys(("data_parallel_size", "tensor_model_parallel_size", "pipeline_model_parallel_size"), "layout"),
    **dict.fromkeys(("virtual_pipeline_model_parallel_size", "expert_model_parallel_size"), "layout"),
}


SIZES_OF_A_MODEL = 2  # one alone, such as the number of layers, many models share


@dataclass(frozen=True)
class ChangedSetting:
    """One setting that both outputs state; the values are as printed (untrusted)."""

    name: str
    weight: Weight
    before: str
    after: str

    def sentence(self, alone: bool) -> Sentence:
        """The change; ``alone``: no other setting that both state differs."""
        text = "The job states {n0} {n2} instead of {n1}"
        text += "; no other setting that both state differs." if alone else "."
        return Sentence(text, (), (self.name, self.before, self.after))


def changed_settings(before: JobLog | None, after: JobLog | None) -> tuple[ChangedSetting, ...]:
    """The settings in the order of ``SETTINGS``; () where one of the runs has no output."""
    if before is None or after is None:
        return ()
    both = [name for name in SETTINGS if name in before.settings and name in after.settings]
    pairs = [(name, before.settings[name].value, after.settings[name].value) for name in both]
    return tuple(
        ChangedSetting(name, SETTINGS[name], first, second) for name, first, second in pairs if first != second
    )


def same_model_stated(before: JobLog | None, after: JobLog | None) -> bool:
    """Return whether both outputs state several sizes of the model, and the same ones."""
    if before is None or after is None:
        return False
    stated = [name for name, weight in SETTINGS.items() if weight == "model" and name in before.settings]
    return len(stated) >= SIZES_OF_A_MODEL and all(
        name in after.settings and before.settings[name].value == after.settings[name].value for name in stated
    )
