"""The report opened and clicked through in headless Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evals.browser import Browser, missing
from hermes_agent.demo.data import demo_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.report.html.page import render_html
from tools.views.profile import Profile

PHONE_PX = 360


@pytest.fixture(scope="module")
def page(demo: Diagnosis, demo_profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("report") / "report.html"
    target.write_text(render_html(demo, demo_profile, [demo_run()]), encoding="utf-8")
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
