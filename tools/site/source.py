"""The folder that Sphinx reads: copies of the pages and of the files that they link to.

README.md is the front page; the contents are appended to it as hidden trees. A link to a folder leads to its
README.md.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from tileproof.tools.site.contents import FRONT, Contents, read

SCORER = "scorer.js"  # how the site's search orders results
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")


def targets(page: str) -> list[str]:
    """The targets of a page's links and pictures to files, without anchors, code left out."""
    prose = _CODE.sub("", _FENCED.sub("", page))
    found = (match[2].partition("#")[0] for match in _LINK.finditer(prose))
    return [name for name in found if name and not re.match(r"[a-z]+:", name)]


def _front(text: str, contents: Contents) -> str:
    """The front page with the trees of every part."""
    trees = []
    for part in contents.parts:
        names = "\n".join(page.removesuffix(".md") for page in part.pages)
        trees.append(f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {part.title}\n\n{names}\n```")
    return "\n\n".join([text.rstrip(), *trees]) + "\n"


def _scorer(contents: Contents) -> str:
    """JavaScript that orders search results: by a page's search words, parts with `late` last."""
    words = {page.removesuffix(".md"): text.lower().split() for page, text in contents.search.items()}
    late = [page.removesuffix(".md") for part in contents.parts if part.late for page in part.pages]
    return (
        f"const searchWords = {json.dumps(words)};\nconst latePages = new Set({json.dumps(late)});\n"
        """const query = new URLSearchParams(location.search).get("q") || "";
const asked = query.toLowerCase().split(/\\W+/).filter(word => word.length > 2);
var Scorer = {
  score: ([page, , , , score]) => {
    const own = searchWords[page] || [];
    const met = asked.filter(word => own.some(o => o.startsWith(word) || word === o + "s"));
    return score + 8 * met.length - (latePages.has(page) ? 10 : 0);
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
"""
    )


def write(folder: Path, root: Path, pages: Iterable[str] | None = None) -> Contents:
    """Replace `folder` by the sources of the site of the repository at `root`, and return its contents."""
    contents = read(root, None if pages is None else list(pages))
    shutil.rmtree(folder, ignore_errors=True)
    for name in (FRONT, *contents.pages):
        text = (root / name).read_text(encoding="utf-8")
        made = folder / name
        made.parent.mkdir(parents=True, exist_ok=True)
        for target in targets(text):
            linked = (root / name).parent / target
            if linked.is_file() and linked.suffix != ".md":
                copy = (folder / name).parent / target
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(linked, copy)
            elif (linked / "README.md").is_file():
                text = text.replace(f"]({target})", f"]({target.rstrip('/')}/README.md)")
        if name == FRONT:
            text = _front(text, contents)
        if words := contents.search.get(name):
            keywords = ", ".join(words.split())
            text = f"---\nmyst:\n  html_meta:\n    keywords: {keywords}\n---\n\n{text}"
        made.write_text(text, encoding="utf-8")
    (folder / SCORER).write_text(_scorer(contents), encoding="utf-8")
    return contents
