"""Pages of HTML that hold everything they show.

In: text, tables, PNG files. Out: the text of a page that asks the network for nothing.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

# Phones show a page as wide as they are, and browsers know that it has colours for the dark.
_HEAD = (
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark">'
)


def document(title: str, body: str, style: str) -> str:
    """A whole HTML page that asks for nothing else."""
    inner = f"{_HEAD}<title>{html.escape(title)}</title><style>{style}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{inner}</head>\n<body>\n{body}\n</body></html>\n'


def html_table(lines: Sequence[Sequence[str]]) -> str:
    """Headings, then rows, of plain text."""
    headings, *rows = lines
    parts = ["<table>", "<tr>" + "".join(f"<th>{html.escape(text)}</th>" for text in headings) + "</tr>"]
    parts += ["<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rows]
    return "\n".join([*parts, "</table>"])


def png_address(data: bytes) -> str:
    """A PNG file as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"
