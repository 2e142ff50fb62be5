"""Messages as Block Kit: Slack's limits hold for any text, and nothing of a run becomes a mention, a link or markup."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.bot.message import Button, Controls, Link, Links, Menu, Message, Paragraph, Part, Title
from hermes_agent.bot.slack.blocks import blocks, blocks_of, summary
from hermes_agent.bot.slack.mrkdwn import LONGEST, plain, sections
from hermes_agent.model.diagnosis import Diagnosis

HOSTILE = "<!channel> <!here|x> <@U1> <#C1> <http://evil.example|click here> & *b* ~s~ `<!everyone>` > quoted"


def checked(message: Message) -> list[str]:
    """The texts of a message within Slack's limits."""
    found = blocks(message)
    assert len(found) <= 50
    texts = []
    for block in found:
        held = block["elements"] if block["type"] == "context" else [block["text"]] if "text" in block else []
        for text in held:
            assert 0 < len(text["text"]) <= (150 if block["type"] == "header" else LONGEST)
            texts.append(text["text"])
    return texts


def test_the_answer_of_a_diagnosis_is_blocks_that_name_cause_gain_facts_and_what_is_open(
    demo_diagnosis: Diagnosis,
) -> None:
    found = blocks_of(demo_diagnosis, "train-7", ("train-7", "train-6"))
    kinds = [block["type"] for block in found]
    assert kinds[0] == "header"
    assert kinds.count("actions") == 2
    text = "\n".join(str(block) for block in found)
    assert "*1. Heavy data transforms*: saves 55.8 ms, 51.7 % of the step" in text
    assert "cut the step to 52.0 ms [E22], 2.07x [E23] faster (range 1.66x [E24] to 2.58x [E25])" in text
    assert "Rank 1 is the straggler" in text
    menus = {e["action_id"]: e for block in found if block["type"] == "actions" for e in block["elements"]}
    assert [each["value"] for each in menus["hermes_compare"]["options"]] == ["train-6"]
    assert "hermes_compare" not in str(blocks_of(demo_diagnosis, "train-7"))


def test_an_inconclusive_and_a_healthy_diagnosis_say_what_comes_next(demo_diagnosis: Diagnosis) -> None:
    changed = {"causes": [], "advice": [], "headline": "a step takes 108 ms [E1] on average."}
    healthy = demo_diagnosis.model_copy(update={**changed, "verdict": "healthy", "next_measurements": []})
    assert "*Next:* nothing to change for what was observed." in str(blocks_of(healthy))
    other = {**changed, "verdict": "inconclusive", "next_measurements": ["a trace with device work"]}
    assert "*Next:* record a trace with device work." in str(blocks_of(demo_diagnosis.model_copy(update=other)))


def test_hostile_text_is_shown_and_does_nothing() -> None:
    (text,) = checked(Message(HOSTILE, (Paragraph(HOSTILE),)))
    assert "<" not in text
    assert "&lt;!channel&gt;" in text
    assert "`&lt;!everyone&gt;`" in text
    assert "*" not in text
    assert "<" not in summary(Message(HOSTILE, ()))
    (title,) = checked(Message("", (Title(HOSTILE),)))
    assert title == HOSTILE  # plain text is not read as markup


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "http://a b", "https://x|y", "file:///etc/passwd", "http://x>", ""]
)
def test_only_web_addresses_become_links(url: str) -> None:
    (text,) = checked(Message("", (Links("Cases", (Link("[C1] <!here>", url),)),)))
    assert text == "Cases\n• [C1] &lt;!here&gt;"


def test_a_sound_address_is_a_link() -> None:
    (text,) = checked(Message("", (Links("Cases", (Link("[C1] a|b", "https://x.example/?a=1&b=2"),)),)))
    assert text.endswith("<https://x.example/?a=1&amp;b=2|[C1] a/b>")


def test_a_table_is_shown_with_its_columns_under_each_other() -> None:
    (text,) = sections("| name | ms |\n|---|---|\n| `a<b` | 1.5 |\n| `longer` | 20 |")
    assert text == "```\nname    ms\na&lt;b     1.5\nlonger  20\n```"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(st.sampled_from("ab <>&*`|_~\n-!@#"), max_size=200),
            st.builds(
                lambda part, times: part * times,
                st.sampled_from(["<!here>", "&", "word ", "`x`", "| a ", "\n"]),
                st.integers(1, 2000),
            ),
        ),
        max_size=6,
    )
)
def test_any_text_keeps_to_the_limits_and_holds_no_control_sequence(texts: list[str]) -> None:
    parts: list[Part] = [Paragraph(text) for text in texts]
    for text in checked(Message("x", tuple(parts))):
        assert "<" not in text
        assert not re.search(r"&(?!amp;|lt;|gt;)", text)


@given(
    st.text(
        st.characters(blacklist_categories=["Cc", "Cf", "Cs", "Zl", "Zp"], blacklist_characters="*~`|>-"), max_size=300
    )
)
@settings(max_examples=60, deadline=None)
def test_words_are_not_lost(text: str) -> None:
    assert unescape("".join(sections(text))).split() == text.split()


def test_a_message_with_too_many_parts_keeps_its_buttons_and_says_that_it_was_cut() -> None:
    many: tuple[Part, ...] = tuple(Paragraph(f"part {number}") for number in range(80))
    controls = Controls(
        "ask run", (Button("evidence", "Evidence", "run"), Menu("why_not", "Why not", (("A", "a"),) * 150))
    )
    found = blocks(Message("", (*many, controls)))
    assert len(found) == 50
    assert found[-1]["type"] == "actions"
    assert len(found[-1]["elements"][1]["options"]) == 100
    assert "was cut" in str(found[-2])


def test_what_slack_sends_is_read_as_a_person_wrote_it() -> None:
    assert plain("<@UBOT> train-7 &lt;b&gt; <!channel> <https://x.example|x.example> <#C1|general>") == (
        "train-7 <b>   x.example general"
    )
