"""Step lines by a pattern of the user: an expression of RE2, which takes time linear in the line that it searches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tools.errors import UsageError
from tools.sources.job_log.grammars.step_figures import UNNUMBERED, StepLine
from tools.sources.job_log.numbers import in_ms, number, whole
from tools.sources.job_log.scan import lines_of, scanned_starts

GRAMMAR = "given pattern"
TIMES = {"time_s": "s", "time_ms": "ms"}
CLOCKS = {"clock_s": 1.0, "clock_ms": 1e-3}  # of which differences are used, in seconds
GROUPS = ("step", "time", *TIMES, *CLOCKS, "samples", "tokens")
LONGEST = 1000  # characters of a pattern


@dataclass
class GivenPattern:
    """``text`` with the named groups of ``GROUPS``, of which one is a time; UsageError says what is wrong with it.

    A ``time`` without a unit is judged by its size, as in any line. ``clock_s`` and ``clock_ms`` are times since the
    start, or since 1970, of which differences are used. ``samples`` and ``tokens`` are those of the step.
    """

    text: str
    _names: tuple[str, ...] = field(default=(), repr=False)
    _found: dict[bytes, StepLine] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST:
            raise UsageError(f"the log pattern has more than {LONGEST} characters; write a shorter one")
        try:
            groups = pc.extract_regex(pa.scalar("", pa.binary()), self.text).type
        except pa.ArrowInvalid as error:
            reason = str(error).removeprefix("Invalid regular expression: ").partition(": ")[0]
            raise UsageError(
                f"the log pattern {self.text!r} is not valid ({reason}); it is an RE2 expression with groups such as "
                r"(?P<step>\d+) and (?P<time_ms>[\d.]+)"
            ) from None
        names = [groups.field(place).name for place in range(groups.num_fields)]
        other = [name for name in names if name not in GROUPS]
        self._names = tuple(names)
        if other or not {"time", *TIMES, *CLOCKS} & set(names):
            known = ", ".join(GROUPS)
            what = f"has a group {other[0]!r}" if other else "has no group for a time"
            raise UsageError(f"the log pattern {self.text!r} {what}; its groups are {known}")

    def starts(self, text: bytes) -> list[int]:
        """Where the lines begin that hold a record of any kind; those of the pattern are read meanwhile."""
        begins, column = lines_of(text)
        groups = pc.extract_regex(column, self.text)
        matched: list[int] = np.flatnonzero(groups.is_valid().to_numpy(zero_copy_only=False)).tolist()
        columns = {name: groups.field(name) for name in self._names}
        self._found = {}
        for place in matched:
            stated = {name: values[place].as_py() for name, values in columns.items()}
            begin = int(begins[place])
            end = text.find(b"\n", begin)
            self._found[text[begin : len(text) if end < 0 else end]] = _figures(stated)
        return sorted({*scanned_starts(text), *(int(begins[place]) for place in matched)})

    def line(self, data: bytes) -> StepLine | None:
        """The figures of a line of the text that ``starts`` saw last; None where the pattern does not match it."""
        return self._found.get(data)


def _figures(groups: dict[str, bytes | None]) -> StepLine:
    stated = {name: (value or b"").decode("utf-8", "replace") for name, value in groups.items()}
    step = whole(stated["step"]) if "step" in stated else None
    times = [in_ms(stated[name], unit) for name, unit in TIMES.items() if stated.get(name)]
    wall_ms = next((time for time in times if time is not None), None)
    tokens = number(stated.get("tokens", ""))
    clocks = ((stated[name], scale) for name, scale in CLOCKS.items() if stated.get(name))
    clock, scale = next(((text, scale) for text, scale in clocks if number(text) is not None), ("", 1.0))
    clock_s = number(clock)
    return StepLine(
        GRAMMAR,
        UNNUMBERED if step is None else step,
        wall_ms,
        of="unstated",
        bare_time=number(stated.get("time", "")),
        clock_s=None if clock_s is None else clock_s * scale,
        clock_step_s=scale / 10.0 ** len(clock.partition(".")[2]),
        samples=number(stated.get("samples", "")),
        tokens_per_s=1e3 * tokens / wall_ms if tokens is not None and wall_ms else None,
    )
