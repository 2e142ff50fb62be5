"""The report opened and clicked through in headless Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evals.pages.browser import Browser, missing
from hermes_agent.demo.data import demo_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.report.files import profile_behind
from hermes_agent.report.html.page import render_html
from hermes_agent.workflow.diagnose import diagnose
from tests.recorded_runs import records_of, step_rows, untraced_profile
from tests.tools.sources.job_log.logs import megatron
from tools.views.profile import Profile

PHONE_PX, DESK_PX = 360, 1280
# Figures of tables, and the outcomes of checks, that are laid out on more lines than they have words.
BROKEN_FIGURES = """
const found = [];
for (const cell of document.querySelectorAll('td.number, [aria-label^="Checks: "] td:nth-child(2)')) {
  const range = document.createRange();
  range.selectNodeContents(cell);
  const lines = new Set([...range.getClientRects()].map(each => Math.round(each.top)));
  if (lines.size > cell.textContent.trim().split(/\\s+/).length) found.push(cell.textContent);
}
return found;
"""
LEAST_CONTRAST = 4.5  # WCAG 2.2 AA, text of usual size

# Labels of a picture that leave it or run into each other by more than the gap between letters.
LABELS = """
const found = [], shown = each => each.textContent.trim() && getComputedStyle(each).opacity != '0';
for (const svg of document.querySelectorAll('figure svg')) {
  const box = svg.getBoundingClientRect();
  if (!box.width) continue;
  const texts = [...svg.querySelectorAll('text')].filter(shown)
    .map(each => [each.getBoundingClientRect(), each.textContent]);
  for (const [place, text] of texts)
    if (place.left < box.left - 1 || place.right > box.right + 1) found.push(['outside', text]);
  texts.forEach(([a, first], index) => { for (const [b, second] of texts.slice(index + 1))
    if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3) found.push([first, second]); });
}
return found;
"""
# Text whose contrast with the nearest ground behind it is too low.
CONTRAST = """
const rgb = text => text.match(/[\\d.]+/g).map(Number);
const bright = ([r, g, b]) => [r, g, b].map(each => each / 255)
  .map(each => each <= .04045 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4)
  .reduce((sum, each, place) => sum + each * [.2126, .7152, .0722][place], 0);
const ground = each => { for (; each; each = each.parentElement) {
  const colour = rgb(getComputedStyle(each).backgroundColor); if (colour[3] !== 0) return colour; } };
