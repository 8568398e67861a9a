"""The results of a paper as one self-contained HTML page, and the same as Markdown.

In: :class:`Results` and the names of pictures beside them. Out: two files in the folder of the results. A summary in
plain words and the first picture open the page; then claims, each with whether it holds; the other pictures; every
number; and how it was run.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopwise.formats import atomic_write
from loopwise.plot.page import document, html_table, png_address
from studies.harness.results import Cell, Claim, Results

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; display: block; max-width: 100%; overflow-x: auto; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; }
figure { margin: 1rem 0; } code { overflow-wrap: anywhere; }
td, th { text-align: right; } td:first-child, th:first-child { text-align: left; } img { max-width: 100%; }
.claims td { text-align: left; vertical-align: top; } .yes { color: #00664a; } .no { color: #a83c00; }
@media (prefers-color-scheme: dark) {
  body { background: #1b1d26; color: #ddd; } th, td { border-color: #444; } a { color: #8ab4ff; }
  .yes { color: #4cc9a0; } .no { color: #ff9d5c; }
  img:not(.photograph) { filter: invert(0.9) hue-rotate(180deg); }
}
"""


@dataclass(frozen=True)
class Page:
    """What stands around the numbers. ``question``: in plain words, what the study asks and why that matters.
    ``introduction``: how it was run; notes of the results and facts follow it. ``units`` says what the numbers of each
    item are; of the pictures those are shown that are there, the first at the top. In the dark plots change light and
    dark, ``photographs`` do not. ``changed``: rules of claims that were changed, with the day and what they were."""

    title: str
    introduction: Sequence[str]
    pictures: Mapping[str, str]  # file name: what it shows
    units: Mapping[str, str]
    question: str = ""
    photographs: Sequence[str] = ()  # file names
    changed: Sequence[str] = ()


def write_pages(page: Page, results: Results) -> None:
    """``page.html``, with its pictures inside, and ``index.md``, with them beside it."""
    for name, text in (("page.html", _html(page, results)), ("index.md", _markdown(page, results))):
        with atomic_write(results.folder / name) as stream:
            stream.write(text)


def table_of(cells: Sequence[Cell]) -> list[list[str]]:
    """Headings, then a line for each row: ours ± standard error, and what was published where there is a number."""
    rows, columns = list(dict.fromkeys(cell.row for cell in cells)), list(dict.fromkeys(cell.column for cell in cells))
    at = {(cell.row, cell.column): cell for cell in cells}
    lines = [["", *columns]]
    for row in rows:
        lines.append([row, *(_number(at.get((row, column))) for column in columns)])
    return lines


MOST_DECIMALS = 6
CHANGED = "Rules that changed"
PLUS_MINUS = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"  # a number and its error stand on one line


def _number(cell: Cell | None) -> str:
    if cell is None:
        return ""
    ours = "none" if cell.ours is None else f"{cell.ours:.4g}"
    if cell.ours is not None and cell.stderr is not None:
        ours = _with_error(cell.ours, cell.stderr)
    return ours if cell.published is None else f"{ours} (published {cell.published:.4g})"


def _with_error(value: float, error: float) -> str:
    """Both with as many decimals as show two digits of the error."""
    if not (math.isfinite(error) and error > 0):
        return f"{value:.3g}{PLUS_MINUS}{error:.1g}"
    decimals = min(max(1 - math.floor(math.log10(error)), 0), MOST_DECIMALS)
    return f"{value:.{decimals}f}{PLUS_MINUS}{error:.{decimals}f}"


def verdict(claim: Claim) -> str:
    """In one or two words."""
    return {True: "holds", False: "does not hold", None: "not tested"}[claim.holds]


def _with_rule(claim: Claim) -> str:
    """The claim, and the rule that decides it where one is written down."""
    return f"{claim.text} (Rule: {claim.rule}.)" if claim.rule else claim.text


def _shown(page: Page, results: Results) -> dict[str, str]:
    """The pictures that have been drawn."""
    return {name: caption for name, caption in page.pictures.items() if (results.folder / name).exists()}


def _facts(results: Results) -> str:
    return f"Mode {results.mode}, seed {results.seed}."


def _summary(page: Page, results: Results) -> str:
    """What was asked, and how many of the claims came out."""
    tested = [claim for claim in results.claims if claim.holds is not None]
    held = sum(bool(claim.holds) for claim in tested)
    found = f"Of {len(tested)} claims that were tested here, {held} hold."
    if not tested:
        found = "No claim was tested yet."
    elif len(tested) == 1:
        found = f"The one claim that was tested here {verdict(tested[0])}."
    return f"{page.question} {found}".strip()


def _html(page: Page, results: Results) -> str:
    parts = [f"<h1>{html.escape(page.title)}</h1>", f"<p><b>{html.escape(_summary(page, results))}</b></p>"]
    pictures = [_html_picture(page, results, name, caption) for name, caption in _shown(page, results).items()]
    parts += pictures[:1]
    parts.append('<h2>Claims</h2><table class="claims"><tr><td>claim</td><td>here</td><td>evidence</td></tr>')
    for claim in results.claims:
        kind = {True: "yes", False: "no", None: ""}[claim.holds]
        cells = f'<td>{html.escape(_with_rule(claim))}</td><td class="{kind}">{verdict(claim)}</td>'
        parts.append(f"<tr>{cells}<td>{html.escape(claim.evidence)}</td></tr>")
    parts += ["</table>", *pictures[1:]]
    for item in results.items():
        heading = f"<h2>{html.escape(item)}</h2><p>{html.escape(page.units.get(item, ''))}</p>"
        parts.append(heading + html_table(table_of(list(results.of_item(item)))))
    if page.changed:
        rows = "".join(f"<li>{html.escape(text)}</li>" for text in page.changed)
        parts.append(f"<h2>{CHANGED}</h2><ul>{rows}</ul>")
    parts.append("<h2>How it was run</h2>")
    parts += [f"<p>{_with_code(text)}</p>" for text in (*page.introduction, *results.notes, _facts(results))]
    return document(page.title, "\n".join(parts), STYLE)


def _with_code(text: str) -> str:
    """As HTML, what stands between backquotes as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _html_picture(page: Page, results: Results, name: str, caption: str) -> str:
    escaped = html.escape(caption, quote=True)
    address = png_address((results.folder / name).read_bytes())
    kind = ' class="photograph"' if name in page.photographs else ""
    return f'<figure><img{kind} alt="{escaped}" src="{address}"><figcaption>{escaped}</figcaption></figure>'


def _markdown(page: Page, results: Results) -> str:
    pictures = [f"![{caption}]({name})" for name, caption in _shown(page, results).items()]
    parts = [f"# {page.title}", f"**{_summary(page, results)}**", *pictures[:1], "## Claims"]
    claims = [["claim", "here", "evidence"], *([_with_rule(c), verdict(c), c.evidence] for c in results.claims)]
    parts += [_markdown_table(claims), *pictures[1:]]
    for item in results.items():
        parts += [f"## {item}", page.units.get(item, ""), _markdown_table(table_of(list(results.of_item(item))))]
    if page.changed:
        parts += [f"## {CHANGED}", "\n".join(f"- {text}" for text in page.changed)]
    parts += ["## How it was run", *page.introduction, *results.notes, _facts(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(lines: Sequence[Sequence[str]]) -> str:
    rows = ["| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines]
    return "\n".join([rows[0], "|" + "---|" * len(lines[0]), *rows[1:]])
