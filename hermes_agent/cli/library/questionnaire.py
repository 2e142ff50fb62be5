"""The questions that make a case, one line of answer each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.errors import UsageError
from tools.knowledge.taxonomy import causes, known_mechanism

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import CauseRecord, Diagnosis

Ask = Callable[[str], str]  # shows a question, returns the answer; raises at the end of the input
Known = Mapping[str, object]

SETTING = (
    ("framework", "Framework and version"),
    ("hardware", "Hardware, for example 8x H100 80GB"),
    ("scale", "Scale, for example 64 GPUs"),
    ("model", "Model and data"),
)
ORIGIN = "Were all signals seen, or are some only expected"
CONFIDENCE = "Confidence: the change was measured, it is plausible, a guess"
MOST_SIGNALS = 12
FEW = 8  # choices that are listed even if one is offered


@dataclass(frozen=True)
class Questionnaire:
    """Asks for every field of a case. A ``known`` value is offered in brackets and taken for an empty answer."""

    ask: Ask
    known: Known

    def draft(self) -> dict[str, object]:
        """Return the answers as the fields of a case; each is checked as it is given."""
        return {
            "title": self._text("title", "What was slow, in one line"),
            "symptom": self._text("symptom", "What was seen, with numbers"),
            "signals": self._signals(),
            "signals_origin": self._choice("signals_origin", ORIGIN, ("observed", "mixed"), "observed"),
            **self._cause(),
            "setting": {name: self._text(name, question, "unknown") for name, question in SETTING},
            "diagnosis": self._text("diagnosis", "How the cause was found"),
            "optimization": self._text("optimization", "What was changed"),
            "effect": self._text("effect", "Effect of the change, with numbers, or what was not measured"),
            "confidence": self._choice("confidence", CONFIDENCE, ("high", "medium", "low")),
            "confidence_reason": self._text("confidence_reason", "Reason for that confidence"),
            "source": self._source(),
        }

    def _line(self, question: str, default: str = "") -> str:
        shown = f" [{default}]" if default else ""
        return self.ask(f"{question}{shown}: ").strip() or default

    def _text(self, name: str, question: str, default: str = "") -> str:
        offered = str(self.known.get(name, "")) or default
        text = self._line(question, offered)
        while fault := _fault(text):
            text = self._line(f"{fault} {question}", offered)
        return text

    def _choice(self, name: str, question: str, choices: Iterable[str], default: str = "") -> str:
        allowed = tuple(choices)
        offered = str(self.known.get(name, "")) or default
        listed = f"{question} ({', '.join(allowed)})"
        text = self._line(question if offered and len(allowed) > FEW else listed, offered)
        while text not in allowed:
            text = self._line(listed, offered)
        return text

    def _signals(self) -> list[str]:
        given = self.known.get("signals")
        signals = list(map(str, given)) if isinstance(given, list) else []
        listed = "".join(f"\n  {signal}" for signal in signals)
        question = f"Signals another run could show too, one per line, an empty line ends{listed}"
        while len(signals) < MOST_SIGNALS:
            text = self._line(question)
            if not text and signals:
                break
            fault = _fault(text, phrase=True)
            if not fault and text not in signals:
                signals.append(text)
            question = fault or "Next signal, or an empty line"
        return signals

    def _cause(self) -> dict[str, object]:
        name = self._choice("cause", "Cause", causes())
        cause = causes()[name]
        chosen: dict[str, object] = {"family": cause.family, "cause": name}
        if cause.mechanisms:
            mechanism = self._choice(
                "mechanism", "Mechanism", (*filter(known_mechanism, cause.mechanisms), "unknown"), "unknown"
            )
            chosen |= {"mechanism": mechanism} if mechanism != "unknown" else {}
        return chosen

    def _source(self) -> dict[str, object]:
        source: dict[str, object] = {"kind": "internal", "url": self._line("Address of a ticket or page, or nothing")}
        year = self._line("Year, or nothing", str(self.known.get("year", "")))
        return source | ({"year": int(year)} if year.isdecimal() else {})


def _fault(text: str, *, phrase: bool = False) -> str:
    """The reason why the text is refused as a text or phrase of a case, or nothing."""
    from pydantic import TypeAdapter, ValidationError

    from case_library.schema import Phrase, Text

    try:
        TypeAdapter(Phrase if phrase else Text).validate_python(text)
    except ValidationError as error:
        return f"{error.errors(include_url=False)[0]['msg']}."
    return ""


def confirmed_fields(diagnosis: Diagnosis, ask: Ask) -> dict[str, object]:
    """Ask which cause a change confirmed; return the fields that the diagnosis fills. Raises UsageError without one."""
    from hermes_agent.evidence.case_draft import case_fields

    return case_fields(diagnosis, _confirmed(diagnosis, ask))


def _confirmed(diagnosis: Diagnosis, ask: Ask) -> CauseRecord:
    from hermes_agent.model.display import cause_heading, saved_ms

    found = {str(place): cause for place, cause in enumerate(diagnosis.causes, start=1)}
    if not found:
        raise UsageError("the latest diagnosis names no cause, so there is nothing to confirm; use `cases add` alone")
    headings = {place: cause_heading(cause.cause, cause.mechanism) for place, cause in found.items()}
    lines = [f"  {n}. {headings[n]}, {saved_ms(cause)} per step" for n, cause in found.items()]
    numbers = f"{', '.join(found)}, or none"
    asked = f"Which was confirmed by a change ({numbers}): "
    question = "\n".join([f"The latest diagnosis: {diagnosis.headline}", *lines, asked])
    while (answer := ask(question).strip()) not in found:
        if answer == "none":
            raise UsageError("no cause was confirmed, so no case was added; a case needs a confirmed cause")
        question = f"Write one of {numbers}: "
    return found[answer]
