"""What every reader of this folder raises when a file is not what it should be."""

from __future__ import annotations

from loopwise.formats.quoting import on_one_line


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
