"""The questions that make a case, one line of answer each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.errors import UsageError
from tools.knowledge.taxonomy import causes

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Ask = Callable[[str], str]  # shows a question, returns the answer; raises when there is none to come
Known = Mapping[str, object]

SETTING = (
    ("framework", "Framework and version"),
    ("hardware", "Hardware, for example 8x H100 80GB"),
    ("scale", "Scale, for example 64 GPUs"),
    ("model", "Model and data"),
)
MOST_SIGNALS = 12
FEW = 8  # choices that are listed even where one is offered


@dataclass(frozen=True)
class Questionnaire:
    """Asks for every field of a case. What is ``known`` is offered in brackets and taken when nothing is typed."""

    ask: Ask
    known: Known

    def draft(self) -> dict[str, object]:
        """The answers as the fields of a case; texts and choices are checked as they are given."""
        draft: dict[str, object] = {"title": self._text("title", "What was slow, in one line")}
        draft["symptom"] = self._text("symptom", "What was seen, with numbers")
        draft["signals"] = self._signals()
        draft["signals_origin"] = self._choice(
            "signals_origin", "Were all signals seen, or are some only expected", ("observed", "mixed"), "observed"
        )
        draft |= self._cause()
        draft["setting"] = {name: self._text(name, question, "unknown") for name, question in SETTING}
        draft["diagnosis"] = self._text("diagnosis", "How the cause was found")
        draft["optimization"] = self._text("optimization", "What was changed")
        draft["effect"] = self._text("effect", "What that brought, with numbers, or what was not measured")
        draft["confidence"] = self._choice(
            "confidence",
            "How sure: the change was measured, it is plausible, a guess",
            ("high", "medium", "low"),
        )
        draft["confidence_reason"] = self._text("confidence_reason", "Why that sure")
        draft["source"] = self._source()
        return draft

    def _line(self, question: str, default: str = "") -> str:
        shown = f" [{default}]" if default else ""
        return self.ask(f"{question}{shown}: ").strip() or default

    def _text(self, name: str, question: str, default: str = "") -> str:
        offered = str(self.known.get(name, "")) or default
        text = self._line(question, offered)
        while fault := _fault(text, _text_form()):
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
        signals = [str(signal) for signal in given] if isinstance(given, list) else []
        listed = "".join(f"\n  {signal}" for signal in signals)
        question = f"Signals another run could show too, one per line, an empty line ends{listed}"
        while len(signals) < MOST_SIGNALS:
            text = self._line(question)
            if not text and signals:
                break
            fault = _fault(text, _phrase_form())
            if not fault and text not in signals:
                signals.append(text)
            question = fault or "Next signal, or an empty line"
        return signals

    def _cause(self) -> dict[str, object]:
        names = tuple(causes())
        cause = self._choice("cause", "Cause", names)
        chosen: dict[str, object] = {"family": causes()[cause].family, "cause": cause}
        mechanisms = causes()[cause].mechanisms
        if mechanisms:
            mechanism = self._choice("mechanism", "How it happened", (*mechanisms, "unknown"), "unknown")
            chosen |= {"mechanism": mechanism} if mechanism != "unknown" else {}
        return chosen

    def _source(self) -> dict[str, object]:
        source: dict[str, object] = {"kind": "internal", "url": self._line("Address of a ticket or page, or nothing")}
        year = self._line("Year, or nothing", str(self.known.get("year", "")))
        return source | ({"year": int(year)} if year.isdecimal() else {})


def _fault(text: str, form: TypeAdapter[str]) -> str:
    """Why the text cannot stand in a case, or nothing."""
    from pydantic import ValidationError

    try:
        form.validate_python(text)
    except ValidationError as error:
        return f"{error.errors(include_url=False)[0]['msg']}."
    return ""


def _text_form() -> TypeAdapter[str]:
    from pydantic import TypeAdapter

    from case_library.schema import Text

    return TypeAdapter(Text)


def _phrase_form() -> TypeAdapter[str]:
    from pydantic import TypeAdapter

    from case_library.schema import Phrase

    return TypeAdapter(Phrase)


if TYPE_CHECKING:
    pass
    from hermes_agent.config.settings import Settings
    from hermes_agent.model.diagnosis import CauseRecord, Diagnosis


def latest_diagnosis(chosen: Settings) -> Diagnosis:
    """The diagnosis made last; raises UsageError when none is kept."""
    from hermes_agent.workflow import stored

    latest = stored.latest(chosen.cache_dir)
    diagnosis = stored.find(chosen.cache_dir, latest[0]) if latest else None
    if diagnosis is None:
        raise UsageError(f"no diagnosis is kept in {chosen.cache_dir}; diagnose the run first: hermes-dx diagnose RUN")
    return diagnosis


def confirmed_cause(diagnosis: Diagnosis, ask: Ask) -> CauseRecord:
    """The cause that turned out to be right, as the person says; raises UsageError when none did."""
    from hermes_agent.model.display import cause_title

    causes = diagnosis.causes
    if not causes:
        raise UsageError("the latest diagnosis names no cause, so there is nothing to confirm; use `cases add` alone")
    lines = [f"The latest diagnosis: {diagnosis.headline}"]
    lines += [
        f"  {place}. {cause_title(cause.cause, cause.mechanism)}, {cause.impact_ms_per_step:.1f} ms per step"
        for place, cause in enumerate(causes, start=1)
    ]
    numbers = [str(place) for place in range(1, len(causes) + 1)]
    question = "\n".join([*lines, f"Which was confirmed by a change ({', '.join(numbers)}, or none): "])
    while True:
        answer = ask(question).strip()
        if answer in numbers:
            return causes[int(answer) - 1]
        if answer == "none":
            raise UsageError("no cause was confirmed, so no case was added; a case needs a cause that proved right")
        question = f"Write one of {', '.join(numbers)}, or none: "


def known_of(diagnosis: Diagnosis, cause: CauseRecord) -> dict[str, object]:
    """The fields of a case that the diagnosis fills; what was done and what it brought only a person knows."""
    from hermes_agent.evidence.numbers import without_citations
    from hermes_agent.model.display import cause_title, on_ranks
    from hermes_agent.questions.prose import capital

    ranks = diagnosis.run.ranks
    claim = without_citations(cause.claim)
    step = diagnosis.step_time_ms
    known: dict[str, object] = {
        "title": capital(cause_title(cause.cause, cause.mechanism)) + on_ranks(cause.ranks, ranks),
        "symptom": f"{claim} The step took {step.median:.1f} ms (median of {step.steps}).",
        "signals": list(dict.fromkeys(cause.signals)),
        "signals_origin": "observed",
        "cause": cause.cause,
        "mechanism": cause.mechanism or "unknown",
        "hardware": ", ".join(dict.fromkeys(diagnosis.run.devices)) or "unknown",
        "scale": f"{len(ranks)} rank{'s' if len(ranks) > 1 else ''} recorded",
        "diagnosis": " ".join([f"hermes-dx, check {cause.check}.", *map(without_citations, cause.details)]),
        "confidence": "high",
    }
    return known
