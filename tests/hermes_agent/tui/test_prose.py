"""Text on its way to the screen: cleaned, cited, never markup."""

from __future__ import annotations

from textual.style import Style

from hermes_agent.tui.messages import citations, linked, markdown_parser, plain, prose, without_link_marks
from tests.hermes_agent.tui.fake_session import HOSTILE


def test_outside_text_keeps_its_brackets_and_loses_its_escape_codes() -> None:
    assert plain(HOSTILE).plain == "[bold red]x[/] red"
    assert plain(HOSTILE).spans == []


def test_a_group_of_ids_holds_several_citations() -> None:
    found = [(each.id, each.start, each.end) for each in citations("60 ms [E1, C12] and [A3], not [X1] or E9")]
    assert found == [("E1", 7, 9), ("C12", 11, 14), ("A3", 21, 23)]


def test_every_citation_is_a_link_to_what_it_cites() -> None:
    content = prose("see [E1] and [C2]")
    styles = [span.style for span in linked(content, citations(content.plain), "run-2").spans]
    actions = [style.meta.get("@click") for style in styles if isinstance(style, Style) and style.meta]
    assert actions == ["app.cite('E1', 'run-2')", "app.cite('C2', 'run-2')"]


def test_names_in_back_quotes_are_set_off() -> None:
    content = prose("waits in `aten::mm` here")
    assert [content.plain[span.start : span.end] for span in content.spans] == ["`aten::mm`"]


def test_a_citation_is_no_link_of_markdown_even_when_the_text_defines_one() -> None:
    text = without_link_marks("60 ms [E1](http://evil.example) [E2]\n\n[E2]: http://evil.example")
    tokens = [child.type for token in markdown_parser().parse(text) for child in token.children or []]
    assert "link_open" not in tokens


def test_html_and_images_of_an_answer_stay_text() -> None:
    tokens = markdown_parser().parse("<b>x</b> ![i](http://evil.example/i.png)")
    kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or []}
    assert not kinds & {"html_block", "html_inline", "image"}
