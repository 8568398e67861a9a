"""What separates lines, columns and tokens: one rule for all column formats (IOB columns, CoNLL-U, coreference).

In: a text. Out: lines, cells. A line ends at ``\\n``; carriage returns right before it, or before the end of the text,
are part of the end (``\\r\\n``, and the ``\\r\\r\\n`` of files that were converted twice), and one anywhere else is a
:class:`FormatError`: it would be a line end that was missed, or a character that no column file can hold at the end of
a line. A line is blank if it holds nothing but white space of any kind. Columns are separated by single tabs, or, in
files without tabs, by runs of spaces. Every other character is part of a word: no-break spaces, vertical tabs and the
line separators of Unicode too.
"""

from __future__ import annotations

from loopwise.formats.errors import FormatError

SPACES = " \t"  # what stands around cells and means nothing


def split_lines(text: str, where: str) -> list[str]:
    """The lines of a text, without their ends; the empty rest after a last line end is none. ``where``: for messages.

    >>> split_lines("a\\x0bb\\r\\n\\u2028c\\n", "<text>")
    ['a\\x0bb', '\\u2028c']
    """
    # Not splitlines: words may hold the other characters that it takes for line ends.
    lines = text.split("\n")
    if "\r" in text:
        lines = [line.rstrip("\r") for line in lines]
        for number, line in enumerate(lines, start=1):
            if "\r" in line:
                raise FormatError(
                    where,
                    number,
                    "a carriage return stands inside of the line; remove it, or convert the file's line ends to "
                    "line feeds",
                )
    return lines[:-1] if not lines[-1] else lines


def holds_line_end(text: str) -> bool:
    """Whether a text cannot be part of a line.

    >>> holds_line_end("a\\rb"), holds_line_end("a\\x0bb")
    (True, False)
    """
    return "\n" in text or "\r" in text


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
