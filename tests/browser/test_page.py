# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page in a real browser: it asks for nothing, fits phone and desk, can be read, heard, walked by keyboard and printed."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from driving import Browser
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from stories import STORIES

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
# A4 in CSS pixels.
PAPER = 794
Pages = dict[str, Callable[[], str]]
stories = pytest.mark.parametrize("story", sorted(STORIES))


@stories
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_loads_alone_and_fits(browser: Browser, pages: Pages, story: str, width: int) -> None:
    url = browser.open(pages[story](), width)
    browser.unfold()
    assert browser.js("return document.documentElement.scrollWidth") <= width
    assert browser.requests() == [url]
    assert browser.console() == []
    assert browser.js("return document.readyState") == "complete"
    assert browser.js("return getComputedStyle(document.body).marginTop") == "0px", "the style was not applied"


def test_the_policy_forbids_what_a_page_could_be_talked_into(browser: Browser, pages: Pages) -> None:
    html = pages["everything"]().replace("</main>", '<script>document.title = "owned"</script><img src="https://example.com/x.png"></main>')
    browser.open(html)
    assert browser.driver.title != "owned"
    refused = browser.console()
    assert any("script" in message for message in refused)
    assert any("x.png" in message for message in refused)


def test_names_are_text(browser: Browser, pages: Pages) -> None:
    browser.open(pages["everything"]())
    assert browser.js("return document.scripts.length") == 0
    assert "<script>alert(1)</script>" in browser.js("return document.querySelector('#memory').parentElement.innerText")
    targets = browser.js("return [...document.links].map(one => one.protocol)")
    assert set(targets) <= {"file:", "https:", "http:"}


@stories
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_all_text_has_contrast(browser: Browser, pages: Pages, story: str, scheme: str, width: int) -> None:
    browser.open(pages[story](), width, scheme)
    browser.unfold()
    found = browser.js(CONTRAST)
    assert found["seen"] > 50
    assert found["faults"] == []


def test_dark_is_dark(browser: Browser, pages: Pages) -> None:
    def background(scheme: str) -> int:
        browser.open(pages["everything"](), scheme=scheme)
        return sum(map(int, re.findall(r"\d+", browser.js("return getComputedStyle(document.body).backgroundColor"))))

    assert background("light") > 600
    assert background("dark") < 120


@stories
def test_the_keyboard_reaches_everything_in_order(browser: Browser, pages: Pages, story: str) -> None:
    browser.open(pages[story]())
    browser.unfold()
    wanted = browser.js(
        """
        const stops = [...document.querySelectorAll('a[href], summary, [tabindex="0"]')];
        return stops.map((one, number) => { one.dataset.stop = number; return number });
        """
    )
    assert len(wanted) > 5
    reached = []
    for _stop in wanted:
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        stop, outline = browser.js("const one = document.activeElement; return [one.dataset.stop, getComputedStyle(one).outlineStyle]")
        assert outline != "none", f"stop {stop} does not show that it has the focus"
        reached.append(int(stop))
    assert reached == wanted


def test_the_skip_link_leads_to_the_report(browser: Browser, pages: Pages) -> None:
    browser.open(pages["everything"]())
    ActionChains(browser.driver).send_keys(Keys.TAB).perform()
    assert browser.js("return document.activeElement.getBoundingClientRect().top") >= 0
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    assert browser.js("return document.activeElement.id") == "main"


@stories
def test_a_screen_reader_finds_its_way(browser: Browser, pages: Pages, story: str) -> None:
    browser.open(pages[story]())
    browser.unfold()
    tree = [node for node in browser.cdp("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
    roles = [node["role"]["value"] for node in tree]
    for landmark in ("banner", "navigation", "main", "contentinfo"):
        assert roles.count(landmark) == 1
    images = [node for node in tree if node["role"]["value"] in ("image", "img")]
    assert len(images) == browser.js("return [...document.querySelectorAll('svg[role=img]')].filter(one => one.checkVisibility()).length")
    assert all(node["name"]["value"].strip() for node in images)
    assert all(node.get("description", {}).get("value") or "," in node["name"]["value"] for node in images)
    assert browser.js("return document.documentElement.lang") == "en"
    levels = browser.js("return [...document.querySelectorAll('h1,h2,h3,h4')].map(one => Number(one.tagName[1]))")
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))


@stories
def test_tables_say_what_their_cells_are(browser: Browser, pages: Pages, story: str) -> None:
    browser.open(pages[story]())
    browser.unfold()
    assert browser.js("return document.querySelectorAll('table').length") > 0
    assert browser.js("return [...document.querySelectorAll('th')].filter(one => !['col', 'row'].includes(one.scope)).length") == 0
    assert browser.js("return [...document.querySelectorAll('table')].filter(one => !one.caption?.innerText.trim()).length") == 0


@stories
@pytest.mark.parametrize("width", [390, 1280])
def test_no_word_of_the_drawing_lies_on_another_or_outside(browser: Browser, pages: Pages, story: str, width: int) -> None:
    browser.open(pages[story](), width)
    overlaps = browser.js(
        """
        const figure = [...document.querySelectorAll('svg.drawing[role=img]')].find(one => one.checkVisibility());
        const frame = figure.viewBox.baseVal;
        const boxes = [...figure.querySelectorAll('text')].map(one => ({ text: one.textContent, box: one.getBBox() }));
        const outside = ({ box }) => box.x < 0 || box.x + box.width > frame.width || box.y + box.height > frame.height;
        const faults = boxes.filter(outside).map(({ text }) => text);
        boxes.forEach((one, number) => boxes.slice(number + 1).forEach((other) => {
          const across = Math.min(one.box.x + one.box.width, other.box.x + other.box.width) - Math.max(one.box.x, other.box.x);
          const down = Math.min(one.box.y + one.box.height, other.box.y + other.box.height) - Math.max(one.box.y, other.box.y);
          if (across > 0 && down > 2) faults.push(`${one.text} / ${other.text}`);
        }));
        return { count: boxes.length, faults };
        """
    )
    assert overlaps["count"] >= 4
    assert overlaps["faults"] == []


@stories
def test_it_prints_all_of_it(browser: Browser, pages: Pages, story: str) -> None:
    browser.open(pages[story](), PAPER, "dark")
    folded = browser.js("return document.querySelectorAll('details:not([open])').length")
    pdf = base64.b64decode(browser.cdp("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)["data"])
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 2
    # On paper nobody can unfold or scroll anything, and ink is black on white.
    browser.media("dark", "print")
    assert folded > 0
    assert browser.js("return [...document.querySelectorAll('details > :not(summary)')].every(one => one.checkVisibility())")
    assert browser.js("return document.documentElement.scrollWidth") <= PAPER
    assert browser.js("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
