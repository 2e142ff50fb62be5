"""Wall-clock times of steps, one line each, where STEP_TIMES names a folder for them."""

import os
import time
from pathlib import Path

import torch

_file = None
if "STEP_TIMES" in os.environ:
    _file = Path(os.environ["STEP_TIMES"], f"rank{os.environ.get('RANK', '0')}.txt").open("a", buffering=1)


def tick() -> None:
    """Note that an optimizer step has ended."""
    if _file is not None:
        print(time.perf_counter(), int(torch.autograd._profiler_enabled()), file=_file)
