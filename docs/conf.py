"""Sphinx: Markdown pages, notebooks, and the docstrings of ``reference/python.md``."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent / "src"), str(DOCS.parent / "workflow")]

import beamuq  # noqa: E402

project = "beamuq"
author = "the beamuq authors"
release = version = beamuq.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks hold what they print: tools/make_notebooks.py
html_theme = "furo"
html_title = "beamuq"
PACKAGE = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# the footer of every page: version, licence and, once it is known, where the source is
copyright = f"{author}; version {version}; licence {PACKAGE['license']}"
SOURCE = PACKAGE.get("urls", {}).get("Source")
html_theme_options = {
    "footer_icons": [{"name": "Source", "url": SOURCE, "html": "Source", "class": ""}]
    if SOURCE
    else []
}
exclude_patterns = ["_build"]
nitpicky = True
# types of other packages in signatures: no inventory is fetched, so that the site builds offline
nitpick_ignore_regex = [("py:.*", r"(?!beamuq\.).*")]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
python_use_unqualified_type_names = True
suppress_warnings = ["config.cache"]


def _plain_bars(
    _: Sphinx, __: str, ___: str, ____: object, _____: object, lines: list[str]
) -> None:
    """A bar in a formula of a docstring, p(y|x), is a bar and not a substitution; literals stay as
    they are.
    """
    for number, line in enumerate(lines):
        pieces = line.split("``")
        lines[number] = "``".join(
            piece if place % 2 else re.sub(r"(?<!\\)\|", r"\\|", piece)
            for place, piece in enumerate(pieces)
        )


def setup(app: Sphinx) -> None:
    """Docstrings say ``p(y|x)``."""
    app.connect("autodoc-process-docstring", _plain_bars)
