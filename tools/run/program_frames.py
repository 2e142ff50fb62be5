"""The frame of a stack that belongs to the program itself: libraries call it and are called by it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

# A frame of Python, of a library or of the monitor, by its file: the frame of the program that called it says more.
LIBRARY = re.compile(
    r"\((?:[^()]*(?:(?:site|dist)-packages/|/lib/python\d|hermes_agent/monitor/)|<|"
    r"(?:torch\w*|numpy|multiprocessing|concurrent|asyncio|"
    r"transformers|lightning|pytorch_lightning|accelerate|deepspeed|megatron|PIL|importlib|jax|flax|encodings)/|"
    r"(?:threading|queue|socket|selectors|runpy|subprocess|contextlib|pickle|copy|json|logging|gzip|zipfile)\.py)"
)
# The same of a frame as a trace of torch.profiler names it, "file.py(12): function".
TRACED_LIBRARY = re.compile(
    r"(?:site|dist)-packages/|/lib/python\d|hermes_agent/monitor/"
    r"|^<|^(?:torch\w*|numpy|multiprocessing|concurrent|asyncio|importlib)/"
    r"|^(?:threading|queue|socket|selectors|runpy|contextlib|pickle|copy|json|logging)\.py"
)
PYTHON_FILE = re.compile(r"\(.*\.py(?::\d+)?\)\Z")


def program_frame(stack: Sequence[str]) -> str:
    """The innermost frame of the program itself, else the innermost of all; frames are "function (file:line)",
    outermost first."""
    own = (each for each in reversed(stack) if PYTHON_FILE.search(each) and not LIBRARY.search(each))
    return next(own, stack[-1] if stack else "")


def short_frame(frame: str) -> str:
    """A frame with the name of its file alone."""
    name, _, place = frame.partition(" (")
    return f"{name} ({PurePosixPath(place).name}" if place else name
