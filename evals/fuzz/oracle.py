"""The rule for every execution: a result, or one printable sentence that names the file, in bounded time and memory.

Anything else is a failure: another exception, a warning, text on the terminal, a sentence of several lines, more
seconds of a processor or more memory than an input of this size may take.
"""

from __future__ import annotations

import contextlib
import io
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tools.errors import HermesError

MOST_CPU_S = 5.0
HANGING_CPU_S = 30.0  # then a loop is taken for endless
BLOCKED_S = 600  # of the clock: a reader that waits; a busy machine may take minutes for seconds
MOST_GROWTH_KIB = 256 << 10  # of the largest memory of the process, in one execution
LONGEST_SENTENCE = 1500


@dataclass(frozen=True)
class Verdict:
    """What came of one execution: "result", "sentence", or a failure with what went wrong."""

    kind: str
    detail: str = ""

    @property
    def failed(self) -> bool:
        """True where the rule was broken."""
        return self.kind == "failure"


class HangError(BaseException):
    """An execution that does not come back; no handler of the product takes it for one of its own errors."""


def judged(execute: Callable[[], object], named: str, allowed: tuple[type[Exception], ...] = ()) -> Verdict:
    """Execute once. ``named`` is what the sentence of an error has to name; ``allowed`` are errors of its contract."""
    terminal = io.StringIO()
    began, before_kib = time.process_time(), _present_kib()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal), _alarm():
                execute()
            outcome = Verdict("result")
        except HermesError as error:
            outcome = _sentence(str(error), named)
        except allowed:
            outcome = Verdict("sentence")
        except (Exception, HangError):  # the whole point: whatever it is, it is reported
            outcome = Verdict("failure", traceback.format_exc(limit=-6))
    return _bounded(outcome, terminal.getvalue(), heard, time.process_time() - began, _largest_kib() - before_kib)


def _bounded(
    outcome: Verdict, printed: str, heard: list[warnings.WarningMessage], cpu_s: float, grown_kib: int
) -> Verdict:
    if outcome.failed:
        return outcome
    if heard:
        return Verdict("failure", f"a warning: {heard[0].category.__name__}: {heard[0].message} ({heard[0].filename})")
    if printed:
        return Verdict("failure", f"printed on the terminal: {printed[:300]!r}")
    if cpu_s > MOST_CPU_S:
        return Verdict("failure", f"took {cpu_s:.1f} s of a processor")
    if grown_kib > MOST_GROWTH_KIB:
        return Verdict("failure", f"took {grown_kib >> 10} MiB of memory")
    return outcome


def _sentence(text: str, named: str) -> Verdict:
    if not text.isprintable():
        return Verdict("failure", f"not printable: {text[:500]!r}")
    if named not in text:
        return Verdict("failure", f"does not name {named}: {text[:500]}")
    if len(text) > LONGEST_SENTENCE:
        return Verdict("failure", f"is {len(text)} characters long: {text[:500]}")
    return Verdict("sentence")


def _present_kib() -> int:
    """The memory of the process now, from which on its largest counts again (``clear_refs`` of proc(5))."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _largest_kib()


def _largest_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """Raise HangError in the main thread after ``HANGING_CPU_S`` of a processor, or ``BLOCKED_S``."""

    def ring(_: int, __: FrameType | None) -> None:
        raise HangError(f"did not end within {HANGING_CPU_S:g} s of a processor, or {BLOCKED_S} s")

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, HANGING_CPU_S), signal.SIGALRM: (signal.ITIMER_REAL, BLOCKED_S)}
    before = {number: signal.signal(number, ring) for number in timers}
    for timer, seconds in timers.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
