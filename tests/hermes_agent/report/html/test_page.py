"""The HTML report: whole, self-contained, readable without a mouse or eyes, and nothing from a run is markup in it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run
from hermes_agent.evidence.citations import cited_ids, written
from hermes_agent.model.diagnosis import BreakdownRow, Diagnosis
from hermes_agent.report.html.coverage import MOST_SOURCES
from hermes_agent.report.html.page import render_html
from hermes_agent.report.html.text import linked, web_address
from tools.views.profile import Profile

ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"' onload=alert(1) {{ 7*7 }}"
VOID = {"meta", "link", "br", "img", "input", "hr"}
LOADING = {"src", "srcset", "data", "action", "formaction", "poster", "background", "style"}


class Outline(HTMLParser):
    """What a page consists of; fails at elements that are closed in another order than opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.headings: list[int] = []
        self.blocks: dict[str, list[str]] = {"style": [], "script": [], "title": [], "caption": [], "figcaption": []}
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag, found in self.blocks.items():
            if tag in self._open:
                found.append(data)

    def values(self, name: str) -> list[str]:
        """All values of an attribute."""
        return [value for _, key, value in self.attributes if key == name]


@pytest.fixture(scope="module")
def html(demo: Diagnosis, demo_profile: Profile) -> str:
    return render_html(demo, demo_profile, [demo_run()])


@pytest.fixture(scope="module")
def outline(html: str) -> Outline:
    return Outline(html)


def test_every_link_inside_the_page_leads_to_one_element_and_every_citation_is_a_link(
    demo: Diagnosis, html: str, outline: Outline
) -> None:
    identifiers = outline.values("id")
    assert len(identifiers) == len(set(identifiers))
    targets = {value[1:] for value in outline.values("href") if value.startswith("#")}
    assert targets <= set(identifiers)
    cited = {name for text in [*demo.answer, *(cause.claim for cause in demo.causes)] for name in cited_ids(text)}
    assert cited <= targets
    assert {row.id for row in demo.evidence} <= set(identifiers)


def test_the_figures_of_the_evidence_are_those_of_the_diagnosis(demo: Diagnosis, html: str) -> None:
    for row in demo.evidence:
        found = re.search(rf'<tr id="{row.id}".*?<td class="number">(.*?)</td>', html)
        assert found is not None
        assert found[1] == written(row.value, row.unit)


def test_nothing_is_loaded_and_only_the_pages_own_style_and_script_may_run(outline: Outline) -> None:
    assert not [entry for entry in outline.attributes if entry[1] in LOADING or entry[1].startswith("on")]
    assert not outline.tags.keys() & {"link", "iframe", "object", "embed", "base", "form", "img", "image", "use"}
    policy = next(value for value in outline.values("content") if value.startswith("default-src 'none'"))
    for tag in ("style", "script"):
        assert outline.tags[tag] == 1
        digest = hashlib.sha256("".join(outline.blocks[tag]).encode()).digest()
        assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert "url(" not in "".join(outline.blocks["style"])
    assert {value.split(":")[0] for value in outline.values("href") if not value.startswith("#")} <= {"https", "http"}


def test_headings_come_in_order_and_tables_and_pictures_have_names(outline: Outline) -> None:
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(outline.headings, outline.headings[1:], strict=False))
    assert outline.tags["table"] == outline.tags["caption"]
    assert outline.tags["figure"] == outline.tags["figcaption"] == outline.tags["svg"] // 2
    regions = [value for tag, name, value in outline.attributes if (tag, name) == ("div", "tabindex")]
    assert len(regions) == outline.tags["table"]
    assert outline.tags["th"] == len(outline.values("scope"))
    assert ("html", "lang", "en") in outline.attributes
    assert outline.values("href")[0] == "#answer"  # the skip link comes first
    assert outline.tags["button"] == 1


