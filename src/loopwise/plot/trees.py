"""Dependency trees as pictures: arcs over the words, as opaque as they are probable.

In: words, heads, relations, beliefs of arcs. Out: SVG, alone or in a self-contained HTML page; notebooks show it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.plot.style import BLUE, FAINT, INK, ORANGE

TREE, OTHER = BLUE, ORANGE
LETTER, GAP, MARGIN, LINE = 8.2, 26.0, 24.0, 17.0  # pixels: a letter, between words, around, a line of text
LEVEL = 26.0  # height of the flattest arc, and what each further level adds
FAINTEST = 0.05  # arcs less probable than this are not drawn


@dataclass(frozen=True, eq=False)
class DrawnTree:
    """One picture of a tree: what it shows. ``str()`` is its SVG; notebooks show it; :func:`loopwise.plot.save` writes
    it as ``.svg`` or ``.html``."""

    words: Sequence[str]
    tags: Sequence[str]
    heads: Sequence[int]
    relations: Sequence[str]
    marginals: NDArray[np.float64] | None = None
    title: str = ""

    def __str__(self) -> str:
        return _svg(self)

    def _repr_svg_(self) -> str:
        return _svg(self)

    def to_file_text(self, kind: str) -> str:
        """The content of a file with this ending."""
        if kind == "html":
            return arc_page([self], self.title or " ".join(self.words))
        if kind != "svg":
            raise ValueError(f"arcs are drawn as .svg or .html, not as .{kind}")
        return _svg(self)


def arcs(
    words: Sequence[str],
    heads: Sequence[int],
    *,
    tags: Sequence[str] | None = None,
    relations: Sequence[str] | None = None,
    marginals: NDArray[np.float64] | None = None,
    title: str = "",
) -> DrawnTree:
    """A dependency tree over ``words``: its arcs in blue, others that were likely in orange; opacity is the belief.

    ``heads[m]``: the head of word m, counted from 1; 0 is the root, -1 none. ``marginals[h, m]``, ``[words + 1, words +
    1]``: beliefs, both counted from 1 with the root at 0; without them the tree's arcs are solid.
    """
    count = len(words)
    for name, given in (("heads", heads), ("tags", tags), ("relations", relations)):
        if given is not None and len(given) != count:
            raise ValueError(f"{len(given)} {name} do not fit {count} words; give one for each")
    for word, head in enumerate(heads, 1):
        if not -1 <= head <= count or head == word:
            raise ValueError(
                f"word {word} ({words[word - 1]!r}) has the head {head}; heads are 0 to {count}, not the word"
            )
    if marginals is not None and np.shape(marginals) != (count + 1, count + 1):
        raise ValueError(f"marginals must have the shape {(count + 1, count + 1)}, not {np.shape(marginals)}")
    none = [""] * count
    return DrawnTree(
        words, none if tags is None else tags, heads, none if relations is None else relations, marginals, title
    )


def _svg(drawing: DrawnTree) -> str:
    centres, width = _centres(drawing)
    found = _arcs(drawing)
    levels = _levels([(head, mod) for head, mod, _, _ in found])
    top = MARGIN + LEVEL * (max(levels, default=0) + 1) + (LINE if drawing.title else 0)
    height = top + 3 * LINE + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="sans-serif" font-size="14" role="img">',
        f"<title>{_text(drawing.title or ' '.join(drawing.words))}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
    ]
    if drawing.title:
        lines.append(f'<text x="{MARGIN}" y="{MARGIN}" fill="{FAINT}" font-size="12">{_text(drawing.title)}</text>')
    # Faint ones first, so that likely ones lie on top.
    for (head, mod, belief, in_tree), level in sorted(
        zip(found, levels, strict=True), key=lambda item: (item[0][3], item[0][2])
    ):
        relation = drawing.relations[mod - 1] if in_tree else ""
        lines.append(_arc(centres, top, head, mod, belief, in_tree, level, relation))
    for place, (word, tag) in enumerate(zip(drawing.words, drawing.tags, strict=True), 1):
        x = centres[place]
        lines.append(f'<text x="{x:.1f}" y="{top + LINE:.1f}" text-anchor="middle" fill="{INK}">{_text(word)}</text>')
        lines.append(
            f'<text x="{x:.1f}" y="{top + 2 * LINE:.1f}" text-anchor="middle" fill="{FAINT}" font-size="11">'
            f"{_text(tag)}</text>"
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def arc_page(drawings: Sequence[DrawnTree], title: str) -> str:
    """Several pictures as one HTML page that needs no other file."""
    figure = '<figure style="overflow-x:auto;margin:1.5em 0">'
    body = "\n".join(f"{figure}{_svg(drawing)}</figure>" for drawing in drawings)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title></head>\n'
        f'<body style="font-family:sans-serif;margin:2em;color:{INK}"><h1>{_text(title)}</h1>\n'
        f'<p>Opacity is the probability of an arc. <span style="color:{TREE}">Blue</span>: the tree that was chosen; '
        f'<span style="color:{OTHER}">orange</span>: other arcs of at least {FAINTEST:g}.</p>\n{body}\n</body></html>\n'
    )


def _centres(drawing: DrawnTree) -> tuple[list[float], float]:
    """The x of the root (left of all words) and of each word, wide enough for word, tag and relation."""
    centres, x = [MARGIN], MARGIN + GAP
    texts = zip(drawing.words, drawing.tags, drawing.relations, strict=True)
    for word, tag, relation in texts:
        width = max(_width(word), 0.8 * _width(tag), 0.8 * _width(relation))
        centres.append(x + width / 2)
        x += width + GAP
    return centres, x + MARGIN


def _width(text: str) -> float:
    return LETTER * max(1, len(text))


def _arcs(drawing: DrawnTree) -> list[tuple[int, int, float, bool]]:
    """Head, modifier, belief, whether in the tree."""
    found = []
    for mod, head in enumerate(drawing.heads, 1):
        if head >= 0:
            belief = 1.0 if drawing.marginals is None else float(drawing.marginals[head, mod])
            found.append((int(head), mod, belief, True))
    if drawing.marginals is not None:
        for head, mod in np.argwhere(drawing.marginals >= FAINTEST).tolist():
            if mod > 0 and drawing.heads[mod - 1] != head:
                found.append((head, mod, float(drawing.marginals[head, mod]), False))
    return found


def _levels(arcs: Sequence[tuple[int, int]]) -> list[int]:
    """How high each arc is drawn: one above the highest of those it spans. Arcs of the root come straight down."""
    levels = [0] * len(arcs)
    order = sorted(range(len(arcs)), key=lambda place: abs(arcs[place][0] - arcs[place][1]))
    for place in order:
        low, high = sorted(arcs[place])
        below = [
            levels[other]
            for other in order
            if other != place and arcs[other][0] > 0 and low <= min(arcs[other]) and max(arcs[other]) <= high
            and abs(arcs[other][0] - arcs[other][1]) < high - low
        ]  # fmt: skip
        levels[place] = 0 if arcs[place][0] == 0 else 1 + max(below, default=0)
    highest = max(levels, default=0)
    return [highest + 1 if arcs[place][0] == 0 else level for place, level in enumerate(levels)]


def _arc(
    centres: Sequence[float], base: float, head: int, mod: int, belief: float, in_tree: bool, level: int, relation: str
) -> str:
    colour, y = (TREE if in_tree else OTHER), base - 4
    opacity = max(FAINTEST, min(1.0, belief))
    side = -1 if head < mod else 1
    x = centres[mod] + (0 if head == 0 else 4 * side)  # arcs into a word and out of it do not touch
    top = base - LEVEL * level
    if head == 0:
        path, label_x, label_y = f"M{x:.1f} {top:.1f} L{x:.1f} {y:.1f}", x, top - 4
    else:
        start = centres[head] - 4 * side
        bend = min(18.0, abs(x - start) / 2)
        turn = bend if start < x else -bend
        path = (
            f"M{start:.1f} {y:.1f} Q{start:.1f} {top:.1f} {start + turn:.1f} {top:.1f} "
            f"L{x - turn:.1f} {top:.1f} Q{x:.1f} {top:.1f} {x:.1f} {y:.1f}"
        )
        label_x, label_y = (start + x) / 2, top - 4
    name = relation if belief > 0.995 or not in_tree else f"{relation} {100 * belief:.0f}%"
    label = "" if not in_tree else (
        f'<text x="{label_x:.1f}" y="{label_y:.1f}" text-anchor="middle" font-size="11" fill="{colour}" '
        f'stroke="white" stroke-width="3" paint-order="stroke">{_text(name)}</text>'
    )  # fmt: skip
    return (
        f'<g opacity="{opacity:.3f}"><path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        f'<path d="M{x - 4:.1f} {y - 7:.1f} L{x + 4:.1f} {y - 7:.1f} L{x:.1f} {y:.1f} Z" fill="{colour}"/></g>{label}'
    )


def _text(text: str) -> str:
    return html.escape(text, quote=True)
