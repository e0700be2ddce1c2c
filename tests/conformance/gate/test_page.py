"""The page of an evidence: whole, safe, and usable in a browser, by keyboard and on a narrow screen."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tileproof.conformance.cli.gate import reason_lines
from tileproof.conformance.gate.evidence import ReleaseEvidence, RunFacts, reasons
from tileproof.conformance.gate.failing import close_up
from tileproof.conformance.gate.page import page
from tileproof.conformance.gate.pictures import heatmap, plot, png, ticks, timeline
from tileproof.conformance.gate.source_lines import SECTION, source_lines
from tileproof.conformance.verdict.contract import CheckOutcome, JudgedProgram
from tileproof.conformance.verdict.program import record as judged
from tileproof.spec.machine.finding import Finding, Graph, MachinePlace, Node, Root
from tileproof.spec.machine.finding_text import folded, hang_first

from tests.kit.browser import browser as browser
from tests.kit.evidences import DEFECT, RACE, REPLAY, failure, mutated, record, release


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
            name = "src" if (tag, name) == ("image", "href") else name
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
    assert "value P" in text and "mutants killed: 3 of 4</a>" in text
    every = page(release(mutated(record(), 0)))
    assert "100.0%" in every and "Mutants that survived" not in every and 'class="bad"' not in every
    other = page(release(record()))  # a score of which not all is known
    assert "mutants killed" not in other and "<summary>mutation</summary>" in other


def test_every_verdict_has_a_page() -> None:
    for evidence in (release(), wrong(), release(complete=False), release(record(checks=()))):
        assert f'id="verdict">{evidence.verdict}<' in page(evidence)
    assert "before all checks and mutants had run" in page(release(complete=False))


def test_the_picture_is_the_tile() -> None:
    shades = np.array([[0, 127, 128], [254, 255, 60]], np.uint8)
    data = base64.b64decode(png(shades).partition(",")[2])
    image = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert image.shape == (2, 3, 3)
    assert [tuple(pixel) for pixel in image.reshape(-1, 3)[:5].tolist()] == [
        (255, 255, 255), (120, 170, 230), (255, 160, 60), (150, 0, 20), (90, 90, 90)
    ]  # fmt: skip


def test_a_bar_beyond_the_bound_is_red() -> None:
    assert "beyond" not in plot({"P": 1.0, "S": 0.2}, "k")
    for ratio in (1.001, 50.0, float("inf"), float("nan")):
        assert "beyond" in plot({"P": ratio}, "k")


def test_a_tile_has_axes_and_a_scale() -> None:
    assert ticks(64, 128) == [64, 80, 96, 112, 127] and ticks(7, 9) == [7, 8] and ticks(3, 4) == [3]
    tile = failure()["tile"]
    rows, columns = (tile[name][1] - tile[name][0] for name in ("rows", "columns"))
    drawn = heatmap(tile, np.zeros((rows, columns), np.uint8))
    for word in (*map(str, (*tile["rows"], tile["columns"][0])), *tile["axes"], "the bound", "not written"):
        assert f">{word}</text>" in drawn or word == str(tile["rows"][1])  # the end is past the last row


TRACE = """\
        12  CTA 0, load (warp 0) lane 0  wait empty[0] phase 0 at line 3
        15  CTA 0, mma (warp 1)  commit to empty[0] phase 0 at line 9
        15  CTA 0, load (warp 0)  pass empty[0] phase 0 at line 3
        17  CTA 0, load (warp 0)  wait empty[1] phase 0 at line 3
