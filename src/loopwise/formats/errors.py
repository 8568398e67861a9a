"""What every reader of this folder raises when a file is not what it should be, and what messages quote of it.

In: text of a file or an option. Out: text for a message, on one line: of a long one its beginning and how long it is;
what cannot be seen (line ends, control characters) is escaped. Shared by all readers and commands.
"""

from __future__ import annotations

from collections.abc import Iterable

SHOWN_CHARACTERS = 40  # of a quoted cell, name or word
SHOWN_ITEMS = 8  # of a list


class FormatError(ValueError):
    """A file that breaks its format: which file, which line (from 1; None if unknown), what is wrong."""

    def __init__(self, path: str, line: int | None, problem: str) -> None:
        super().__init__(path, line, problem)  # all three, so that the error survives pickling
        self.path = path
        self.line = line
        self.problem = on_one_line(problem)

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}, line {self.line}"
        return f"{place}: {self.problem}"


def quoted(text: object, most: int = SHOWN_CHARACTERS) -> str:
    """``text`` in quotation marks; of a long one the first ``most`` characters, and how many there are.

    >>> quoted("B-PER")
    "'B-PER'"
    >>> quoted("x" * 5000, 3)
    "'xxx…' (5000 characters)"
    """
    whole = str(text)
    return repr(whole) if len(whole) <= most else f"{whole[:most] + '…'!r} ({len(whole)} characters)"


def shortened(text: object, most: int = SHOWN_CHARACTERS) -> str:
    """The same without quotation marks, for numbers and for names that stand alone.

    >>> shortened("9" * 5000, 3)
    '999… (5000 characters)'
    >>> print(shortened("4\\n"))
    4\\n
    """
    whole = str(text)
    return _visible(whole) if len(whole) <= most else f"{_visible(whole[:most])}… ({len(whole)} characters)"


def _visible(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def on_one_line(sentence: str, most: int = 450) -> str:
    """A sentence whose beginning and end are shown where it is long, with nothing that ends a line.

    >>> print(on_one_line("a\\tcell of " + "x" * 500, 40))
    a\\tcell of xxxxxxxxxxxxxxx … xxxxxxxxxxxxxx
    """
    text = _visible(sentence)
    return text if len(text) <= most else f"{text[: 2 * most // 3]} … {text[-most // 3 :]}"


def listed(items: Iterable[object], most: int = SHOWN_ITEMS) -> str:
    """Quoted items between commas; of a long list the first, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    "'a', 'b' and 1 more"
    """
    everything = list(items)
    more = f" and {len(everything) - most} more" if len(everything) > most else ""
    return ", ".join(map(quoted, everything[:most])) + more
