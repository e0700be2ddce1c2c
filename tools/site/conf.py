"""Sphinx's configuration of the site."""

from __future__ import annotations

from pathlib import Path

from tileproof import __version__

project = "Tileproof"
author = "the Tileproof project"
copyright = author
release = version = __version__

extensions = ["myst_parser", "tileproof.tools.site.sphinx_parts"]
root_doc = "README"
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4
smartquotes = False  # options begin with two hyphens
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # shell lines with an ellipsis

html_theme = "furo"
html_title = "Tileproof"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["book.css"]
html_math_renderer = "mathml"
html_search_language = "newcomer"
html_copy_source = html_show_sourcelink = html_show_sphinx = False
pygments_style = "default"
pygments_dark_style = "native"
