"""What the site adds to Sphinx: formulas as MathML, names of code blocks, and stop words of questions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from pygments.lexers.special import TextLexer
from sphinx.search.en import SearchEnglish
from sphinx.util.logging import getLogger
from tileproof.tools.site.source import SCORER

_log = getLogger(__name__)

# Blocks whose text has no grammar that Pygments colours.
PLAIN = ("ptx", "trace", "log", "lines", "proposal", "answer")
QUESTIONS = ("get", "need", "needs", "want", "come", "comes", "use")


class SearchNewcomer(SearchEnglish):  # type: ignore[misc]
    """English, without the words of a question: the search asks for pages with all the words."""

    lang = "newcomer"
    language_name = "English"  # the name of its stemmer in JavaScript
    stopwords = frozenset(SearchEnglish.stopwords) | frozenset(QUESTIONS)


def mathml(node: nodes.math | nodes.math_block) -> str:
    """A formula's LaTeX as MathML; a warning, and the text itself, where docutils cannot translate it."""
    text = node.astext()
    if text.count("{") - text.count(r"\{") != text.count("}") - text.count(r"\}"):
        _log.warning("unbalanced braces in the formula %s", text, location=node)
    try:
        return str(tex2mathml(text, as_block=isinstance(node, nodes.math_block)))
    except MathError as error:
        _log.warning("no MathML for %s: %s", text, error, location=node)
        return text


class _Translator(Protocol):
    """Sphinx's writer of HTML, as the renderers use it."""

    body: list[str]


class _Application(Protocol):
    """Sphinx's application, as `setup` uses it."""

    add_html_math_renderer: Callable[..., None]
    add_search_language: Callable[..., None]
    add_lexer: Callable[..., None]
    connect: Callable[..., None]
    srcdir: Path


class _Config(Protocol):
    """Sphinx's configuration, as `_scored` uses it."""

    html_search_scorer: str


def _inline(self: _Translator, node: nodes.math) -> None:
    self.body.append(mathml(node))
    raise nodes.SkipNode


def _display(self: _Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{mathml(node)}</div>')
    raise nodes.SkipNode


def _scored(app: _Application, config: _Config) -> None:
    config.html_search_scorer = str(Path(app.srcdir) / SCORER)


def setup(app: _Application) -> dict[str, bool]:
    """Register the renderer, the search language and the lexers."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.add_search_language(SearchNewcomer)
    app.connect("config-inited", _scored)
    for name in PLAIN:
        app.add_lexer(name, TextLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
