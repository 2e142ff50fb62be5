"""Texts as Slack's mrkdwn: nothing from a run can mention anybody, link anywhere or become markup.

``&``, ``<`` and ``>`` are written as entities everywhere, so a mention such as ``<!channel>`` is shown and not made.
Text objects are sent with ``verbatim``, so that Slack makes no links of its own.
"""

from __future__ import annotations

import re
from html import unescape

LONGEST = 3000  # characters of a section
PIECE = 500  # of a line that is cut; five times as long where every character becomes an entity
CODE = re.compile(r"(`[^`\n]+`)")
BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
BULLET = re.compile(r"^(\s*)[-*] ")
RULE = re.compile(r"^\|[\s:|-]+\|$")
CELLS = re.compile(r"(?<!\\)\|")
FENCE = "```"
LOOKALIKES = str.maketrans({"*": "∗", "~": "∼"})  # markup outside of our own bold and of names in back quotes
ASKED = re.compile(r"<([^<>]*)>")  # how Slack sends mentions, channels and links


def escaped(text: str) -> str:
    """Text with Slack's three control characters as entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def sections(text: str) -> list[str]:
    """Markdown as pieces of mrkdwn of at most ``LONGEST`` characters, cut at ends of lines."""
    found: list[str] = []
    for block in _blocks(text):
        lines = [piece for line in block for piece in _pieces(line)] if block[0] != FENCE else block
        found += _fenced(lines[1:]) if lines[:1] == [FENCE] else _joined(lines, "")
    return found


def plain(text: str) -> str:
    """What a person wrote: mentions are left out, links and channels are their words, entities are characters."""
    return unescape(ASKED.sub(_words, text)).strip()


def _words(found: re.Match[str]) -> str:
    inner = found[1]
    if inner[:1] in ("@", "!"):
        return " "
    target, bar, label = inner.partition("|")
    return label if bar else target.removeprefix("#")


def _blocks(text: str) -> list[list[str]]:
    """Runs of lines; what is to be shown as it is begins with a fence: tables and code."""
    found: list[list[str]] = []
    fenced = False
    for line in text.split("\n"):
        is_row = line.startswith("|") and line.rstrip().endswith("|")
        if line.strip().startswith(FENCE):
            fenced = not fenced
            continue
        shown = fenced or is_row
        if not found or (found[-1][0] == FENCE) != shown:
            found.append([FENCE] if shown else [])
        if not RULE.match(line):
            found[-1].append(line)
    return [_aligned(each) if each[0] == FENCE else each for each in found if each and any(map(str.strip, each))]


def _aligned(block: list[str]) -> list[str]:
    """A Markdown table with its columns under each other; other lines stay."""
    rows = [[cell.strip().strip("`").replace("\\|", "|") for cell in CELLS.split(line)[1:-1]] for line in block[1:]]
    if not all(line.startswith("|") for line in block[1:]):
        return block
    width = max(map(len, rows), default=0)
    wide = [max((len(row[place]) for row in rows if place < len(row)), default=0) for place in range(width)]
    return [FENCE, *("  ".join(cell.ljust(wide[place]) for place, cell in enumerate(row)).rstrip() for row in rows)]


def _fenced(lines: list[str]) -> list[str]:
    safe = [piece for line in lines for piece in _cut(line.replace("`", "'"))]
    inner = _joined([escaped(line) for line in safe], "", LONGEST - 2 * len(FENCE) - 2)
    return [f"{FENCE}\n{text}\n{FENCE}" for text in inner]


def _joined(lines: list[str], text: str, most: int = LONGEST) -> list[str]:
    found: list[str] = []
    for line in lines:
        longer = f"{text}\n{line}" if text else line
        if len(longer) > most:
            found.append(text)
            longer = line
        text = longer
    return [each.strip("\n") for each in (*found, text) if each.strip()]


def _pieces(line: str) -> list[str]:
    """One line as mrkdwn; a long one in pieces that are no longer than a section."""
    whole = _inline(line)
    if len(whole) <= LONGEST:
        return [whole]
    return [_inline(piece if piece.count("`") % 2 == 0 else piece.replace("`", "'")) for piece in _cut(line)]


def _cut(line: str) -> list[str]:
    """A line in pieces of at most ``PIECE`` characters, cut at blanks where there are some."""
    found = []
    while len(line) > PIECE:
        at = line.rfind(" ", PIECE // 2, PIECE)
        at = at if at > 0 else PIECE
        found.append(line[:at])
        line = line[at:].lstrip(" ")
    return [*found, line]


def _inline(line: str) -> str:
    line = BULLET.sub(r"\1• ", line)
    if line.lstrip().startswith(">"):
        line = line.replace(">", "›", 1)  # would be a quotation, also as an entity
    return "".join(escaped(part) if CODE.fullmatch(part) else _styled(part) for part in CODE.split(line))


def _styled(text: str) -> str:
    parts = BOLD.split(text)  # outside, bold, outside, ...
    plain_parts = [escaped(part.translate(LOOKALIKES).replace("`", "'")) for part in parts]
    return "".join(f"*{part.strip()}*" if place % 2 else part for place, part in enumerate(plain_parts))
