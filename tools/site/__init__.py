"""The documentation site: `make docs` builds it from README.md, docs/ and the pages of the folders.

Sphinx with MyST and furo: search without a server, dark mode, narrow screens, and warnings for broken links,
anchors and orphan pages that fail the build. Formulas become MathML when the site is built.
"""
