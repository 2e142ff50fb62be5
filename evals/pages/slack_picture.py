"""The picture of an answer in Slack for the docs: ``python -m evals.pages.slack_picture docs``.

The blocks that are sent to Slack, drawn by a small page of ours in Chromium; Slack itself is not needed.
"""

from __future__ import annotations

import base64
import re
import sys
import tempfile
from html import escape
from pathlib import Path

from evals.pages.browser import Browser, missing
from hermes_agent.bot.slack.blocks import Block, blocks_of
from hermes_agent.demo.data import demo_run
from hermes_agent.model.request import Request
from hermes_agent.report.files import profile_behind
from hermes_agent.report.html.page import render_html
from hermes_agent.report.pictures.export import render_png
from hermes_agent.workflow.diagnose import diagnose

NAME = "train-7"
WIDTH = 760
STYLE = """
body { margin: 0; padding: 16px 20px; font: 15px/1.46 Lato, "Liberation Sans", Arial, sans-serif; color: #1d1c1d; }
.from { font-weight: 700; } .app { font-size: 10px; background: #ddd; border-radius: 2px; padding: 1px 3px; }
.header { font-size: 18px; font-weight: 700; margin: 8px 0; } .section { margin: 8px 0; }
.context { font-size: 13px; color: #616061; margin: 8px 0; } .actions { margin: 8px 0; }
.actions span { display: inline-block; border: 1px solid #bbb; border-radius: 4px; padding: 5px 12px;
  margin: 0 8px 4px 0; font-size: 14px; font-weight: 700; } .actions .menu { font-weight: 400; }
code { font: 12px "Liberation Mono", monospace; color: #c01343; background: #f6f6f6; border: 1px solid #ddd;
  border-radius: 3px; padding: 1px 3px; } a { color: #1264a3; text-decoration: none; }
.files { border-top: 1px solid #ddd; padding-top: 8px; }
img { width: 460px; border: 1px solid #ddd; border-radius: 8px; }
.file { border: 1px solid #ddd; border-radius: 8px; padding: 8px 12px; width: 434px; margin-top: 6px; }
"""


def page(blocks: list[Block], picture: bytes, report: str) -> str:
    """The message as a page."""
    drawn = "\n".join(f'<div class="{block["type"]}">{_block(block)}</div>' for block in blocks)
    image = f'<img src="data:image/png;base64,{base64.b64encode(picture).decode()}" alt="picture">'
    files = f'<div class="files">{image}<div class="file">{escape(report)}</div></div>'
    head = '<div><span class="from">Hermes</span> <span class="app">APP</span></div>'
    return f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>{head}{drawn}{files}'


def _block(block: Block) -> str:
    if block["type"] == "actions":
        return "".join(_element(element) for element in block["elements"])
    texts = block["elements"] if block["type"] == "context" else [block["text"]]
    return " ".join(escape(each["text"]) if each["type"] == "plain_text" else _html(each["text"]) for each in texts)


def _element(element: Block) -> str:
    if element["type"] == "static_select":
        return f'<span class="menu">{escape(element["placeholder"]["text"])} ▾</span>'
    return f"<span>{escape(element['text']['text'])}</span>"


def _html(mrkdwn: str) -> str:
    """mrkdwn as HTML; its entities are those of HTML."""
    text = re.sub(r"<(https?://[^|>]+)\|([^>]+)>", r'<a href="\1">\2</a>', mrkdwn)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*([^*\n]+)\*", r"<b>\1</b>", text).replace("\n", "<br>")


def main() -> None:
    """Write the picture into the folder named on the command line."""
    if reason := missing():
        raise SystemExit(f"the message cannot be drawn: {reason}")
    request = Request((demo_run(),))
    diagnosis = diagnose(request, lambda _: None)
    profile = profile_behind(request, diagnosis)
    size = len(render_html(diagnosis, profile, [Path(NAME)]).encode()) // 1000
    text = page(blocks_of(diagnosis, NAME, ("train-6",)), render_png(diagnosis, profile), f"{NAME}.html ({size} kB)")
    with tempfile.TemporaryDirectory(prefix="hermes-slack-") as name, Browser() as browser:
        file = Path(name) / "message.html"
        file.write_text(text, encoding="utf-8")
        browser.open(file, WIDTH, 400)
        browser.open(file, WIDTH, int(browser.run("return document.documentElement.scrollHeight")))
        (Path(sys.argv[1]) / "slack_answer.png").write_bytes(browser.screenshot())


if __name__ == "__main__":
    main()
