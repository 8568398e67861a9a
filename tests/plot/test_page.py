"""Pages hold what they show, and text stays text."""

from __future__ import annotations

from loopwise.plot.page import document, html_table, png_address


def test_a_page_is_whole_and_escapes_its_title() -> None:
    page = document("a < b", "<p>body</p>", "p { color: red }")
    assert page.startswith('<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport"')
    assert "<title>a &lt; b</title><style>p { color: red }</style>" in page and page.endswith("</body></html>\n")


def test_tables_are_plain_text() -> None:
    assert html_table([["", "x"], ["a & b", "1"]]) == (
        "<table>\n<tr><th></th><th>x</th></tr>\n<tr><td>a &amp; b</td><td>1</td></tr>\n</table>"
    )


def test_pictures_are_inside() -> None:
    assert png_address(b"\x89PNG") == "data:image/png;base64,iVBORw=="
