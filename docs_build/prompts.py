"""A hook of MkDocs: examples with prompts are marked as what they are, so that they are copied without them.

In: Markdown in which a block of Python begins with ``>>>``. Out: the same, fenced as ``pycon``; the style sheet hides
prompts and answers while the copy button reads a block. Files keep ``python``, which editors know. What tells the tests
how to run an example (``# doctest: ...``) is not shown.
"""

from __future__ import annotations

import re
from typing import Any

FOR_TESTS = re.compile(r"[ ]+# doctest: [+\w, ]+$", re.MULTILINE)
WITH_PROMPT = re.compile(r"^(?P<indent>[ ]*)```python\n(?=(?P=indent)>>> )", re.MULTILINE)


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Called by mkdocs for the text of every page."""
    return WITH_PROMPT.sub(r"\g<indent>```pycon\n", FOR_TESTS.sub("", markdown))
