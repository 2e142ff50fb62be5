"""What a step holds: how many tokens, where a line above the steps states it and the step lines state tokens per
second, and that it generates text."""

from __future__ import annotations

import re
from dataclasses import replace

from tools.run.recorded.job_log import Cited
from tools.sources.job_log.grammars.generic_lines import DICTIONARY_LINES, GENERIC_LINES, JSON_LINES
from tools.sources.job_log.grammars.step_figures import StepLine

# "Tokens / optimizer step : 32,768", "tokens per step: 524288", "tokens per iteration will be: 491,520"; of the whole
# job: "tokens per step per GPU" is another number.
TOKENS = re.compile(
    r"(?<![\w-])tokens ?(?:/|per) ?(?:(?:optimizer|training|global|full) )?(?:step|iteration|update)(?: will be| is)?"
    r"\s{0,20}[:=]\s{0,9}(\d{1,3}(?:,\d{3}){1,4}|\d{1,12})(?![\w.,]*\w)",
    re.I,
)
# The length of generated texts, as TRL and verl name it; not a limit ("max_completion_length").
GENERATED = re.compile(
    r"(?<![\w-])['\"]?(?:completion_length|completions/mean_length|response_length/mean)['\"]?\s?[:=]\s?['\"]?\d"
)
OF_ANY_PROGRAM = (GENERIC_LINES, JSON_LINES, DICTIONARY_LINES)


class StepContent:
    """What lines of one file state of it, and the times that follow."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.used: Cited | None = None
        self.generated: Cited | None = None
        self._stated: Cited | None = None
        self._several = False

    def take(self, line: int, text: str) -> None:
        """Read a line that is no step line."""
        if "okens" in text and (found := TOKENS.search(text)):
            tokens = found[1].replace(",", "")
            self._several |= self._stated is not None and self._stated.value != tokens
            self._stated = self._stated or Cited(tokens, line, self.file)

    def note(self, line: int, text: str) -> None:
        """Read any line."""
        if self.generated is None and "_length" in text and (found := GENERATED.search(text)):
            self.generated = Cited(found[0], line, self.file)

    def timed(self, line: StepLine) -> StepLine:
        """The step line with the time that follows, where it states no time itself."""
        own = (line.wall_ms, line.bare_time, line.clock_s)
        if self._stated is None or self._several or line.grammar not in OF_ANY_PROGRAM or own != (None, None, None):
            return line
        tokens = int(self._stated.value)
        if not line.tokens_per_s or line.tokens_per_s <= 0 or tokens <= 0:
            return line
        self.used = self._stated
        return replace(line, wall_ms=1e3 * tokens / line.tokens_per_s, derived=True)
