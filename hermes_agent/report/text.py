"""A diagnosis as plain text: one screen, or all of it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from hermes_agent.evidence.citations import written
from hermes_agent.model.diagnosis import CauseRecord, Diagnosis
from hermes_agent.model.display import (
    PLACE_TITLES,
    WORK_MISSING,
    cause_heading,
    counted,
    rank_count,
    rank_list,
    recorded_count,
    saved_ms,
    similar_cases_title,
    speedup_range,
)
from hermes_agent.report.sections import (
    BEFORE_BREAKDOWN,
    COLUMNS,
    Item,
    Section,
    hypothesis_reason,
    hypothesis_title,
    interval_meaning,
    is_whole_step,
    lead_outlook,
    masked,
    notes_of,
    on_devices,
    rank_groups,
    sections,
)
from tools.knowledge.taxonomy import EFFORTS
from tools.knowledge.thresholds import defaults

Style = Callable[[str, str], str]  # (text, style name) -> text

HEADS = ("wall", "compute", "comm.", "copies", "data wait", "host", "idle")
CLASSES_SHOWN = 8
NOTES_SHOWN = 2
SCREEN_LINES = 40
INDENT = "   "
OPEN = "Inconclusive because "  # the verdict stands before it


@dataclass(frozen=True)
class Room:
    """Limits of the parts of the first screen."""

    causes: int  # with reason, place and fix; the others in one line each
    leads: int
    lines: int  # causes in one line each
    hypotheses: int
    ranks: int
    cases: int
    changes: int
    sentences: int


ROOMS = (
    Room(causes=8, leads=3, lines=0, hypotheses=4, ranks=8, cases=3, changes=4, sentences=9),
    Room(causes=4, leads=2, lines=6, hypotheses=4, ranks=4, cases=3, changes=3, sentences=9),
    Room(causes=3, leads=2, lines=6, hypotheses=3, ranks=4, cases=3, changes=3, sentences=9),
    Room(causes=3, leads=1, lines=4, hypotheses=2, ranks=4, cases=2, changes=2, sentences=7),
    Room(causes=2, leads=1, lines=4, hypotheses=2, ranks=4, cases=2, changes=2, sentences=6),
    Room(causes=2, leads=1, lines=2, hypotheses=1, ranks=2, cases=1, changes=1, sentences=5),
    Room(causes=2, leads=1, lines=2, hypotheses=1, ranks=1, cases=1, changes=1, sentences=3),
    Room(causes=2, leads=1, lines=1, hypotheses=0, ranks=1, cases=0, changes=1, sentences=3),
    Room(causes=1, leads=1, lines=2, hypotheses=0, ranks=1, cases=1, changes=1, sentences=3),
    Room(causes=1, leads=1, lines=1, hypotheses=0, ranks=0, cases=0, changes=0, sentences=1),
)


def unstyled(text: str, _: str) -> str:
    """The text as it is."""
    return text


def render_text(diagnosis: Diagnosis, width: int = 100, style: Style = unstyled, verbose: bool = False) -> str:
    """The answer on one screen of at most ``SCREEN_LINES`` lines of ``width``; ``verbose``: everything."""
    page = _Page(diagnosis, width, style)
    if verbose:
        return page.everything()
    screens = (page.screen(room) for room in ROOMS)
    return next((text for text in screens if text.count("\n") <= SCREEN_LINES), page.screen(ROOMS[-1]))


class _Page:
    """One diagnosis, one width."""

    def __init__(self, diagnosis: Diagnosis, width: int, style: Style) -> None:
        self.diagnosis, self.width, self.style = diagnosis, width, style

    def screen(self, room: Room) -> str:
        """The first screen, with that much room."""
        return _joined(
            [
                self._title(),
                self._verdict(room.sentences),
                self._comparison(room.changes),
                self._causes(room),
                self._leads(room),
                self._hypotheses(room.hypotheses),
                self._breakdown(room.ranks),
                self._groups(room.ranks),
                "\n".join(
                    filter(
                        None, (self._unanswered(), *self._own_notes(), *self._short_cases(room.cases), self._footer())
                    )
                ),
            ]
        )

    def everything(self) -> str:
        """The whole diagnosis."""
        found = {name: self._section(section) for name, section in sections(self.diagnosis).items()}
        before = [found.pop(name, "") for name in BEFORE_BREAKDOWN]
        breakdown, answer = self._breakdown(len(self.diagnosis.breakdown)), self._verdict(len(self.diagnosis.answer))
        again = "hermes-dx show E1 measures a figure again and prints the rows behind it."
        return _joined([self._title(), answer, *before, breakdown, self._more_detail(), *found.values(), again])

    def _wrap(self, text: str, indent: str = "", first: str | None = None) -> str:
        return textwrap.fill(
            text,
            self.width,
            initial_indent=indent if first is None else first,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def _line(self, text: str) -> str:
        """One line, cut where the terminal ends."""
        return text if len(text) <= self.width else text[: self.width - 1] + "…"

    def _heading(self, text: str) -> str:
        return self.style(text, "heading")

    def _title(self) -> str:
        run = self.diagnosis.run
        paths = dict.fromkeys(source.path for source in run.sources if source.status != "excluded")
        names = [path.rsplit("/", 1)[-1] for path in paths]  # a file may hold a log and tables of devices
        shown = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        step_time = self.diagnosis.step_time_ms
        if step_time is None and not run.cut_ranks:
            return self._line(f"{shown} · no step times")
        if step_time is None:
            return self._line(f"{shown} · cut, nothing is measured")
        if not run.ranks and run.recorded is not None:
            ranks, steps = recorded_count(run.recorded, run.layout.get("world_size"))
            return self._line(f"{shown} · {ranks} · {steps} · no trace")
        device = ", ".join(run.devices) or "CPU only"
        ranks, steps = rank_count(run), counted(len(run.steps), "step")
        return self._line(f"{shown} · {ranks} · {steps} · {device}")

    def _verdict(self, sentences: int) -> str:
        """The verdict with the first sentences; a model's answer is in paragraphs."""
        said, lead = self.diagnosis.answer[:sentences], f"{self.diagnosis.verdict.upper()}: "
        paragraphs = said if self.diagnosis.answer_by == "model" else [said[0], *filter(None, [" ".join(said[1:])])]
        opened = paragraphs[0].removeprefix(OPEN)
        first = self._wrap(lead + opened[:1].upper() + opened[1:]).removeprefix(lead)
        return "\n".join([self.style(lead, self.diagnosis.verdict) + first, *map(self._wrap, paragraphs[1:])])

    def _comparison(self, changes: int) -> str:
        comparison = self.diagnosis.comparison
        if comparison is None:
            return ""
        lines = [self._wrap(f"{self._heading('Against the baseline')}: {comparison.headline}")]
        return "\n".join([*lines, *(self._wrap(change, "  ", "- ") for change in comparison.changes[:changes])])

    def _causes(self, room: Room) -> str:
        causes = list(enumerate(self.diagnosis.causes, start=1))
        if not causes:
            return ""
        lines = [self._columns(self._heading("Causes, largest saving first"), "saves", self._share)]
        for place, cause in causes[: room.causes]:
            lines += [self._cause_line(place, cause), self._wrap(cause.claim, INDENT)]
            if where := cause.where:
                lines.append(self._wrap(f"Where: {where}", INDENT))
            lines += self._fix(cause)
        listed = causes[room.causes : room.causes + room.lines]
        lines += [self._cause_line(place, cause) for place, cause in listed]
        if rest := len(causes) - len(listed) - min(room.causes, len(causes)):
            lines.append(f"{INDENT}and {counted(rest, 'smaller cause')}")
        return "\n".join(lines)

    def _leads(self, room: Room) -> str:
        """What is localised but not explained, with its likely causes and what decides between them."""
        shown = self.diagnosis.leads[: room.leads]
        if not shown:
            return ""
        lines = [self._columns(self._heading("Leads: seen, not explained"), "costs", self._share)]
        for lead in shown:
            figures = (f"{lead.impact_ms_per_step:.1f} ms", f"{lead.impact_pct:.1f} %")
            if not lead.impact_ms_per_step or is_whole_step(lead):
                figures = ("" if lead.impact_ms_per_step else "unknown", "")
            ranks = "" if len(self.diagnosis.run.ranks) < 2 else f", {rank_list(lead.place.ranks)}"
            lines.append(
                self._columns(f"{lead.id} {PLACE_TITLES[lead.place.part]}, {lead.place.steps}{ranks}", *figures)
            )
            lines.append(self._wrap(lead.claim, INDENT))
            lines.append(self._wrap(lead_outlook(lead, on_devices(self.diagnosis.run)), INDENT))
        return "\n".join(lines)

    def _hypotheses(self, most: int) -> str:
        """What tests decided on the leads and on causes of low confidence, one line each; the others are counted."""
        decided = [each for each in self.diagnosis.hypotheses if each.status in ("supported", "refuted")]
        if not decided or not most:
            return ""
        lines = [self._line(f"{each.id} {hypothesis_title(each)}{hypothesis_reason(each)}") for each in decided[:most]]
        if rest := len(self.diagnosis.hypotheses) - len(lines):
            lines.append(f"{INDENT}and {rest} more (-v lists them)")
        return "\n".join([self._heading("Hypotheses tested"), *lines])

    def _cause_line(self, place: int, cause: CauseRecord) -> str:
        low = " (low confidence)" if cause.confidence < defaults()["confidence"].value else ""
        title = f"{place}. {cause_heading(cause.cause, cause.mechanism)}"
        figures = (saved_ms(cause), f"{cause.impact_pct:.1f} %")
        line = self._columns(f"{title}{low}", *figures)
        return line.replace(title, self.style(title, "cause"), 1)

    def _columns(self, text: str, *cells: str) -> str:
        right = "".join(f" {cell}".rjust(10) for cell in cells)
        return text.ljust(min(self.width, 80) - len(right)) + right

    @property
    def _marked(self) -> bool:
        """Whether steps were found; else the whole recording counts as one."""
        return self.diagnosis.run.step_origin != "window"

    @property
    def _share(self) -> str:
        return "of step" if self._marked else "of all"

    def _fix(self, cause: CauseRecord) -> list[str]:
        """The first change that is advised for the cause, with the predicted gain."""
        own = [each for each in self.diagnosis.advice if (each.for_, each.mechanism) == (cause.cause, cause.mechanism)]
        if not own:
            return []
        item = own[0]
        gain = ""
        known = item.interval or item.at_most
        if item.predicted_step_ms is not None and item.predicted_speedup is not None and known:
            spread = f" ({speedup_range(*item.interval)})" if item.interval else ""
            faster = f"{item.predicted_speedup:.2f}x faster{spread}"
            alone = ", with this alone" if cause.shared_with else ""  # its saving above leaves out what others save too
            least, most = ("at least ", "at most ") if item.at_most else ("", "")
            whole = "step" if self._marked else "time of the recording"
            whole = "time for as many samples" if item.same_samples else whole
            gain = f" Predicted {whole}{alone}: {least}{written(item.predicted_step_ms, 'ms')}, {most}{faster}."
        lines = [self._wrap(f"Fix {item.id}: {item.optimization} ({EFFORTS[item.effort]}).{gain}", INDENT)]
        return [*lines, *(f"{INDENT}{line}" for line in masked(cause))]

    def _breakdown(self, ranks: int) -> str:
        rows = [row for row in self.diagnosis.breakdown if row.step is None]
        if not rows or not ranks:
            return ""
        shown = sorted(sorted(rows, key=lambda row: -row.wall_ms)[:ranks], key=lambda row: row.rank)
        heads = "".join(head.rjust(10) for head in HEADS)
        heading = "Time per step in ms: comm. and copies are the exposed parts"
        if any(each.endswith(WORK_MISSING) for each in self.diagnosis.run.devices):
            heading = "Time per step in ms, of the host alone: what a device did is missing"
        lines = [self._heading(heading), f"{'rank':>4}{heads}"]
        for row in shown:
            lines.append(f"{row.rank:>4}" + "".join(f"{getattr(row, f'{name}_ms'):>10.2f}" for name in COLUMNS))
        if rest := len(rows) - len(shown):
            lines.append(f"   and {counted(rest, 'more rank')}: hermes-dx ranks RUN")
        return "\n".join(lines)

    def _groups(self, most: int) -> str:
        """The groups of ranks that differ, of a run of which some ranks were read in full."""
        found = rank_groups(self.diagnosis.run.screening)
        if not found.items or not most:
            return ""
        lines = [self._wrap(f"{item.title}{item.text}", INDENT, "") for item in found.items[: most + 1]]
        if rest := len(found.items) - len(lines):
            lines.append(f"{INDENT}and {counted(rest, 'more group')}: -v")
        return "\n".join([self._heading(found.title), *lines])

    def _unanswered(self) -> str:
        checks = self.diagnosis.checks
        unanswered = sum(check.status == "cannot_answer" for check in checks)
        notes = len(notes_of(self.diagnosis))
        noted = f"; {counted(notes, 'note')}" if notes else ""
        return f"Not assessable from this data: {unanswered} of {counted(len(checks), 'check')}{noted} (-v lists them)."

    def _own_notes(self) -> list[str]:
        """Files that nobody reads, sources that disagree, how the answer was made; other notes are counted."""
        said = self.diagnosis.run
        own = [*said.conflicts, *(note for note in self.diagnosis.notes if note not in said.notes)]
        unread = [self._wrap(f"{said.unread}.")] if said.unread else []
        return [*unread, *(self._wrap(f"Note: {note}") for note in own[:NOTES_SHOWN])]

    def _short_cases(self, most: int) -> list[str]:
        chosen = self.diagnosis.cases[:most]
        lines = [f"{similar_cases_title(chosen)}:"] if chosen else []
        return lines + [self._line(f"  [{case.id}] {case.title}") for case in chosen]

    def _footer(self) -> str:
        ranges = "".join(f"{meaning} " for meaning in interval_meaning(self.diagnosis))
        return self._wrap(f"{ranges}All evidence: -v; rows behind a figure: hermes-dx show E1.")

    def _section(self, section: Section) -> str:
        before = [self._wrap(section.before)] if section.before else []
        items = [line for item in section.items for line in self._item(item)]
        return "\n".join([self._heading(section.title), *before, *items, *map(self._wrap, section.after)])

    def _item(self, item: Item) -> list[str]:
        head = self._wrap(f"{item.mark} {item.title}{item.text}", INDENT, "")
        head = head.replace(item.title, self.style(item.title, "cause"), 1) if item.lines else head
        return [
            head,
            *(self._wrap(line, INDENT) for line in item.lines),
            *([f"{INDENT}{item.url}"] if item.url else []),
        ]

    def _more_detail(self) -> str:
        """Kernel classes, and the TensorBoard plugin's attribution, of the first rank that has them."""
        lines = []
        if self.diagnosis.kernel_classes:
            rank = self.diagnosis.kernel_classes[0].rank
            classes = [row for row in self.diagnosis.kernel_classes if row.rank == rank][:CLASSES_SHOWN]
            listed = ", ".join(f"{row.kernel_class} {row.ms_per_step:.2f}" for row in classes)
            lines.append(self._wrap(f"Kernels by class, rank {rank}, ms per step: {listed}", "  "))
        for row in self.diagnosis.plugin_attribution[:1]:
            listed = ", ".join(f"{role.replace('_', ' ')} {value:.2f}" for role, value in row.roles_ms.items())
            text = f"By the TensorBoard plugin's priorities, rank {row.rank}, ms of {row.step_ms:.2f}: {listed}"
            lines.append(self._wrap(text, "  "))
        return "\n".join([self._heading("More detail"), *lines]) if lines else ""


def _joined(blocks: list[str]) -> str:
    return "\n\n".join(block for block in blocks if block) + "\n"
