"""A hook of MkDocs: a picture opens in full size when it is clicked, for small screens and small labels.

In: the HTML of a page. Out: the same, each picture that stands by itself a link to its own file.
"""

from __future__ import annotations

import re
from typing import Any

ALONE = re.compile(r'(?<=<p>)(?P<picture><img\b[^>]*\bsrc="(?P<file>[^":]+)"[^>]*>)(?=</p>)')


def with_links(content: str) -> str:
    """``content`` with every picture that is a paragraph of its own linked to its file."""
    return ALONE.sub(r'<a class="picture" href="\g<file>">\g<picture></a>', content)


def on_page_content(content: str, **kwargs: Any) -> str:
    """Called by mkdocs for the HTML of every page."""
    return with_links(content)
