"""Conducts the chat: begins the work a person asks for, and shows what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from textual.app import App
from textual.screen import Screen

from hermes_agent.locations.places import Place, name_of
from hermes_agent.model.events import AnswerDelta, AnswerRejected, Event, Notice
from hermes_agent.tui import worker as jobs
from hermes_agent.tui.answer import AnswerMessage
from hermes_agent.tui.conversation import Conversation
from hermes_agent.tui.panel import SidePanel
from hermes_agent.tui.progress import Progress, advance
from hermes_agent.tui.sections import Section
from hermes_agent.tui.session_protocol import ChatSession, Openings
from hermes_agent.tui.status import StatusLine
from hermes_agent.tui.tables import TableView
from hermes_agent.tui.work import Answered, Ended, Failed, Happened, Job, Opened, ShownAgain, Stopped
from hermes_agent.tui.worker import Worker
from tools.errors import HermesError, UsageError

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis

NO_RUN = "No run is open yet; /open PATH opens one, /demo the bundled one."


class Conductor:
    """What the commands of the registry act on; used from the app's own thread only."""

    def __init__(
        self,
        app: App[int],
        openings: Openings,
        worker: Worker,
        widgets: tuple[Conversation, SidePanel, StatusLine],
        focus_input: Callable[[], object],
    ) -> None:
        self._app = app
        self._openings = openings
        self._worker = worker
        self._focus_input = focus_input
        self._conversation, self._panel, self._status = widgets
        self._session: ChatSession | None = None
        self._diagnosis: Diagnosis | None = None
        self._progress = Progress()
        self._shown_job: Job | None = None  # whose progress that is
        self._settled = Progress()  # of the run under discussion
        self._answers: dict[Job, AnswerMessage] = {}
        self._last_text = ""
        self._panel.draw(self._progress)

    def guarded(self, act: Callable[[], None]) -> None:
        """Does something; an error that a person can mend becomes a message."""
        try:
            act()
        except HermesError as error:
            self._conversation.fail(str(error))
        self.tick()

    @property
    def busy(self) -> bool:
        """Whether work runs, or its outcome has not been shown yet."""
        return self._worker.job is not None

    def tick(self) -> None:
        """Brings the status line up to date with the worker."""
        if self.busy:
            self._status.tell(doing=self._doing(), elapsed_s=self._worker.elapsed_s)
        elif self._status.status.doing:
            self._status.tell(doing="")

    def _doing(self) -> str:
        stage = self._progress.running
        job = self._worker.job
        if job is None or not job.opens or stage is None or job.stop.is_set():
            return self._worker.doing
        return f"{job.title}: {stage.value.replace('_', ' ')}"

    # What commands may do

    @property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis under discussion."""
        if self._diagnosis is None:
            raise UsageError(NO_RUN)
        return self._diagnosis

    @property
    def session(self) -> ChatSession:
        """The session of that diagnosis."""
        if self._session is None:
            raise UsageError(NO_RUN)
        return self._session

    def open_given(self) -> None:
        """Diagnoses the run named at the start."""
        if self._openings.given is not None:
            self._open(self._openings.given_title, self._openings.given)

    def open_paths(self, paths: tuple[Place, ...]) -> None:
        """Diagnoses a run."""
        first = name_of(paths[0])
        title = first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"
        self._open(title, lambda: self._openings.path(paths))

    def open_demo(self) -> None:
        """Diagnoses the bundled run."""
        self._open("the bundled run", self._openings.demo)

    def _open(self, title: str, opener: Callable[[], ChatSession]) -> None:
        self.say(f"Reading and diagnosing {title}; Esc stops it.")
        self._worker.add(jobs.opening(title, opener, before=self._session))

    def ask(self, question: str) -> None:
        """Answers a question about the run."""
        job = jobs.question(self.session, question)
        self._answers[job] = self._conversation.begin_answer()
        self._worker.add(job)

    def show(self, identifier: str) -> None:
        """Opens what stands behind an id."""
        self._worker.add(jobs.lookup(self.session, identifier))

    def say(self, *lines: str) -> None:
        """Shows a few lines."""
        self._conversation.say(*lines)

    def show_sections(self, chosen: Iterable[Section]) -> None:
        """Shows parts of a diagnosis."""
        self._conversation.show_sections(chosen)

    def show_table(self, view: TableView) -> None:
        """Opens a table."""
        from hermes_agent.tui.screens import TableScreen

        self._open_screen(TableScreen(view))

    def show_help(self) -> None:
        """Opens the help."""
        from hermes_agent.tui.screens import HelpScreen

        self._open_screen(HelpScreen())

    def _open_screen(self, screen: Screen[None]) -> None:
        """Shows a screen over the conversation; when it is closed, what is typed goes to the input again."""

        def closed(_: None) -> None:
            self._focus_input()

        self._app.push_screen(screen, closed)

    def copy_last(self) -> None:
        """Copies the last answer, or else the diagnosis as Markdown."""
        from hermes_agent.report.markdown import render_markdown

        self._app.copy_to_clipboard(self._last_text or render_markdown(self.diagnosis))
        self.say("Copied the last answer." if self._last_text else "Copied the diagnosis as Markdown.")

    def choose_theme(self, name: str) -> None:
        """Changes the theme; without a name, lets a person choose."""
        if not name:
            self._app.search_themes()
        elif name in self._app.available_themes:
            self._app.theme = name
        else:
            raise UsageError(f"There is no theme {name}; there are {', '.join(sorted(self._app.available_themes))}.")

    def leave(self) -> None:
        """Ends the chat; running work is asked to stop."""
        self._worker.stop()
        self._app.exit(0)

    def stop(self) -> bool:
        """Stops the running work and forgets what waits; says whether anything ran."""
        running = self.busy
        for job in self._worker.stop():
            self._app.post_message(Ended(job, Stopped()))
        self.tick()
        return running

    def close(self) -> None:
        """Stops what runs and gives back the session, unless a thread is still at work in it."""
        if not self.stop() and self._session is not None:
            self._session.close()
            self._session = None

    # What the worker tells

    async def happened(self, message: Happened) -> None:
        """Draws one event."""
        if message.job.stop.is_set():
            return
        if message.job.opens:
            begun = self._progress if message.job is self._shown_job else Progress()
            self._shown_job = message.job
            self._progress = advance(begun, message.event)
            self._panel.draw(self._progress)
        if message.job.opens and isinstance(message.event, AnswerDelta) and message.job not in self._answers:
            self._answers[message.job] = self._conversation.begin_answer()  # a draft, gone when the diagnosis is there
        await self._draw(message.event, self._answers.get(message.job))
        self.tick()

    async def _draw(self, event: Event, answer: AnswerMessage | None) -> None:
        match event:
            case AnswerDelta(text) if answer is not None:
                await answer.write(text)
            case AnswerRejected(reason) if answer is not None:
                await answer.reject(reason)
            case Notice(text) if answer is not None:
                answer.say(text)
            case _:
                pass

    async def ended(self, message: Ended) -> None:
        """Shows what came out, and lets the next work begin."""
        job = message.job
        answer = self._answers.pop(job, None)
        if job is self._worker.job:
            self._status.tell(elapsed_s=self._worker.elapsed_s)
        match message.outcome:
            case Opened():
                if answer is not None:
                    await answer.remove()
                self._take(message.outcome)
            case Answered(result) if answer is not None:
                await answer.finish(result)
                self._last_text = answer.text
            case ShownAgain(shown):
                from hermes_agent.tui.screens import EvidenceScreen

                self._open_screen(EvidenceScreen(shown))
            case Failed(text):
                if answer is not None:
                    await answer.break_off("no answer")
                self._conversation.fail(text)
            case Stopped() if answer is not None:
                await answer.break_off()
            case _:
                self.say(f"Interrupted: {job.title}.")
        if job.opens:
            self._settle(opened=isinstance(message.outcome, Opened))
        self._worker.over(job)
        self.tick()

    def _settle(self, *, opened: bool) -> None:
        """The panel shows the run under discussion again when another one could not be opened."""
        if opened:
            self._settled = self._progress
        else:
            self._progress = self._settled
            self._panel.draw(self._progress)

    def _take(self, opened: Opened) -> None:
        self._session, self._diagnosis, self._last_text = opened.session, opened.diagnosis, ""
        self._status.tell(run=opened.title, verdict=opened.diagnosis.verdict)
        self._conversation.show_diagnosis(opened.diagnosis)
