"""The parts of the site and their pages, as docs/contents.toml lists them."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tileproof.spec.machine.errors import TileproofError

ROOT = Path(__file__).resolve().parents[2]
FRONT = "README.md"


@dataclass(frozen=True)
class SitePart:
    """A part of the site: its title and its pages, as paths from the top of the repository."""

    title: str
    pages: tuple[str, ...]
    late: bool = False  # its pages come last among search results


@dataclass(frozen=True)
class Contents:
    """The parts of the site in order; `search`: the words by which newcomers search each page."""

    parts: tuple[SitePart, ...]
    search: dict[str, str]

    @property
    def pages(self) -> tuple[str, ...]:
        """Every page of every part; README.md is the front page and in no part."""
        return tuple(page for part in self.parts for page in part.pages)


def pages_of(root: Path) -> list[str]:
    """Every page of Markdown that git tracks or would track, without README.md."""
    words = ["git", "ls-files", "-co", "--exclude-standard", "*.md"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    return sorted(name for name in set(done.stdout.splitlines()) - {FRONT} if (root / name).is_file())


def read(root: Path = ROOT, pages: Sequence[str] | None = None) -> Contents:
    """The contents; a part with `folders = true` has the page of every folder that no other part names.

    `pages` are the pages of the repository (all that git tracks). TileproofError for a page that is in no
    part, in two parts, or missing.
    """
    path = root / "docs" / "contents.toml"
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    known = pages_of(root) if pages is None else list(pages)
    named = [page for part in data["part"] for page in part.get("pages", ())]
    folders = [page for page in known if page not in named and not page.startswith("docs/") and "/" in page]
    parts = tuple(
        SitePart(
            part["title"],
            (*part.get("pages", ()), *(folders if part.get("folders") else ())),
            part.get("late", False),
        )
        for part in data["part"]
    )
    contents = Contents(parts, data.get("search", {}))
    problems = [f"{page} is in no part" for page in sorted(set(known) - set(contents.pages))]
    problems += [f"{page} does not exist" for page in contents.pages if page not in known]
    problems += [f"{page} is twice in it" for page in contents.pages if contents.pages.count(page) > 1]
    unknown = sorted(set(contents.search) - set(known))
    problems += [f"search words of {page}, which does not exist" for page in unknown]
    if problems:
        raise TileproofError("the contents do not fit the pages", where=str(path), found="; ".join(problems))
    return contents
