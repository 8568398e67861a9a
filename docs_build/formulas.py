r"""Formulas for the site: from TeX to MathML, which browsers show by themselves.

In: pages in which pymdownx.arithmatex has marked formulas, ``\(...\)`` and ``\[...\]``. Out: the same with MathML, so
that no script and no font is fetched from anywhere. Stage: building the documentation; mkdocs.yml names this file as a
hook.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\(?P<open>[(\[])(?P<tex>.*?)\\[)\]]\s*</(?P=tag)>', re.DOTALL
)
ARG = re.compile(r"\\arg(?![a-zA-Z])")  # which the converter does not know


def with_mathml(content: str) -> str:
    """``content`` with every marked formula as MathML; its TeX stays as the text that is read aloud."""
    return MARKED.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found["open"] == "[" else "inline"
    tex = html.unescape(found["tex"]).strip()
    formula = convert(ARG.sub(r"\\operatorname{arg}", tex), display=display)
    alternative = html.escape(" ".join(tex.split()), quote=True)
    formula = formula.replace("<math ", f'<math alttext="{alternative}" ', 1)
    # Browsers break no formula: within a line, one that is wider than the page scrolls by itself.
    return f'<span class="formula">{formula}</span>' if display == "inline" else formula


def on_page_content(content: str, **kwargs: Any) -> str:
    """Called by mkdocs for the HTML of every page."""
    return with_mathml(content)
