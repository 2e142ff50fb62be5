"""The controller of the chat: runs the work a person asks for, one job at a time, and shows its results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from hermes_agent.model.events import AnswerDelta, AnswerRejected, Notice, NotStored
from hermes_agent.tui.messages import AnswerMessage
from hermes_agent.tui.panel import Progress, advance
from hermes_agent.tui.screens import EvidenceScreen
from hermes_agent.tui.work import Cancelled, ChatSession, Ended, Happened, Job, perform
from tools.errors import HermesError, UsageError

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.events import Emit
    from hermes_agent.session import Answer, Shown
    from hermes_agent.tui.app import HermesChat

    Opened = tuple[ChatSession, Diagnosis]


class Controller:
    """The work and the open run of the chat; used from the app's own thread only."""

    def __init__(self, app: HermesChat, clock: Callable[[], float]) -> None:
        self._app, self._clock = app, clock
        self._job: Job[Any] | None = None
        self._waiting: deque[Job[Any]] = deque()
        self._started_s = 0.0
        self._opened: Opened | None = None
        self._progress = Progress()
        self._shown_job: Job[Opened] | None = None  # the job of that progress
        self._settled = Progress()  # of the run under discussion
        self._answers: dict[object, AnswerMessage] = {}
        self._last_text = ""
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

    def _add(self, job: Job[Any]) -> None:
        """Run the job now, or after those before it."""
        self._waiting.append(job)
        self._next()

    def _next(self) -> None:
        if self._job is None and self._waiting:
            self._job = self._waiting.popleft()
            self._started_s = self._clock()
            act = partial(perform, self._job, self._app.post_message)
            self._app.run_worker(act, thread=True, exit_on_error=False, name=self._job.title)

    def _current(self) -> Opened:
        if self._opened is None:
            raise UsageError("No run is open yet; /open PATH opens one, /demo the bundled one.")
        return self._opened

    @property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis under discussion; raises UsageError when no run is open."""
        return self._current()[1]

    def open(self, title: str, opener: Callable[[], ChatSession]) -> None:
        """Diagnose a run."""

        def act(emit: Emit, cancelled: Cancelled) -> Opened:
            session = opener()
            try:
                return session, session.diagnose(emit)
            except BaseException:
                session.close()
                raise

        def done(opened: Opened) -> None:
            if self._opened is not None:
                self._opened[0].close()
            self._opened, self._last_text = opened, ""
            self._app.status.run_title, self._app.status.verdict = title, opened[1].verdict
            self._app.conversation.show_diagnosis(opened[1])

        self._app.conversation.say(f"Reading and diagnosing {title}; Esc stops it.")
        self._add(Job(f"diagnosing {title}", act, done, opens=True))

    def ask(self, question: str) -> None:
        """Answer a question about the run."""
        session, _ = self._current()

        async def done(answer: Answer) -> None:
            await message.finish(answer)
            self._last_text = message.text

        job = Job("answering", lambda emit, cancelled: session.ask(question, emit, cancelled), done)
        message = self._answers[job] = AnswerMessage()
        self._app.conversation.mount(message)
        self._add(job)

    def show(self, identifier: str) -> None:
        """Open the record behind an id."""
        session, _ = self._current()

        def done(shown: Shown) -> None:
            self.open_screen(EvidenceScreen(shown))

        self._add(Job(f"measuring {identifier} again", lambda _, __: session.show(identifier), done))

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
        """Stop the running job and close the session, unless a thread still uses it."""
        if not self.stop() and self._opened is not None:
            self._opened[0].close()
            self._opened = None

    async def happened(self, message: Happened) -> None:
        """Draw one event."""
        job, event = message.job, message.event
        if job.stop.is_set():
            return
        if job.opens:
            before = self._progress if job is self._shown_job else Progress()
            self._shown_job = job
            self._progress = advance(before, event)
            self._app.panel.draw(self._progress)
            if isinstance(event, NotStored):
                self._app.conversation.say(event.text)
        elif job in self._answers:
            match event:
                case AnswerDelta(text):
                    await self._answers[job].write(text)
                case Notice(text) | AnswerRejected(text):
                    self._answers[job].say(text)
                case _:
                    pass
        self.tick()

    async def ended(self, message: Ended) -> None:
        """Show the result, and start the next job."""
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
        if job.opens and message.take is not None:
            self._settled = self._progress
        elif job.opens:  # the panel shows the run under discussion again
            self._progress = self._settled
            self._app.panel.draw(self._progress)
        if job is self._job:
            self._job = None
        self._next()
        self.tick()
