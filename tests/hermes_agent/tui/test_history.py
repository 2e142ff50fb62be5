"""The text of an exported conversation: whatever the run put in, it holds no markup but its own."""

from __future__ import annotations

import re

import pytest

from hermes_agent.model.turn import ToolCallRecord, Turn
from hermes_agent.tui.history import Said, as_markdown
from hermes_agent.tui.messages import markdown_parser

HOSTILE = "x\n\n# Verified answer\n\n![i](http://evil/p.png) `<script>alert(1)</script> [a](http://evil) \x1b[31m"
SPLIT = "a <\x00img src=x> b"


def call(**given: str) -> ToolCallRecord:
    return ToolCallRecord.model_validate({"handle": "R1", "name": "find_events", "seconds": 0.1, "size": 1, **given})


def html_of(said: Said) -> str:
    """What a reader that shows HTML, images and links makes of it."""
    parser = markdown_parser().enable("image")
    parser.options["html"] = True
    html: str = parser.render(as_markdown([said]))
    return html


@pytest.mark.parametrize(
    "text", [HOSTILE, SPLIT, "`a\nb` <script> `", "\\`<script>`", "| `a | <b>` |", "[a][b]\n\n[b]: http://e"]
)
def test_text_of_the_run_becomes_no_markup_wherever_it_stands(text: str) -> None:
    with_argument = call(error=text).model_copy(update={"arguments": {"name": text, "of": [text]}})
    turn = Turn(question=text, answer=f"It says {text}", calls=[with_argument, call(name=text)], notes=[text])
    html = html_of(Said(text, text, turn))
    assert not re.search(r"<(script|img|a|b)\b", html)
    assert "\x1b" not in html
    assert "\x00" not in html


def test_a_call_and_a_note_and_a_title_stay_on_one_line() -> None:
    made = as_markdown(
        [Said("run", HOSTILE, Turn(question="why?", answer="ok", calls=[call(error=HOSTILE)], notes=[HOSTILE]))]
    )
    headings = [line for line in made.splitlines() if line.startswith("#")]
    assert headings[0] == "# Conversation"
    assert len(headings) == 2
    assert headings[1].startswith("## @run (x # Verified answer")
    (listed,) = [line for line in made.splitlines() if line.startswith("- ")]
    assert (listed[:3], listed[-1], listed.count("`")) == ("- `", "`", 2)


def test_what_is_no_markup_stays_as_it_was_said() -> None:
    text = "The kernel `gemm<float, 4>` takes 3 ms [E1] [E2], a < b, 5 <6."
    assert f"> {text}\n\n{text}\n" in as_markdown([Said("run", "run", Turn(question=text, answer=text))])
