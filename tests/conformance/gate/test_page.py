"""The page of an evidence: whole, safe, and usable in a browser, by keyboard and on a narrow screen."""

from __future__ import annotations

import base64
import io
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tileproof.conformance.gate.evidence import ReleaseEvidence
from tileproof.conformance.gate.page import page, picture, plot

from tests.kit.evidences import REPLAY, mutated, record, release


class _Read(HTMLParser):
    """Ids, links and sources of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            {"id": self.ids, "href": self.links, "src": self.sources}.get(name, []).append(value)


def wrong() -> ReleaseEvidence:
    some = mutated(record("d-kernel"), 2)
    return release(record(), record("b-kernel", wrong=True), record("c-kernel", coverage=None), some)


def test_the_page_needs_nothing_beside_itself() -> None:
    read = _Read(page(wrong()))
    assert len(set(read.ids)) == len(read.ids)
    assert all(link[0] == "#" and link[1:] in read.ids for link in read.links) and len(read.links) > 10
    assert all(source.startswith("data:image/png;base64,") for source in read.sources) and read.sources
    assert not {"script", "link", "iframe"} & set(read.tags)
    assert "url(" not in page(wrong()) and "@import" not in page(wrong())


def test_what_a_kernel_says_is_escaped() -> None:
    text = page(wrong())
    assert "<script>" not in text and "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "cause:    &lt;none&gt; &amp; nothing" in text
    odd = page(release(record('k"><img src=x onerror=alert(1)>')))
    assert "<img src=x" not in odd


def test_mutants_are_shown_by_operator_with_those_that_survived() -> None:
    text = page(release(mutated(record())))
    assert "3 of 4 mutants were killed" in text and "75.0%" in text and 'class="bad">75.0%' in text
    assert ".sys is &lt;.cta&gt; of 0" in text and "ptx.cuh:7, kernel.cuh:30" in text
    assert "tileproof mutate a-kernel --variant width=576 --seed 5 --count 5 --operators scope,move" in text
    assert "Why 1 of the mutants do" in text and "rule x: &lt;as&gt; it was" in text
    assert "value P" in text and "mutants killed" in text and ">3 of 4</a>" in text
    every = page(release(mutated(record(), 0)))
    assert "100.0%" in every and "Mutants that survived" not in every and 'class="bad"' not in every
    other = page(release(record()))  # a score of which not all is known
    assert "mutants killed" not in other and "<summary>mutation</summary>" in other


def test_every_verdict_has_a_page() -> None:
    for one in (release(), wrong(), release(complete=False), release(record(checks=()))):
        assert f'id="verdict">{one.verdict}<' in page(one)
    assert "before all checks and mutants had run" in page(release(complete=False))


def test_the_picture_is_the_tile() -> None:
    shades = np.array([[0, 127, 128], [254, 255, 60]], np.uint8)
    data = base64.b64decode(picture(shades).partition(",")[2])
    image = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert image.shape == (2, 3, 3)
    assert [tuple(pixel) for pixel in image.reshape(-1, 3)[:5].tolist()] == [
        (255, 255, 255), (120, 170, 230), (255, 160, 60), (150, 0, 20), (90, 90, 90)
    ]  # fmt: skip


def test_a_bar_beyond_the_bound_is_red() -> None:
    assert "#a40e1c" not in plot({"P": 1.0, "S": 0.2}, "k")
    for ratio in (1.001, 50.0, float("inf"), float("nan")):
        assert "#a40e1c" in plot({"P": ratio}, "k")


# ---- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium; the tests are skipped, by name, where it or its driver is not installed."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("chromium or chromium-driver is not installed (make browser)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Any:
    """The browser with the page of a wrong kernel."""
    path = tmp_path / "report.html"
    path.write_text(page(wrong()), encoding="utf-8")
    browser.set_window_size(1200, 900)
    browser.get(path.as_uri())
    return browser


IN_VIEW = """
const box = arguments[0].getBoundingClientRect();
return box.width > 0 && box.height > 0 && box.top < innerHeight && box.bottom > 0;
"""


def in_view(browser: Any, element: Any) -> bool:
    return bool(browser.execute_script(IN_VIEW, element))


def test_it_opens_with_the_verdict_on_top(shown: Any) -> None:
    assert shown.title == "Tileproof gate: defect"
    assert in_view(shown, shown.find_element("id", "verdict"))
    assert not [line for line in shown.get_log("browser") if line["level"] == "SEVERE"]
    assert shown.execute_script(
        "return [...document.images].every(image => image.complete && image.naturalWidth > 0)"
    )


def test_every_link_leads_somewhere(shown: Any) -> None:
    hrefs = [a.get_attribute("href") for a in shown.find_elements("css selector", "a")]
    for href in dict.fromkeys(hrefs):
        name = href.partition("#")[2]
        shown.get(href)
        assert in_view(shown, shown.find_element("id", name)), name


def test_the_failing_tile_is_within_two_clicks(shown: Any) -> None:
    shown.find_element("css selector", "#failing a").click()
    heat = shown.find_element("css selector", ".heat")
    assert in_view(shown, heat)
    shown.execute_script("scrollTo(0, 0)")
    shown.find_element("link text", "failed").click()  # by the matrix, then the kernel's own section
    assert "b-kernel" in shown.current_url
    assert shown.find_element("css selector", ".replay").text == REPLAY


def test_the_survivors_are_one_click_away(shown: Any) -> None:
    shown.find_element("link text", "2 of 4").click()
    assert in_view(shown, shown.find_element("id", "d-kernel-width-576-mutants"))
    table = shown.find_element("css selector", "[aria-label='Mutants that survived']")
    assert in_view(shown, table) and "fence" not in table.text and ".sys is <.cta> of 1" in table.text


def test_it_can_be_read_on_a_narrow_screen(shown: Any) -> None:
    shown.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 380, "height": 800, "deviceScaleFactor": 1, "mobile": True},
    )
    try:
        shown.refresh()
        assert shown.execute_script("return innerWidth") == 380
        assert shown.execute_script("return document.scrollingElement.scrollWidth") <= 380
        assert shown.execute_script("return parseFloat(getComputedStyle(document.body).fontSize)") >= 16
        heat = shown.find_element("css selector", ".heat")
        assert 100 < heat.size["width"] <= 380
    finally:
        shown.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_it_can_be_used_by_keyboard(shown: Any) -> None:
    from selenium.webdriver.common.keys import Keys  # type: ignore[import-not-found]

    def press(key: str) -> Any:
        shown.switch_to.active_element.send_keys(key)
        return shown.switch_to.active_element

    assert press(Keys.TAB).get_attribute("class") == "skip"
    failing = press(Keys.TAB)
    assert failing.find_element("xpath", "..").get_attribute("id") == "failing"
    outline = shown.execute_script("return getComputedStyle(arguments[0]).outlineStyle", failing)
    assert outline == "solid"
    press(Keys.ENTER)
    assert shown.current_url.endswith("-failure")
    # What scrolls sideways can be reached, and every fold opens.
    assert shown.execute_script(
        "return [...document.querySelectorAll('.scroll, pre:not(.wrap)')].every(e => e.tabIndex === 0)"
    )
    closed = shown.find_element("css selector", "details:not([open]) > summary")
    closed.send_keys(Keys.ENTER)
    assert closed.find_element("xpath", "..").get_attribute("open") is not None


def test_words_and_not_colours_alone_say_the_outcome(shown: Any) -> None:
    cells = shown.find_elements("css selector", "#matrix td")
    assert {re.sub(r"\s+", " ", cell.text) for cell in cells} >= {"defect", "failed", "passed", "not run"}