1 event was dropped"""


def test_a_trace_is_drawn_with_the_waits_that_nothing_ends() -> None:
    drawn = timeline(TRACE.splitlines())
    assert drawn.count("<circle") == 4 and drawn.count('class="waits"') == 1
    assert drawn.count('class="beyond"') == 1 and ">CTA 0, load (warp 0)</text>" in drawn
    assert 'class="beyond"' not in timeline(TRACE.splitlines()[:3])
    assert timeline(["no trace: <why>"]) == ""
    narrow = timeline(TRACE.splitlines(), narrow=True)
    assert narrow.count("<circle") == 4 and 'class="timeline narrow" viewBox="0 0 3' in narrow


def test_the_close_up_holds_the_place() -> None:
    """The place is line 20, or earlier if the trace begins with it; a hang ends there."""
    lines = [str(n) for n in range(41)]
    for end in (41, 26, 21, 15, 3, 0):
        near = close_up(lines[:end])
        assert len(near) == min(end, 15) and (end <= 20 or "20" in near)


def test_a_source_line_stands_beside_each_place() -> None:
    sources = {"sm100/k/a.cuh": "1\n2\n  st(x);\n", "sm100/b.cuh": "x\n" * 9, "sm100/k/b.cuh": ""}
    known = source_lines((DEFECT, RACE), sources)
    assert known == {"a.cuh:3": "st(x);"}  # b.cuh is two files
    kernel_record = record(wrong=True)
    text = page(
        release(replace(kernel_record, sections={**kernel_record.sections, SECTION: {"b.cuh:9": "ld(<y>);"}}))
    )
    assert "b.cuh:9  ld(&lt;y&gt;);</code>" in text and f"<summary>{SECTION}" not in text


def test_the_first_reason_is_shown_and_what_may_follow_is_folded() -> None:
    """The reasons for a defect may follow from the first; what was not judged stands apart."""
    kernel_record = record(wrong=True)
    assert len(kernel_record.findings) == 2
    text = page(release(replace(kernel_record, why=("a hang", "a second", "a third"))))
    first, folded = text.index("a hang"), text.index("1 more, which may follow from")
    assert first < folded < text.index("a second") < text.index("1 not judged") < text.index("a third")
    assert text.count("1 more, which may follow from") == 2  # of the two findings


def test_a_hang_is_one_reason_with_its_root_first() -> None:
    """In the verdict, on the page and in the terminal; a race beside it is a reason of its own."""
    node = Node("a", "mbarrier", "p_ready[0] of CTA 1", 1, 8, 0)
    graph = Graph((node,), (), (Root("unsatisfiable", node, "p_ready[0] lacks 1 arrival", (), 25),))
    hang = Finding(
        "hang", "27 groups of lanes wait", check="stage conformance", replay=REPLAY,
        machine=MachinePlace(graph=graph), cause="p_ready[0] lacks 1 arrival",
    )  # fmt: skip
    other = replace(hang, cause="p_free[0] lacks 128 arrivals", check="schedules and races", replay="another")
    assert hang_first([DEFECT, RACE, hang, other]) == [RACE, hang, DEFECT, other]
    assert folded([DEFECT, RACE, hang, other]) == [(RACE, []), (hang, [DEFECT]), (other, [])]
    assert folded([DEFECT, RACE]) == [(DEFECT, []), (RACE, [])]
    checks = (CheckOutcome("stage conformance", True, "failed", "hang"),)
    made = release(
        judged(JudgedProgram("a-kernel", {}, "k", ""), 0, checks, findings=(DEFECT, hang, other, RACE))
    )
    first = "stage conformance: hang: p_ready[0] lacks 1 arrival"
    assert made.kernels[0].why[0] == first and made.kernels[0].findings[0] == hang
    text = page(made)
    assert text.index(first) < text.index("more, which may follow from") < text.index("P differs from")
    (shown,) = [line for line in reason_lines(reasons(made)) if line.startswith("  - ")]
    assert shown == f"  - a-kernel: {first}"
    folds = [line.strip() for line in reason_lines(reasons(made)) if not line.startswith("  - ")]
    assert folds[0].startswith("may follow from it: stage conformance: P differs from") and len(folds) == 4
    assert folds[-1] == "not judged: the instructions that ran are unknown"
    assert list(reason_lines(reasons(release()))) == []


def test_the_page_says_when_where_how_long_and_what_clean_does_not_promise() -> None:
    run = RunFacts("2026-11-24T04:55:12+00:00", 12.4, "Linux x86_64, 2 cores", {"release: docs in step": 0.5})
    text = page(release(run=run))
    assert "Begun 2026-11-24 04:55 UTC,\n12 s, on Linux x86_64, 2 cores." in text and ">0.5</td>" in text
    assert "2 of 2 required checks passed" in text and "It does not say that the kernel is" in text


# ---- in a browser


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
    shown.find_element("link text", "stage conformance: failed").click()
    assert "b-kernel" in shown.current_url
    assert shown.find_element("css selector", ".replay").text == REPLAY


def test_the_survivors_are_one_click_away(shown: Any) -> None:
    shown.find_element("link text", "mutants killed: 2 of 4").click()
    assert in_view(shown, shown.find_element("id", "d-kernel-width-576-mutants"))
    table = shown.find_element("css selector", "[aria-label='Mutants that survived']")
    assert in_view(shown, table) and "fence" not in table.text and ".sys is <.cta> of 1" in table.text


PAST_THE_EDGE = """
document.querySelectorAll("details").forEach(fold => fold.open = true);
return [...document.body.querySelectorAll("*:not(.skip)")].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map(e => e.outerHTML.slice(0, 80));
"""
LUMINANCE = """
const [r, g, b] = getComputedStyle(document.body)[arguments[0]].match(/\\d+/g).map(
  v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
return 0.2126 * r + 0.7152 * g + 0.0722 * b;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 800, 1400])
def test_nothing_is_clipped_at_any_width_in_light_and_dark(shown: Any, width: int, scheme: str) -> None:
    shown.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    shown.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        shown.refresh()
        assert shown.execute_script("return innerWidth") == width
        assert not shown.execute_script(PAST_THE_EDGE)
        assert shown.execute_script("return parseFloat(getComputedStyle(document.body).fontSize)") >= 16
        assert 100 < shown.find_element("css selector", ".heat").size["width"] <= width
        paper, ink = (shown.execute_script(LUMINANCE, name) for name in ("backgroundColor", "color"))
        assert (paper < ink) == (scheme == "dark")
        assert (max(paper, ink) + 0.05) / (min(paper, ink) + 0.05) > 7  # WCAG 2.2, 1.4.6
    finally:
        shown.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        shown.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


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
    closed = shown.find_element("css selector", "details:not([open]) > summary")
    closed.send_keys(Keys.ENTER)
    assert closed.find_element("xpath", "..").get_attribute("open") is not None


def test_words_and_not_colours_alone_say_the_outcome(shown: Any) -> None:
    words = {element.text for element in shown.find_elements("css selector", "#matrix a, #matrix .word")}
    assert words >= {"defect", "clean", "stage conformance: failed", "resource budgets: passed"}
    assert "card results: not run, optional" in words
