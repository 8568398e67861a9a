"""What separates lines, columns and tokens: one rule for all column formats (IOB columns, CoNLL-U, coreference).

In: a text. Out: lines, cells. A line ends at ``\\n`` or ``\\r\\n``; it is blank if it holds nothing but white space of
any kind. Columns are separated by single tabs, or, in files without tabs, by runs of spaces. Every other character is
part of a word: no-break spaces, vertical tabs and the line separators of Unicode too.
"""

from __future__ import annotations

SPACES = " \t"  # what stands around cells and means nothing


def split_lines(text: str) -> list[str]:
    """The lines of a text, without their ends; the empty rest after a last line end is none.

    >>> split_lines("a\\x0bb\\r\\n\\u2028c\\n")
    ['a\\x0bb', '\\u2028c']
    """
    # Not splitlines: words may hold the other characters that it takes for line ends.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if not lines[-1] else lines


def is_blank(line: str) -> bool:
    """Whether there is nothing to see in it."""
    return not line or line.isspace()


def split_cells(line: str, tabs: bool) -> list[str]:
    """The cells of a line, without the spaces around them.

    >>> split_cells("10\\xa0000  B-NUM ", tabs=False)
    ['10\\xa0000', 'B-NUM']
    >>> split_cells("New York\\t\\tO", tabs=True)
    ['New York', '', 'O']
    """
    if tabs:
        return [cell.strip(SPACES) for cell in line.split("\t")]
    return [cell for cell in line.replace("\t", " ").split(" ") if cell]
