"""The whole site: it builds without a warning, shows in a browser without a network, and its search finds."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed: make docs-packages")

from tileproof.tools.site import contents
from tileproof.tools.site.__main__ import build

from tests.kit.browser import browser as browser
from tests.kit.paths import ROOT

# What a newcomer wants to do, in a newcomer's words; the page, and a text there that is the answer.
TASKS = (
    ("why does dS need delta", "docs/algorithm", "the elements of `dS` must add up to 0"),
    ("where does the bound of dQ come from", "docs/bounds", "carried from dS:"),
    ("which barrier frees the key ring", "docs/kernels", "`kv_lo_free` and `kv_hi_free`"),
    ("how to gate in CI", "docs/gate", "tileproof gate"),
    ("my kernel hangs", "docs/explain", "tileproof explain"),
    ("test a triton kernel", "docs/triton", "emulate("),
    ("what does certified for all schedules mean", "docs/certificate", "every legal schedule"),
    ("threads write the same shared memory", "docs/races", "race-unordered"),
    ("wrong gradient tensors from a GPU", "docs/tensors", "tileproof tensors"),
    ("add my own kernel", "docs/adding-a-kernel", "plan"),
    ("swizzle layout of an operand", "docs/layouts", "tileproof layout"),
    ("log sum exp", "docs/algorithm", "Why the forward stores LSE"),
    ("what is tensor memory", "docs/machine", "128 lanes and 512 columns"),
    ("attention sink", "docs/sparse-mla", "The attention sink"),
    ("compile error CUTLASS", "docs/build-errors", "tileproof explain"),
    ("tolerance bf16", "docs/bounds", "A rounding"),
    ("what does a clean verdict promise", "docs/verdict", "What a clean verdict does not promise"),
    ("unsupported instruction", "docs/instructions", "mbarrier"),
    ("what happens without a fence", "docs/fences", "missing: fence.proxy.async"),
    ("getting started without a GPU", "docs/ten-minutes", "tileproof judge"),
    ("program never ends", "docs/explain", "tileproof explain"),
    ("run in continuous integration", "docs/gate", "SARIF"),
    ("is it proven for all schedules", "docs/certificate", "Theorem"),
    ("who releases the kv buffer", "docs/kernels", "`kv_lo_free` and `kv_hi_free`"),
    ("topk indices invalid", "docs/sparse-mla", "empty"),
    ("format of the launch file", "docs/formats", "Launch file"),
    ("compare with compute-sanitizer", "docs/related", "racecheck"),
)
PAGES = (
    "README", "docs/algorithm", "docs/seven-stages", "docs/bounds", "docs/kernels", "docs/fences",
    "docs/commands",
)  # fmt: skip
PAST_THE_EDGE = """
return [...document.querySelectorAll("article *")].filter(e => {
  const box = e.getBoundingClientRect();
  const scrolls = e.closest("table, pre, .math, .highlight");
  return box.width > 0 && !scrolls && (box.right > innerWidth + 1 || box.left < -1);
}).map(e => e.outerHTML.slice(0, 80));
"""
BROKEN = "return [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
FOREIGN = """
return performance.getEntriesByType("resource").map(e => e.name).filter(n => /^(https?|\\/\\/)/.test(n))
"""
FLAT = (
    'return [...document.querySelectorAll("math")].filter(m => m.getBoundingClientRect().height < 8).length'
)
LIGHTNESS = """
const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);
return r + g + b;
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("site") / "site"
    assert build(ROOT, out) == 0
    return out


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1300])
def test_pages_in_a_browser(browser: Any, site: Path, width: int, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get_log("browser")
    for page in PAGES:
        browser.get((site / f"{page}.html").as_uri())
        assert browser.execute_script(PAST_THE_EDGE) == [], page
        assert browser.execute_script(BROKEN) == [], page
        assert browser.execute_script(FOREIGN) == [], page
        assert browser.execute_script(FLAT) == 0, page
        assert (browser.execute_script(LIGHTNESS) > 600) == (scheme == "light"), page
    assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []


def test_a_fence_is_right_until_its_wrong_form_is_chosen(browser: Any, site: Path) -> None:
    browser.get((site / "docs/fences.html").as_uri())
    shown = """
    return ["right", "wrong"].filter(form => document.querySelector(`.toggle .${form}`).offsetHeight > 0)
    """
    assert browser.execute_script(shown) == ["right"]
    browser.execute_script("document.querySelectorAll('.toggle label')[1].click()")
    assert browser.execute_script(shown) == ["wrong"]


def test_the_paper_has_six_to_eight_pages(site: Path, tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    out = tmp_path / "paper.pdf"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={out}"]
    subprocess.run([chromium, *flags, site / "docs/paper.html"], check=True, capture_output=True)
    pages = max(int(count) for count in re.findall(rb"/Count (\d+)", out.read_bytes()))
    assert 6 <= pages <= 8


def found(browser: Any, site: Path, words: str) -> list[str]:
    """The pages that the site's search finds, in order."""
    browser.get(f"{(site / 'search.html').as_uri()}?q={quote_plus(words)}")
    script = """
    const summary = document.querySelector("#search-results p.search-summary");
    if (!summary || !/found|did not/.test(summary.textContent)) return null;
    return [...document.querySelectorAll("ul.search > li > a")].map(a => a.getAttribute("href"));
    """
    before: list[str] | None = None
    for _ in range(100):
        hits: list[str] | None = browser.execute_script(script)
        if hits is not None and hits == before:
            break
        before = hits
        time.sleep(0.05)
    return [hit.partition(".html")[0] for hit in before or []]


def test_the_search_finds_the_page_of_each_task(browser: Any, site: Path) -> None:
    places = {words: found(browser, site, words)[:3] for words, _, _ in TASKS}
    assert {words: places[words] for words, page, _ in TASKS if page not in places[words]} == {}
    assert found(browser, site, "zyzzyva") == []


def test_the_page_of_each_task_has_the_answer() -> None:
    for words, page, answer in TASKS:
        text = " ".join((ROOT / f"{page}.md").read_text().split())
        assert answer in text, words


def test_search_words_are_of_pages_and_late_parts_are_the_last() -> None:
    made = contents.read(ROOT)
    assert set(made.search) <= set(made.pages)
    assert [part.title for part in made.parts if part.late] == ["Reference", "Lab notes", "Source tree"]
