"""Docstrings for the site: from the marks that the sources use to Markdown.

In: docstrings with roles (``:class:`X```), ``.. math::``, ``Parameters`` sections and doctests. Out: Markdown, which
the API pages show. Stage: building the documentation; mkdocs.yml names this file as an extension of griffe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

ROLE = re.compile(r":(?P<role>class|func|meth|mod|attr|data|exc|math):`(?P<body>[^`]+)`", re.DOTALL)
TITLED = re.compile(r"(?P<shown>[^<>]+) <(?P<target>[^<>]+)>")
MATH = re.compile(r"^(?P<indent> *)\.\. math::\s*(?P<first>.*)$")
ENTRY = re.compile(r"^(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*):$")
PACKAGE = "loopwise."


def to_markdown(text: str) -> str:
    """The Markdown of a docstring whose indentation has been taken off."""
    lines = list(_parameters(_formulas(text.splitlines())))
    return "\n".join(_doctests("\n".join(lines)))


def _formulas(lines: list[str]) -> Iterator[str]:
    """``.. math::`` with what stands indented below it, as a formula of its own."""
    place = 0
    while place < len(lines):
        found = MATH.match(lines[place])
        place += 1
        if found is None:
            yield lines[place - 1]
            continue
        indent, body = found["indent"], [found["first"]]
        while place < len(lines) and (not lines[place].strip() or lines[place].startswith(indent + " ")):
            body.append(lines[place])
            place += 1
        formula = " ".join(line.strip() for line in body if line.strip())
        yield from ("", f"{indent}$$ {formula} $$", "")


def _parameters(lines: Iterator[str]) -> Iterator[str]:
    """A ``Parameters`` section as a list; it ends at the first line that is neither an entry nor indented."""
    inside = False
    held = ""
    for line in lines:
        if held:
            inside, title, held = line.startswith("---"), held, ""
            if inside:
                yield from (f"**{title}**", "")
                continue
            yield title
        entry = ENTRY.match(line) if inside else None
        if line == "Parameters":
            held = line
        elif entry is not None:
            yield "- " + ", ".join(f"`{name.strip()}`" for name in entry["names"].split(",")) + ":"
        else:
            if inside and line and not line.startswith(" "):
                inside = False
                yield ""
            yield line
    if held:
        yield held


def _doctests(text: str) -> Iterator[str]:
    """Runs of ``>>>`` as blocks of code, up to an empty line; roles everywhere else."""
    prose: list[str] = []
    code: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith(">>>") or (code and line.strip()):
            code.append(line)
            continue
        if code:
            indent = code[0][: len(code[0]) - len(code[0].lstrip())]
            yield _roles("\n".join(prose))
            yield from ("", f"{indent}```pycon", *code, f"{indent}```", "")
            prose, code = [], []
        prose.append(line)
    yield _roles("\n".join(prose)).rstrip("\n")


def _roles(text: str) -> str:
    return ROLE.sub(_role, text)


def _role(found: re.Match[str]) -> str:
    body = " ".join(found["body"].split())
    if found["role"] == "math":
        return f"${body}$"
    if titled := TITLED.fullmatch(body):
        shown, target = titled["shown"], titled["target"]
    else:
        shown, target = body.rsplit(".", 1)[-1] if body.startswith("~") else body, body.lstrip("~")
    if not target.startswith(PACKAGE):
        return f"`{shown}`"
    # Optional: a link where some page has that name, else the name alone.
    return f'<autoref identifier="{target}" optional><code>{shown}</code></autoref>'


class Docstrings(griffe.Extension):
    """Converts every docstring of a package once, after it was read."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        _convert(pkg)


def _convert(thing: griffe.Object | griffe.Alias) -> None:
    if thing.docstring is not None:
        thing.docstring.value = to_markdown(thing.docstring.value)
    for member in thing.members.values():
        if not member.is_alias:
            _convert(member)
