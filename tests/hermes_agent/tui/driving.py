"""How tests drive the chat: a clock that stands still, and waiting until the worker has nothing to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.pilot import Pilot

from hermes_agent.tui.app import HermesChat
from hermes_agent.tui.messages import UNICODE, Glyphs
from tests.hermes_agent.tui.fake_session import WAIT_S, FakeSession, openings

WIDE = (120, 40)
SMALL = (80, 24)
LOOK_S = 0.02
QUIET_LOOKS = 5


def chat(session: FakeSession, *, given: bool = True, model: str | None = None, glyphs: Glyphs = UNICODE) -> HermesChat:
    """The chat on a fake session; its clock stands still and its cursor does not blink."""
    app = HermesChat(lambda: openings(session, given=given, model=model), glyphs, clock=lambda: 0.0)
    app.prompt.cursor_blink = False
    return app


async def until(condition: Callable[[], bool], pilot: Pilot[int]) -> None:
    """Waits until something holds; fails when it never does."""
    for _ in range(int(WAIT_S / 0.02)):
        if condition():
            await pilot.pause()
            return
        await asyncio.sleep(0.02)
    raise AssertionError("what the test waits for did not happen")


async def idle(pilot: Pilot[int], wait_s: float = WAIT_S) -> None:
    """Waits until the work is done and drawn: nothing runs at several looks in a row."""
    app = pilot.app
    assert isinstance(app, HermesChat)
    quiet = 0
    for _ in range(int(wait_s / LOOK_S)):
        await pilot.pause(LOOK_S)
        quiet = 0 if app.controller.busy else quiet + 1
        if quiet == QUIET_LOOKS:
            await pilot.wait_for_scheduled_animations()
            return
    raise AssertionError("the chat did not come to rest")


async def typed(pilot: Pilot[int], text: str, wait_s: float = WAIT_S) -> None:
    """Types a line, sends it and waits for what comes of it."""
    app = pilot.app
    assert isinstance(app, HermesChat)
    app.prompt.fill(text)
    await pilot.press("enter")
    await idle(pilot, wait_s)


def said(app: HermesChat) -> str:
    """All text of the conversation, as it is drawn."""
    from textual.content import Content
    from textual.widgets import Static

    texts = (widget.content for widget in app.conversation.query(Static))
    return "\n".join(text.plain for text in texts if isinstance(text, Content))
