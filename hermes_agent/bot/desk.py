"""The work behind the bot's messages: diagnoses, answers, comparisons and files of registered runs.

Everything here blocks and is called from worker threads. Nothing of a run stays in memory between two calls: the
diagnosis comes from the cache, the conversation from the store of threads.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from hermes_agent.bot.answer import answer_of, comparison_of, evidence_of, record_of
from hermes_agent.bot.message import Attachment, Message, Paragraph, sentence
from hermes_agent.bot.threads import Threads
from hermes_agent.config.settings import Settings
from hermes_agent.evidence.citations import without_citations
from hermes_agent.llm.redact import Redactor
from hermes_agent.llm.sanitize import clean
from hermes_agent.locations.reading import read_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Emit
from hermes_agent.model.request import Request
from hermes_agent.registered_runs import RegisteredRuns
from hermes_agent.report.files import profile_behind
from hermes_agent.report.pictures.offer import require_extra
from hermes_agent.session import Session, Shown
from hermes_agent.statements.facts import hosts_of
from hermes_agent.workflow.diagnose import diagnose
from tools.errors import HermesError, UsageError
from tools.knowledge.thresholds import Thresholds
from tools.sources.options import Silent
from tools.views.profile import Profile

MOST_MASKED = 100  # runs whose masks are kept, so that a name has the same mask in every message
# "show E7": the record of an id, measured again.
SHOW = re.compile(r"(?:show|open)\s+\[?(?P<id>[EACR]\d{1,6}|[a-z]\d{1,9}\.[0-9a-f.]{1,40})\]?[.?!]?", re.IGNORECASE)
IsCancelled: TypeAlias = Callable[[], bool]


class Desk:
    """One desk for all threads. A model, where one is configured, answers questions; it never writes the diagnosis."""

    def __init__(self, settings: Settings, base: Request, threads: Threads) -> None:
        """``base`` is the request of every run but for its paths.

        A team's own cases stay out unless ``cases.send_private``: what is said here leaves the machine.
        """
        if not settings.cases.send_private:
            settings = settings.model_copy(update={"cases": settings.cases.model_copy(update={"private_dir": None})})
            base = replace(base, private_cases=None)
        self._settings, self._base, self._threads = settings, base, threads
        self._redacts = settings.redact is not False
        self._masks: OrderedDict[str, tuple[Redactor, tuple[str, ...]]] = OrderedDict()  # by run, with its hosts
        self._diagnosing = Lock()  # one at a time: it uses all cores
        self._guard = Lock()

    def names(self) -> tuple[str, ...]:
        """The registered runs as they are now."""
        return tuple(RegisteredRuns.load(self._settings).runs)

    def answer(self, run: str, emit: Emit) -> Message:
        """The diagnosis of a registered run."""
        request = self._request(run)
        return answer_of(self._masked(run, self._diagnosis(request, emit)), run, self.names())

    def capture(self, run: str, folder: Path, emit: Emit) -> Message:
        """The diagnosis of traces that the monitor captured in the folder of a registered run."""
        request = replace(self._request(run), paths=(folder,))
        return answer_of(self._masked(run, self._diagnosis(request, emit)), run, self.names())

    def evidence(self, run: str, emit: Emit) -> Message:
        """The figures behind the diagnosis of a run."""
        return evidence_of(self._masked(run, self._diagnosis(self._request(run), emit)), run)

    def files(self, run: str, emit: Emit) -> tuple[tuple[Attachment, ...], str]:
        """A picture and the report of a run, and a sentence where one cannot be made."""
        request = self._request(run)
        try:
            require_extra()
            diagnosis = self._diagnosis(request, emit)
            return _drawn(run, self._masked(run, diagnosis), profile_behind(request, diagnosis))
        except HermesError as error:
            return (), f"Without picture and report: {self.said(run, str(error))}"

    def reply(self, run: str, thread: str, question: str, emit: Emit, cancelled: IsCancelled) -> Message:
        """The answer to a question, which becomes part of the thread's conversation."""
        request = self._request(run)
        diagnosis = self._diagnosis(request, emit)
        with Session(request, self._settings, diagnosis) as session:
            self._threads.resume(thread, session)
            redactor = self._redactor(run, diagnosis)
            asked = question if redactor is None else redactor.unmask(question)
            if (wanted := SHOW.fullmatch(asked.strip())) is not None:
                shown = session.show(wanted["id"])
                self._threads.remember(thread, run, request, session)
                return self._shown(run, shown)
            answer = session.ask(asked, emit, cancelled)
            self._threads.remember(thread, run, request, session, session.turns[-1])
        notes = tuple(Paragraph(self.said(run, note), small=True) for note in answer.notes)
        text = self.said(run, answer.text)
        return Message(without_citations(text.split("\n", 1)[0]), (Paragraph(text), *notes))

    def compared(self, before: str, after: str) -> Message:
        """What changed between two registered runs; raises NotComparableError with the reasons against it."""
        from hermes_agent.run_comparison import compared

        profiles = [
            Profile(read_run(request, Silent()), Thresholds(dict(request.thresholds)))
            for request in (self._request(before), self._request(after))
        ]
        found = compared(*profiles)
        shown = replace(
            found,
            headline=self.said(after, found.headline),
            changes=tuple(self.said(after, each) for each in found.changes),
            notes=tuple(self.said(after, each) for each in found.notes),
        )
        return comparison_of(shown, before, after)

    def said(self, run: str, text: str) -> str:
        """A text without control characters, and with names masked unless the settings say otherwise."""
        redactor = self._redactor(run)
        return clean(text) if redactor is None else redactor.mask(clean(text))

    def listed(self) -> Message:
        """The registered runs as a message."""
        names = self.names()
        if not names:
            return sentence(
                "No run is registered yet; register one on the bot's machine with `hermes-dx runs add NAME PATH`."
            )
        return Message(
            "Registered runs", (Paragraph("\n".join(["**Registered runs**", *(f"- `{name}`" for name in names)])),)
        )

    def _shown(self, run: str, found: Shown) -> Message:
        """The record of an id, with names masked."""
        rows = found.table
        if rows is not None:
            masked = tuple(tuple(self.said(run, cell) for cell in row) for row in rows.rows)
            rows = replace(rows, rows=masked)
        lines = tuple(self.said(run, line) for line in found.lines)
        return record_of(replace(found, title=self.said(run, found.title), lines=lines, table=rows))

    def _request(self, run: str) -> Request:
        return replace(self._base, paths=RegisteredRuns.load(self._settings).get(run).paths)

    def _diagnosis(self, request: Request, emit: Emit) -> Diagnosis:
        with self._diagnosing:
            return diagnose(request, emit)

    def _redactor(self, run: str, diagnosis: Diagnosis | None = None) -> Redactor | None:
        """The masks of a run's names; None where names are shown."""
        if not self._redacts:
            return None
        hosts = () if diagnosis is None else hosts_of(diagnosis)
        with self._guard:
            known = self._masks.get(run)
            if known is None or (hosts and hosts != known[1]):
                self._masks[run] = known = Redactor(hosts), hosts
            self._masks.move_to_end(run)
            while len(self._masks) > MOST_MASKED:
                self._masks.popitem(last=False)
            return known[0]

    def _masked(self, run: str, diagnosis: Diagnosis) -> Diagnosis:
        """The diagnosis with names masked in its texts; links of cases stay."""
        redactor = self._redactor(run, diagnosis)
        if redactor is None:
            return diagnosis
        urls = [case.url for case in diagnosis.cases]
        masked = Diagnosis.model_validate(_mapped(diagnosis.model_dump(by_alias=True), redactor.mask))
        cases = [case.model_copy(update={"url": url}) for case, url in zip(masked.cases, urls, strict=True)]
        return masked.model_copy(update={"cases": cases})


def _drawn(run: str, diagnosis: Diagnosis, profile: Profile) -> tuple[tuple[Attachment, ...], str]:
    """The picture that shows the cause best, and the report; without the picture where none can be drawn."""
    from hermes_agent.report.html.page import render_html
    from hermes_agent.report.pictures.export import render_png

    report = Attachment(f"{run}.html", f"Report of {run}", render_html(diagnosis, profile, [Path(run)]).encode())
    alt = without_citations(diagnosis.headline)
    try:
        picture = Attachment(f"{run}.png", f"Picture of {run}", render_png(diagnosis, profile), alt)
    except UsageError as error:
        return (report,), f"Without a picture: {error}"
    return (picture, report), ""


def _mapped(value: object, mask: Callable[[str], str]) -> object:
    match value:
        case str():
            return mask(value)
        case dict():
            return {key: _mapped(each, mask) for key, each in value.items()}
        case list() | tuple():
            return [_mapped(each, mask) for each in value]
    return value
