"""The page of questions, docs/questions.md: ``python -m evals.agent.fifteen --write`` where the public traces are.

Fifteen questions that an engineer asks, each on a run that fits, answered without a model.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from evals.agent.typed import SHARED
from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_run
from hermes_agent.model.events import ignore
from hermes_agent.model.request import Request
from hermes_agent.session import Session
from tools.derived_page import keep
from tools.errors import InputError

PATH = Path("docs/questions.md")
DLRM, RESNET = "traces/param/dlrm_8rank", "traces/kineto/resnet50_workers0.pt.trace.json.gz"
TIMESFORMER, CHECKPOINT = "traces/real/timesformer_h100.json.gz", "traces/tracelens/mi300_resnet_act_checkpoint.json.gz"
THREADS, DEMO = "runs/conv_threads", ""
TITLES = {
    DEMO: "the bundled run (`hermes-dx demo`): two ranks on CPUs",
    DLRM: "PARAM's public DLRM trace: eight V100, one step",
    RESNET: "PyTorch's public ResNet-50 trace: one V100, six steps",
    TIMESFORMER: "a public TimeSformer trace: one H100, one step, with Python stacks",
    CHECKPOINT: "TraceLens' public ResNet trace with activation checkpointing: one of eight MI300X",
    THREADS: "two ranks on CPUs with the monitor",
}
HEAD = """# Questions

What an engineer asks about a run, answered by `hermes-dx ask RUN QUESTION` without a model. Written by
`python -m evals.agent.fifteen --write`, so the figures are those of the named runs. `[E7]` is a figure that
`hermes-dx show E7 RUN` measures again with its rows; an id such as `e0.1520` is a row that `hermes-dx show e0.1520 RUN`
opens. In the chat short questions refer to the one before: “and rank 7?”, “why not?”, “and then?”, “by kernel”, “more”.
Several questions, one per line, are one conversation: `printf 'slowest kernels\\nmore\\n' | hermes-dx ask RUN`.
"""


@dataclass(frozen=True)
class Asked:
    """One question on one run."""

    run: str
    question: str


FIFTEEN = (
    Asked(TIMESFORMER, "Which layer is slow?"),
    Asked(DLRM, "What are the ten slowest kernels of rank 3 in step 10?"),
    Asked(DLRM, "Is the second all-reduce of rank 0 overlapped with backward?"),
    Asked(RESNET, "Compare steps 5 and 9"),
    Asked(RESNET, "What is `aten::copy_` at 247.4 ms and who calls it?"),
    Asked(TIMESFORMER, "Which Python line launches `sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64`?"),
    Asked(RESNET, "Forward against backward?"),
    Asked(RESNET, "What is the worst GEMM shape?"),
    Asked(CHECKPOINT, "What does TP cost against DP?"),
    Asked(RESNET, "Which gaps over 1 ms does the device have, and what did the host do in them?"),
    Asked(DLRM, "Compare rank 3 with rank 0 by kernel"),
    Asked(RESNET, "What would both fixes together bring?"),
    Asked(RESNET, "What is the MFU?"),
    Asked(THREADS, "Which NCCL and OMP settings are set?"),
    Asked(DLRM, "What would a doubled batch or TP=4 bring?"),
)


def page() -> str:
    """The text of the page; raises InputError where a run is not here."""
    parts = [HEAD]
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        for place, asked in enumerate(FIFTEEN, 1):
            path = SHARED / asked.run if asked.run else demo_run()
            if not path.exists():
                raise InputError(f"{path} is not here; set HERMES_SHARED to the folder with the traces")
            with Session(Request((path,), cache_dir=cache), Settings(cache_dir=cache)) as session:
                session.diagnose(ignore)
                answer = session.ask(asked.question, ignore)
            calls = ", ".join(f"`{call.name}`" for call in session.turns[-1].calls) or "the diagnosis and metrics"
            parts.append(f"## {place}. {asked.question}\n\nOn {TITLES[asked.run]}. From: {calls}.\n")
            parts.append("\n".join(f"> {line}".rstrip() for line in answer.text.splitlines()) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(keep(PATH, page(), sys.argv[1:]))