const found = new Set(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const holder = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || holder.closest('svg, script') || !holder.getClientRects().length) continue;
  const pair = [bright(rgb(getComputedStyle(holder).color)), bright(ground(holder))].sort((a, b) => b - a);
  if ((pair[0] + .05) / (pair[1] + .05) < arguments[0]) found.add(holder.outerHTML.slice(0, 80));
}
return [...found];
"""
# Clicks every link inside the page, and returns those whose target does not get the focus.
FOLLOW_ALL = """
return (async () => {
  const lost = [];
  for (const link of document.querySelectorAll('main a[href^="#"]')) {
    link.click();
    await new Promise(done => setTimeout(done, 0));
    const target = document.getElementById(link.getAttribute('href').slice(1));
    if (!target || document.activeElement !== target || !target.getClientRects().length) lost.push(link.outerHTML);
  }
  return lost;
})();
"""
OPEN_ALL = "for (const part of document.querySelectorAll('details')) part.open = true;"


@pytest.fixture(scope="module")
def page(demo: Diagnosis, demo_profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("report") / "report.html"
    target.write_text(render_html(demo, demo_profile, [demo_run()]), encoding="utf-8")
    return target


@pytest.fixture(scope="module", params=["traces", "records", "job output"])
def any_page(
    request: pytest.FixtureRequest, page: Path, tmp_path_factory: pytest.TempPathFactory, demo: Diagnosis
) -> Path:
    """A page of each kind of run: with traces, with records of several ranks alone, with a log alone."""
    if request.param == "traces":
        return page
    folder = tmp_path_factory.mktemp("other")
    if request.param == "records":
        walls = [300.0 if step in (6, 32, 59) else 100.0 for step in range(60)]
        profile = untraced_profile(records_of([step_rows(rank, walls) for rank in range(40)]))
        html = render_html(demo.model_copy(update={"breakdown": []}), profile, [folder])
    else:
        (folder / "job.out").write_text(megatron(*((step, 100.0 + step % 3) for step in range(1, 41))))
        asked = Request((folder,), cache_dir=folder / "cache")
        found = diagnose(asked, lambda event: None)
        html = render_html(found, profile_behind(asked, found), [folder])
    target = folder / "report.html"
    target.write_text(html, encoding="utf-8")
    return target


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if missing():
        pytest.skip(f"the report is not opened in a browser: {missing()}")
    with Browser() as found:
        yield found


def ground(browser: Browser) -> str:
    """The colour of the page."""
    return str(browser.run("return getComputedStyle(document.body).backgroundColor"))


def test_the_theme_follows_the_reader_and_the_button(browser: Browser, page: Path) -> None:
    browser.open(page, scheme="light")
    light = ground(browser)
    browser.click("#theme")
    dark = ground(browser)
    assert dark != light
    assert browser.run("return document.getElementById('theme').textContent") == "Light theme"
    browser.open(page, scheme="dark")
    assert ground(browser) == dark
    fill = browser.run("return getComputedStyle(document.querySelector('.wide-picture svg path[fill]')).fill")
    assert fill.startswith("rgb")


def test_a_citation_opens_its_row_and_gives_it_the_focus(browser: Browser, page: Path) -> None:
    browser.open(page)
    row = "document.getElementById('E7')"
    assert browser.run(f"return {row}.closest('details').open") is False
    for _ in range(2):  # the same citation again, after the reader closed the part
        browser.click("a.cite[href='#E7']")
        shown = browser.run(
            f"const box = {row}.getBoundingClientRect();"
            f"return {row}.closest('details').open && box.top >= 0 && box.bottom <= innerHeight && box.height > 0"
        )
        assert shown is True
        assert browser.run("return document.activeElement.id") == "E7"
        browser.run(f"{row}.closest('details').open = false; scrollTo(0, 0)")


def test_the_first_key_reaches_the_skip_link_and_the_focus_is_seen(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.press_tab()
    assert browser.run("return document.activeElement.className") == "skip"
    assert browser.run("return document.activeElement.getBoundingClientRect().left") >= 0
    browser.press_tab()
    assert browser.run("return document.activeElement.id") == "theme"
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_phone_shows_the_page_without_scrolling_sideways(browser: Browser, page: Path) -> None:
    browser.open(page, width=PHONE_PX, height=740)
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true")
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE_PX
    edges = "return [...document.querySelectorAll('.narrow svg')].map(each => each.getBoundingClientRect().right)"
    found = browser.run(edges)
    assert found
    assert max(found) <= PHONE_PX
    assert browser.run("return getComputedStyle(document.querySelector('.wide-picture')).display") == "none"


def test_the_page_requests_nothing_but_itself_and_the_console_stays_empty(browser: Browser, page: Path) -> None:
    browser.requested(), browser.complaints()
    browser.open(page)
    browser.click("#theme")
    browser.click("a.cite")
    assert set(browser.requested()) == {page.resolve().as_uri()}
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [PHONE_PX, DESK_PX])
def test_labels_of_pictures_keep_apart_and_nothing_scrolls_sideways(
    browser: Browser, any_page: Path, width: int
) -> None:
    browser.open(any_page, width=width, height=740)
    browser.run(OPEN_ALL)
    assert browser.run(LABELS) == []
    assert browser.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_the_contrast_that_reading_needs(browser: Browser, any_page: Path, scheme: str) -> None:
    browser.open(any_page, scheme=scheme)
    browser.run(OPEN_ALL)
    assert browser.run(CONTRAST.replace("arguments[0]", str(LEAST_CONTRAST))) == []
    assert browser.run(CONTRAST.replace("arguments[0]", "22")) != []  # more than any two colours have: it does measure


def test_every_citation_and_every_expander_leads_somewhere(browser: Browser, any_page: Path) -> None:
    browser.open(any_page)
    browser.complaints()
    shut = "return document.querySelectorAll('details:not([open])').length"
    assert browser.run(shut) > 0
    browser.run("for (const each of document.querySelectorAll('summary')) each.click()")
    assert browser.run(shut) == 0
    assert browser.run(FOLLOW_ALL) == []
    assert browser.complaints() == []


def test_the_key_tab_reaches_every_control_in_the_order_of_the_page(browser: Browser, page: Path) -> None:
    browser.open(page)
    controls = "[...document.querySelectorAll('a[href], button, summary, [tabindex=\"0\"]')]"
    reachable = f"{controls}.filter(each => each.checkVisibility())"
    count = browser.run(f"return {reachable}.length")
    places = []
    for _ in range(count):
        browser.press_tab()
        places.append(browser.run(f"return {reachable}.indexOf(document.activeElement)"))
    assert places == list(range(count))


def test_on_paper_everything_is_open_and_nothing_is_cut(browser: Browser, any_page: Path) -> None:
    browser.open(any_page, width=794)  # A4 at 96 pixels an inch
    closed = "return document.querySelectorAll('details:not([open])').length"
    assert browser.run(closed) > 0
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(closed) == 0
    browser.show_as("print")
    assert browser.run("return document.documentElement.scrollWidth") <= 794
    assert browser.run("return getComputedStyle(document.getElementById('theme')).display") == "none"
    assert browser.run("return getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
    assert browser.run(BROKEN_FIGURES) == []
    assert browser.run("return getComputedStyle(document.querySelector('figure')).breakInside") == "auto"
    assert browser.run("return getComputedStyle(document.querySelector('.wide-picture')).breakInside") == "avoid"
    browser.show_as("screen")