def test_names_from_a_run_stay_text_everywhere(demo: Diagnosis, demo_profile: Profile) -> None:
    def hostile(text: str) -> str:
        return f"{text} `{ATTACK}` {ATTACK}"

    selector = demo.evidence[0].source.model_copy(update={"selector": ATTACK})
    evidence = [row.model_copy(update={"arguments": {"name": ATTACK}, "source": selector}) for row in demo.evidence]
    source = demo.run.sources[0].model_copy(update={"path": f"/tmp/{ATTACK}", "note": ATTACK})
    changed = demo.model_copy(
        update={
            "headline": hostile(demo.headline),
            "answer": [hostile(text) for text in demo.answer],
            "causes": [each.model_copy(update={"claim": hostile(each.claim), "where": ATTACK}) for each in demo.causes],
            "advice": [each.model_copy(update={"how": ATTACK, "text": ATTACK}) for each in demo.advice],
            "cases": [each.model_copy(update={"title": ATTACK, "url": "javascript:alert(1)"}) for each in demo.cases],
            "notes": [ATTACK],
            "next_measurements": [ATTACK],
            "evidence": evidence,
            "run": demo.run.model_copy(update={"sources": [source], "devices": [ATTACK]}),
        }
    )
    found = Outline(render_html(changed, demo_profile, [Path(f"/tmp/{ATTACK}")]))
    assert found.tags["script"] == 1
    assert found.tags["img"] == 0
    assert not [entry for entry in found.attributes if entry[1].startswith("on")]
    assert not [value for value in found.values("href") if value.startswith("javascript")]
    assert "alert(1)" not in "".join(found.blocks["script"])


def test_text_links_only_what_the_page_holds() -> None:
    assert str(linked("5 ms [E1, E9] <b>", {"E1"})) == ('5 ms [<a class="cite" href="#E1">E1</a>, E9] &lt;b&gt;')
    assert str(linked("`a[E1]<i>`", {"E1"})) == "<code>a[E1]&lt;i&gt;</code>"
    assert [web_address(url) for url in ("https://a.org/x", "javascript:1", "//a", "file:///etc", "http://[", "")] == [
        "https://a.org/x", "", "", "", "", ""
    ]  # fmt: skip


def test_the_confidence_is_that_of_the_cause_in_the_headline_not_of_the_largest(demo: Diagnosis) -> None:
    (cause,) = demo.causes
    larger = cause.model_copy(update={"cause": "straggler", "mechanism": None, "confidence": 0.35, "evidence": ["E1"]})
    text = render_html(demo.model_copy(update={"causes": [larger, cause]}), None)
    assert "confidence 0.95 in heavy data transforms" in text
    about_leads = demo.model_copy(update={"headline": "A step takes 108 ms [E1] on average."})
    assert "confidence 0." not in render_html(about_leads, None).split("Where the time goes")[0]


def one_step(demo: Diagnosis) -> Diagnosis:
    rows = [row for row in demo.breakdown if row.step in (None, 39) and row.rank == 0]
    return demo.model_copy(update={"breakdown": rows, "run": demo.run.model_copy(update={"steps": [39], "ranks": [0]})})


def nothing_found(demo: Diagnosis, verdict: str) -> Diagnosis:
    empty = {"causes": [], "advice": [], "cases": [], "hypotheses": [], "recall_note": "No case is close."}
    return demo.model_copy(update={"verdict": verdict, **empty})


def nothing_measured(demo: Diagnosis) -> Diagnosis:
    bare = {"breakdown": [], "evidence": [], "step_time_ms": None, "answer": ["Every trace is cut."], "checks": []}
    run = demo.run.model_copy(update={"ranks": [], "steps": [], "cut_ranks": [0, 1], "devices": []})
    return nothing_found(demo, "inconclusive").model_copy(update={**bare, "run": run, "next_measurements": []})


def test_runs_with_one_step_without_cause_or_without_any_measurement_have_a_whole_page(demo: Diagnosis) -> None:
    for changed in (one_step(demo), nothing_found(demo, "healthy"), nothing_measured(demo)):
        text = render_html(changed, None)
        found = Outline(text)
        assert found.headings[0] == 1
        assert {value[1:] for value in found.values("href") if value.startswith("#")} <= set(found.values("id"))
        assert changed.verdict.upper() in text
    assert "Cut, so nothing is measured on them: ranks 0 and 1." in text


def test_a_thousand_ranks_and_steps_fit_into_a_bounded_page(demo: Diagnosis) -> None:
    row = demo.breakdown[0]
    ranks, steps = range(1024), (None, *range(40))
    rows = [
        BreakdownRow.model_construct(**{**dict(row), "rank": rank, "step": step}) for rank in ranks for step in steps
    ]
    sources = [
        demo.run.sources[0].model_copy(update={"path": f"/run/rank{rank}.json", "ranks": [rank]}) for rank in ranks
    ]
    run = demo.run.model_copy(update={"ranks": list(ranks), "steps": list(range(40)), "sources": sources})
    evidence = [each.model_copy(update={"ranks": list(ranks)}) for each in demo.evidence]
    text = render_html(demo.model_copy(update={"breakdown": rows, "run": run, "evidence": evidence}), None)
    assert len(text) < 700_000
    assert "rank1000.json" not in text
    assert f"{1024 - MOST_SOURCES:,} more files" in text
    assert "1,011 other ranks" in text
