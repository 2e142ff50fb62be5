"""The controller of the chat: runs the work a person asks for, one job at a time, and shows its results."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from hermes_agent.model.events import NotStored, SourceWanted, ToolCalled
from hermes_agent.tui import sections
from hermes_agent.tui.comparisons import Comparisons
from hermes_agent.tui.history import Diagnosed, Said
from hermes_agent.tui.kept_sessions import KeptSessions
from hermes_agent.tui.messages import AnswerMessage
from hermes_agent.tui.panel import Progress, advance
from hermes_agent.tui.pictures.registry import Drawn, Picture, Source, picture_for
from hermes_agent.tui.runs import Opened, OpenRun, Runs, addressed, name_for
from hermes_agent.tui.screens import EvidenceScreen, ResultScreen
from hermes_agent.tui.work import Cancelled, ChatSession, Ended, Happened, Job, perform
from tools.errors import HermesError, UsageError
from tools.knowledge.thresholds import Thresholds

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.events import Emit, Event
    from hermes_agent.model.turn import Turn
    from hermes_agent.session import Answer, Shown
    from hermes_agent.tui.app import HermesChat


HANDLE = re.compile(r"R\d+")


@dataclass(frozen=True)
class Held:
    """A line typed while a run is opened, and what it does once that run is there."""

    opening: Job[Any]
    text: str
    act: Callable[[], None]


class Controller:
    """The work and the open runs of the chat; used from the app's own thread only."""

    def __init__(self, app: HermesChat, clock: Callable[[], float]) -> None:
        self._app, self._clock = app, clock
        self._job: Job[Any] | None = None
        self._waiting: deque[Job[Any]] = deque()
        self._started_s = 0.0
        self.runs = Runs()
        self.kept = KeptSessions(app, self)
        self.comparisons = Comparisons(app, self)
        self._wanted: SourceWanted | None = None
        self._progress = Progress()
        self._shown_job: Job[Any] | None = None  # the job of that progress
        self._answers: dict[object, AnswerMessage] = {}
        self._last_text = ""
        self._held: list[Held] = []  # typed while a run is opened
        self._releasing = False
        self._left = False  # after that nothing is shown: the conversation may be gone
        app.panel.draw(self._progress)

    def guarded(self, act: Callable[[], None]) -> None:
        """Run a command; an error that a person can fix becomes a message."""
        try:
            act()
        except HermesError as error:
            self._app.conversation.say(str(error), kind="error")
        self.tick()

    @property
    def busy(self) -> bool:
        """Return whether a job runs, or its result has not been shown yet."""
        return self._job is not None

    def tick(self) -> None:
        """Update the status line."""
        status, stage, job = self._app.status, self._progress.running, self._job
        if job is None:
            status.doing = ""
            return
        status.elapsed_s = self._clock() - self._started_s
        named = f": {stage.value.replace('_', ' ')}" if job.opens and stage else ""
        status.doing = "stopping" if job.stop.is_set() else job.title + named

    def add(self, job: Job[Any]) -> None:
        """Run the job now, or after those before it."""
        self._waiting.append(job)
        self._next()

    def _next(self) -> None:
        if self._job is None and self._waiting:
            self._job = self._waiting.popleft()
            self._started_s = self._clock()
            self._wanted = None
            act = partial(perform, self._job, self._app.post_message)
            self._app.run_worker(act, thread=True, exit_on_error=False, name=self._job.title)

    @property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis under discussion; raises UsageError when no run is open."""
        return self.runs.current.diagnosis

    def open(self, title: str, opener: Callable[[], ChatSession], then: str = "") -> None:
        """Diagnose a run and discuss it from now on, first with a question; the runs opened before stay open."""
        name = self.name_for(title)

        def act(emit: Emit, cancelled: Cancelled) -> Opened:
            session, kept = opener(), ""
            try:
                kept = self.kept.memory.begin(session.request, title)
                session.kept = self.kept.memory.steps(kept)
                diagnosis = session.diagnose(emit, cancelled)
                self.kept.memory.add(kept, session)
                return Opened(session, diagnosis, kept)
            except BaseException as error:
                session.close()
                if cancelled():
                    self.kept.memory.interrupted(kept, session.request)
                elif isinstance(error, HermesError):
                    self.kept.memory.forget(kept)
                raise

        def done(opened: Opened) -> None:
            self.discuss(name, title, opened)
            if then:
                self._answer(self.runs.current, then)

        self._app.conversation.say(f"Reading and diagnosing {title}; Esc stops it.")
        self.add(Job(f"diagnosing {title}", act, done, opens=True, about=name))

    def name_for(self, title: str) -> str:
        """A name that no open run has, nor one that is being opened."""
        return name_for(title, {*self.runs.open, *(job.about for job in self._jobs())})

    def _jobs(self) -> list[Job[Any]]:
        """The running job and those that wait, in order."""
        return [*((self._job,) if self._job else ()), *self._waiting]

    def discuss(self, name: str, title: str, opened: Opened) -> None:
        """Show a diagnosis and discuss its run from now on."""
        self.runs.add(OpenRun(name, title, opened.session, opened.diagnosis, self._progress, opened.kept, self._wanted))
        self._wanted, self._last_text = None, ""
        self.kept.entries.append(Diagnosed(name, title, opened.diagnosis))
        self._show_status()
        self._app.conversation.show_diagnosis(opened.diagnosis, name)
        if len(self.runs.open) > 1:
            self._app.conversation.say(f"This run is @{name}; {self._named_runs()}.")
        for each in self.kept.memory.problems():
            self._app.conversation.say(each, kind="error")
        if (wanted := self.runs.current.wanted) is not None:
            self._app.conversation.say(wanted.question, "/attach PATH adds it, /skip goes on without it.", about=name)

    def attach(self, paths: tuple[Path, ...]) -> None:
        """Diagnose the run again with more of its sources; without any, go on without what was asked for."""
        run = self.runs.current
        if not paths:
            if run.wanted is None:
                raise UsageError("No source was asked for, so there is nothing to skip.")
            self.runs.add(replace(run, wanted=None))
            self._app.conversation.say(f"Going on without it ({run.wanted.source}).")
            self.add(Job("concluding", lambda _, __: run.session.skip(), lambda _: None))
            return
        if missing := next((path for path in paths if not path.exists()), None):
            raise UsageError(f"{missing}: there is no such file or folder; check the path.")

        def done(diagnosis: Diagnosis) -> None:
            self.discuss(run.name, run.title, Opened(run.session, diagnosis, run.kept))

        def act(emit: Emit, cancelled: Cancelled) -> Diagnosis:
            diagnosis = run.session.attach(paths, emit, cancelled)
            self.kept.memory.add(run.kept, run.session)
            return diagnosis

        self.add(Job("diagnosing again", act, done, opens=True, about=run.name))

    def _named_runs(self) -> str:
        return f"open are {', '.join(f'@{each}' for each in self.runs.open)}"

    def _show_status(self) -> None:
        """Name the run under discussion in the status line."""
        run, status = self.runs.current, self._app.status
        status.run_title = run.title if len(self.runs.open) == 1 else f"@{run.name}"
        status.verdict = run.diagnosis.verdict

    def switch(self, name: str) -> None:
        """Discuss another open run from now on."""
        run = self.runs.named(name)
        self.runs.current_name = run.name
        self._show_status()
        self._progress = run.progress
        self._app.panel.draw(run.progress)
        self._app.conversation.say(f"Now about @{run.name} ({run.title}): {run.diagnosis.verdict}.")

    def list_runs(self) -> None:
        """Show the open runs, the one under discussion marked."""
        current = self.runs.current
        lines = [
            f"{'>' if run is current else ' '} @{run.name}: {run.title}, {run.diagnosis.verdict}"
            for run in self.runs.open.values()
        ]
        self._app.conversation.say(*lines, "@name switches; @name in front of a question asks about that run.")

    def ask(self, text: str) -> None:
        """Answer a question about the run, or about the one that it addresses; an address alone switches to it."""
        name, question = addressed(text)
        if name and name.lower() not in self.runs.open and Path(name).expanduser().exists():
            path = Path(name).expanduser()
            self.open(path.name, lambda: self._app.openings.path((path,)), then=question)
            return
        if not name and self.held(question, lambda: self._answer(self.runs.current, question)):
            return
        run = self.runs.named(name)
        if name and not question:
            self.switch(name)
            return
        self._answer(run, question)

    def held(self, text: str, act: Callable[[], None]) -> bool:
        """Keep what was typed back while a run is opened, which it is meant for; return whether one is."""
        opening = next((job for job in reversed(self._jobs()) if job.opens), None)
        if opening is None or self._releasing:
            return False
        self._held.append(Held(opening, text, act))
        self._app.conversation.say(f"{opening.title.capitalize()} comes first; this is then about that run.")
        return True

    def hold_until(self, before: Job[Any], opening: Job[Any]) -> None:
        """Let what waits for one job wait for another, which goes on with its work."""
        self._held = [replace(each, opening=opening) if each.opening is before else each for each in self._held]

    def _release(self, opening: Job[Any], opened: bool) -> None:
        """Act on what was typed while a run was opened, about that run and no other."""
        ready = [each for each in self._held if each.opening is opening]
        self._held = [each for each in self._held if each.opening is not opening]
        self._releasing = True
        for each in ready:
            if opened:
                self.guarded(each.act)
            else:
                self._app.conversation.say(f"Not done, because the run was not opened: {each.text}")
        self._releasing = False

    def _answer(self, run: OpenRun, question: str) -> None:
        """Answer a question about a run."""

        def act(emit: Emit, cancelled: Cancelled) -> tuple[Answer, Turn]:
            answer = run.session.ask(question, emit, cancelled)
            turn = run.session.turns[-1]
            self.kept.memory.add(run.kept, run.session, turn)
            return answer, turn

        async def done(found: tuple[Answer, Turn]) -> None:
            answer, turn = found
            await message.finish(answer)
            self._last_text = message.text
            self.kept.entries.append(Said(run.name, run.title, turn))
            for each in self.kept.memory.problems():
                self._app.conversation.say(each, kind="error")
            if (picture := picture_for(question)) is not None:
                self.draw(picture, "", run)

        job = Job("answering", act, done)
        message = self._answers[job] = AnswerMessage(run.name)
        self._app.conversation.mount(message)
        self.add(job)

    def draw(self, picture: Picture, argument: str, run: OpenRun | None = None) -> None:
        """Show a picture of a run, by default of the one under discussion."""
        chosen = run or self.runs.current

        def act(emit: Emit, cancelled: Cancelled) -> Drawn:
            limits = Thresholds(dict(self._app.openings.thresholds))
            return picture.make(Source(chosen.diagnosis, chosen.session, emit, cancelled, limits), argument)

        show = partial(self._app.conversation.show_picture, about=chosen.name)
        self.add(Job(f"drawing the {picture.name.replace('-', ' ')}", act, show, about=chosen.name))

    def show(self, identifier: str, about: str = "") -> None:
        """Open the record behind an id of an open run, by default of the one under discussion."""
        run = self.runs.named(about)
        if HANDLE.fullmatch(identifier):
            show = partial(self._result, run, identifier)
            self.add(Job(f"opening {identifier}", lambda _, __: run.session.result(identifier), show))
            return
        if hypothesis := next((each for each in run.diagnosis.hypotheses if each.id == identifier), None):
            self._app.conversation.show_sections((sections.hypothesis(hypothesis),), run.name)
            return

        def done(shown: Shown) -> None:
            self.open_screen(EvidenceScreen(shown, run.name, self._titled(run, shown.title)))

        self.add(Job(f"measuring {identifier} again", lambda _, __: run.session.show(identifier), done))

    def _titled(self, run: OpenRun, title: str) -> str:
        """The title of a screen, with the run's name where several are open."""
        return title if len(self.runs.open) == 1 else f"@{run.name}: {title}"

    def _result(self, run: OpenRun, handle: str, text: str) -> None:
        tool = self._app.conversation.tool_behind(handle, run.name)
        self.open_screen(ResultScreen(self._titled(run, f"{handle}: result of {tool}"), text))

    def open_screen(self, screen: Screen[None]) -> None:
        """Show a screen over the conversation; when it is closed, the input is focused again."""

        def closed(_: None) -> None:
            self._app.prompt.focus()

        self._app.push_screen(screen, closed)

    def copy_last(self) -> None:
        """Copy the last answer, or else the diagnosis as Markdown."""
        from hermes_agent.report.markdown import render_markdown

        self._app.copy_to_clipboard(self._last_text or render_markdown(self.diagnosis))
        what = "last answer" if self._last_text else "diagnosis"
        hint = "if pasting gives nothing, use /report FILE.md."
        self._app.conversation.say(f"Sent the {what} to the terminal's clipboard; {hint}")

    def choose_theme(self, name: str) -> None:
        """Change the theme; without a name, open the list."""
        if not name:
            self._app.search_themes()
        elif name in self._app.available_themes:
            self._app.theme = name
        else:
            raise UsageError(f"There is no theme {name}; there are {', '.join(sorted(self._app.available_themes))}.")

    def leave(self) -> None:
        """End the chat; the running job is asked to stop."""
        self._left = True
        self.stop()
        self._app.exit(0)

    def stop(self) -> bool:
        """Stop the running job and drop the waiting ones; return whether any ran."""
        if self._job is not None:
            self._job.stop.set()
        while self._waiting:
            self._app.post_message(Ended(self._waiting.popleft()))
        self.tick()
        return self.busy

    def close(self) -> None:
        """Stop the running job and close the sessions, unless a thread still uses it."""
        self._left = True
        if not self.stop():
            self.runs.close()

    async def happened(self, message: Happened) -> None:
        """Draw one event."""
        job, event = message.job, message.event
        if job.stop.is_set() or self._left:
            return
        if job.opens:
            self._advance(job, event)
        if job in self._answers:
            await self._answers[job].hear(event)
        else:
            self._hear(job, event)
        self.tick()

    def _advance(self, job: Job[Any], event: Event) -> None:
        """Draw the progress of a diagnosis in the panel."""
        before = self._progress if job is self._shown_job else Progress()
        self._shown_job = job
        self._progress = advance(before, event)
        self._app.panel.draw(self._progress)

    def _hear(self, job: Job[Any], event: Event) -> None:
        """Show what the conversation says of work without an answer of its own."""
        match event:
            case NotStored(text):
                self._app.conversation.say(text)
            case ToolCalled(call):
                self._app.conversation.show_call(call, job.about)
            case SourceWanted():
                self._wanted = event
            case _:
                pass

    async def ended(self, message: Ended) -> None:
        """Show the result, and start the next job; after leaving, neither."""
        job = message.job
        if not self._left:
            await self._show_end(message)
        if job is self._job:
            self._job = None
        if self._left:
            return
        if job.opens:
            self._release(job, opened=message.take is not None)
        self._next()
        self.tick()

    async def _show_end(self, message: Ended) -> None:
        job = message.job
        answer = self._answers.pop(job, None)
        if job is self._job:
            self._app.status.elapsed_s = self._clock() - self._started_s
        if message.take is not None:
            if (waited := message.take()) is not None:
                await waited
        elif answer is not None:
            answer.say("no answer" if message.error else "interrupted")
        elif not message.error:
            self._app.conversation.say(f"Interrupted: {job.title}.")
        if message.error:
            self._app.conversation.say(message.error, kind="error")
        if job.opens and message.take is None:  # the panel shows the run under discussion again
            self._progress = self.runs.current.progress if self.runs.open else Progress()
            self._app.panel.draw(self._progress)
