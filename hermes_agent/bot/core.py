"""The bot itself: takes events of a platform, decides whether they may be acted on, and answers each in a task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Flag
from typing import TypeVar

from pydantic import ValidationError

from hermes_agent.bot import answer as actions
from hermes_agent.bot.access import Access, Budget
from hermes_agent.bot.desk import Desk
from hermes_agent.bot.feedback import About, Feedback, add_feedback
from hermes_agent.bot.live import EVERY_S, LiveMessage, Progress
from hermes_agent.bot.message import Message, Paragraph, sentence
from hermes_agent.bot.platform import Asked, Clicked, Incoming, Place, Platform, PlatformError, Posted
from hermes_agent.bot.threads import Threads
from hermes_agent.bot.wishes import Compare, Diagnose, Help, ListRuns, Question, Unclear, wish_of
from hermes_agent.evidence.printable import printable
from hermes_agent.llm.model import Cancelled
from hermes_agent.model.events import Emit, Event
from tools.errors import HermesError, InputError, UsageError
from tools.knowledge.taxonomy import causes

LOG = logging.getLogger("hermes_dx.bot")
LONGEST_TEXT = 4000  # characters of a question
AT_ONCE = 2  # pieces of work
MOST_WAITING = 50  # events that are worked on or wait for it; of one user ``MOST_OF_USER``
MOST_OF_USER = 4
MOST_REFUSED = 1000  # different refusals that are reported
HELP = """I say why a training run is slow and what to change first.
- `NAME` or `diagnose NAME`: the diagnosis of a registered run
- `NAME which rank is slow?`: a question about it; in the thread of an answer without the name
- `compare A B`: what changed from run A to run B
- `runs`: the registered runs"""
INTERNAL = "Something went wrong inside of the bot; its log on the machine says what."
Done = TypeVar("Done")


@dataclass(frozen=True)
class Limits:
    """How often a user may ask and how often a message changes."""

    questions: int = 20
    seconds: float = 3600.0
    update_s: float = EVERY_S


@dataclass(frozen=True)
class Parts:
    """What a bot is made of; ``report`` gets one line about each thing that whoever runs the bot should know."""

    platform: Platform
    desk: Desk
    threads: Threads
    access: Access
    feedback: Path
    limits: Limits = field(default_factory=Limits)
    report: Callable[[str], None] = LOG.warning


class Bot:
    """One bot on one platform; everything but the work itself happens on the event loop."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._platform, self._desk = parts, parts.platform, parts.desk
        self._budget = Budget(parts.limits.questions, parts.limits.seconds)
        self._tasks: dict[asyncio.Task[None], str] = {}  # with the user that it is for
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}  # by thread, with the number of those that want it
        self._room = asyncio.Semaphore(AT_ONCE)
        self._stop = Flag()
        self._refused: set[tuple[tuple[str, ...], str, str]] = set()

    async def run(self) -> None:
        """Answer until cancelled."""
        try:
            await self._platform.receive(self.take)
        finally:
            self._stop.set()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def busy(self) -> bool:
        """Whether something is worked on."""
        return bool(self._tasks)

    async def settled(self) -> None:
        """Return when nothing is worked on."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def take(self, event: Incoming) -> None:
        """Act on an event in a task of its own, or drop it: from strangers, seen before, or too many."""
        if not self._parts.access.allows(event):
            self._report_refusal(event)
            return
        try:
            new = self._parts.threads.first_time(f"{self._platform.name}:{event.id}")
        except InputError as error:  # without its store the bot could answer twice and would forget the thread
            self.report(f"not answered: {error}")
            return
        if new:
            self._spawn(event)

    def _spawn(self, event: Incoming) -> None:
        now, user = time.monotonic(), f"{event.place.team}/{event.user}"
        work: Awaitable[None]
        if not self._budget.take(user, now):
            text = self._budget.warn(user, now)
            if not text:
                return
            work = self._say(event.place, text)
        elif len(self._tasks) >= MOST_WAITING or list(self._tasks.values()).count(user) >= MOST_OF_USER:
            work = self._say(event.place, "I am still working on earlier questions; ask again when they are answered.")
        else:
            work = self._answered(event)
        task = asyncio.ensure_future(self._guarded(work, event.place))
        self._tasks[task] = user
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _guarded(self, work: Awaitable[None], place: Place) -> None:
        """The outermost boundary of one event: a sentence for the person, and one for whoever runs the bot."""
        try:
            await work
        except HermesError as error:
            await self._say(place, self._desk.said("", str(error)))
        except PlatformError as error:
            self._parts.report(f"{self._platform.name}: {error}")
        except Cancelled:
            return
        except Exception as error:
            LOG.exception("an event could not be answered")
            self._parts.report(f"an event could not be answered: {type(error).__name__}: {printable(str(error), 300)}")
            await self._say(place, INTERNAL)

    async def _say(self, place: Place, text: str) -> None:
        try:
            await self._platform.reply(place, sentence(text))
        except PlatformError as error:
            self._parts.report(f"{self._platform.name}: {error}")

    async def _answered(self, event: Incoming) -> None:
        """One event of a thread after the other, and only so many at once."""
        key = event.place.key
        lock, wanting = self._turns.get(key, (asyncio.Lock(), 0))
        self._turns[key] = lock, wanting + 1
        try:
            async with lock, self._room:
                if isinstance(event, Asked):
                    await self._asked(event)
                else:
                    await self._clicked(event)
        finally:
            lock, wanting = self._turns.pop(key)
            if wanting > 1:
                self._turns[key] = lock, wanting - 1

    async def _asked(self, event: Asked) -> None:
        length = event.cut_from or len(event.text)
        if length > LONGEST_TEXT:
            raise UsageError(f"Your message has {length:,} characters, {LONGEST_TEXT:,} are read; ask in fewer words.")
        place = event.place
        thread = self._parts.threads.find(place.key) if place.thread else None
        wish = wish_of(event.text, self._desk.names(), thread.run if thread else "")
        match wish:
            case Help():
                await self._platform.reply(place, Message("How to ask", (Paragraph(HELP),)))
            case ListRuns():
                await self._platform.reply(place, self._desk.listed())
            case Unclear(reason):
                await self._say(place, reason)
            case Diagnose(run):
                await self.diagnosed(place, run)
            case Question(run, text):
                await self._questioned(place, run, text)
            case Compare(before, after):
                await self._compared(place, before, after)

    async def diagnosed(self, place: Place, run: str) -> None:
        """Answer with the diagnosis of a run, then with its picture and report."""

        def work(emit: Emit, _: Callable[[], bool]) -> Message:
            return self._desk.answer(run, emit)

        posted = await self._worked(place, f"Diagnosing {run}", run, work)
        files, note = await self._in_thread(lambda emit: self._desk.files(run, emit), lambda _: None)
        if files:
            await self._platform.upload(posted.place, files)
        if note:
            await self._platform.reply(posted.place, sentence(note))

    async def announce(self, place: Place, run: str, message: Message) -> Posted:
        """Send something that nobody asked for; its thread is about the run."""
        posted = await self._platform.reply(place, message)
        self._parts.threads.keep(posted.place.key, run)
        return posted

    async def captured(self, place: Place, run: str, folder: Path) -> None:
        """The diagnosis of traces that the monitor captured."""
        async with self._room:
            title = f"Diagnosing {folder.name} of {run}"
            await self._worked(place, title, run, lambda emit, _: self._desk.capture(run, folder, emit))

    def report(self, text: str) -> None:
        """One line for whoever runs the bot."""
        self._parts.report(printable(text, 500))

    async def _questioned(self, place: Place, run: str, text: str) -> None:
        if not place.thread:
            posted = await self._platform.reply(place, sentence(f"{run}: {text}"))
            place = posted.place
        await self._worked(
            place, "Looking", run, lambda emit, cancelled: self._desk.reply(run, place.key, text, emit, cancelled)
        )

    async def _compared(self, place: Place, before: str, after: str) -> None:
        await self._worked(
            place, f"Comparing {before} with {after}", after, lambda _, __: self._desk.compared(before, after)
        )

    async def _worked(
        self, place: Place, title: str, run: str, work: Callable[[Emit, Callable[[], bool]], Message]
    ) -> Posted:
        """Say at once what is done, show how far it is, then the result; the thread is about the run from then on."""
        posted = await self._platform.reply(place, sentence(f"{title} …"))
        if self._parts.threads.find(posted.place.key) is None:
            self._parts.threads.keep(posted.place.key, run)
        live = LiveMessage(self._platform, posted, self._parts.limits.update_s)
        progress = Progress(title)

        def show(event: Event) -> None:
            if text := progress.text(event):
                live.show(sentence(self._desk.said(run, text)))

        try:
            result = await self._in_thread(lambda emit: work(emit, self._stop.is_set), show)
        except HermesError as error:
            await live.finish(sentence(self._desk.said(run, str(error))))
            return posted
        except BaseException:
            await live.stop()
            with suppress(PlatformError):
                await self._platform.update(posted, sentence(INTERNAL))
            raise
        await live.finish(result)
        self._parts.threads.keep(posted.place.key, run)
        return posted

    async def _in_thread(self, work: Callable[[Emit], Done], show: Callable[[Event], None]) -> Done:
        loop = asyncio.get_running_loop()

        def emit(event: Event) -> None:
            if self._stop.is_set():
                raise Cancelled("The bot ends.")
            loop.call_soon_threadsafe(show, event)

        return await asyncio.to_thread(work, emit)

    async def _clicked(self, event: Clicked) -> None:
        place, run = event.place, event.value
        match event.action:
            case actions.EVIDENCE_ACTION:
                await self._worked(place, f"Evidence of {run}", run, lambda emit, _: self._desk.evidence(run, emit))
            case actions.WHY_NOT if event.value in causes():
                await self._questioned(place, _run_about(event), f"could it be {event.value}?")
            case actions.COMPARE:
                await self._compared(place, run, _run_about(event))
            case actions.RIGHT | actions.WRONG:
                said = _about(event.value)
                self._keep(event, said, right=event.action == actions.RIGHT)
                thanks = sentence(f"Noted as right, thank you ({said.run}).")
                await self._platform.reply(
                    place, thanks if event.action == actions.RIGHT else actions.asked_for_cause(said)
                )
            case actions.ACTUAL if event.value in causes():
                run, _, diagnosis = event.about.partition(" ")
                said = About(run=run[:64], diagnosis=diagnosis[:16], verdict="problem")
                self._keep(event, said, right=False, actual=event.value)
                await self._say(place, f"Noted: {event.value}, thank you.")
            case _:
                raise UsageError("That button is not known any more; ask again.")

    def _keep(self, event: Clicked, said: About, *, right: bool, actual: str = "") -> None:
        line = Feedback(
            **said.model_dump(),
            platform=self._platform.name,
            thread=event.place.key[:300],
            user=event.user[:100],
            right=right,
            actual=actual,
        )
        add_feedback(self._parts.feedback, line)

    def _report_refusal(self, event: Incoming) -> None:
        """One line for each stranger, without what was asked."""
        who = (event.teams, event.place.channel, event.user)
        if who not in self._refused and len(self._refused) < MOST_REFUSED:
            self._refused.add(who)
            team = printable(",".join(event.teams), 100)
            where = f"team {team}, channel {printable(event.place.channel, 40)}, user {printable(event.user, 40)}"
            self._parts.report(f"not on the allow-list, not answered: {where}")


def _about(value: str) -> About:
    try:
        return About.model_validate_json(value)
    except ValidationError as error:
        raise UsageError("That button is not known any more; ask again.") from error


def _run_about(event: Clicked) -> str:
    return event.about.partition(" ")[2]
