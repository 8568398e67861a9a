"""Features of words written down by hand."""

from __future__ import annotations

import numpy as np

from loopwise.apps.chain.features.attributes import attribute
from loopwise.apps.chain.features.templates import FeatureTemplate
from loopwise.potentials.linear import Design

SPEC = (
    "bias first last all_lower w[0] lower[1] w[-1]|w[0] prefix3[0]|is_title[0] is_title[-1]|w[1] suffix2[-2] first|w[0]"
)


def value_by_hand(sentence: list[str], place: int, name: str, offset: int) -> str | None:
    """What one part of a template sees, None for nothing."""
    if name == "bias":
        return ""
    if name in ("first", "last"):
        return "" if place == (0 if name == "first" else len(sentence) - 1) else None
    if name == "all_lower":
        return "" if all(word == word.lower() for word in sentence) else None
    if not 0 <= place + offset < len(sentence):
        return None if name.startswith(("is_", "has_")) else ("<edge" if place + offset < 0 else "edge>")
    look = attribute(name)
    assert look is not None
    return look(sentence[place + offset])


def features_by_hand(sentences: list[list[str]], templates: tuple[FeatureTemplate, ...]) -> list[set[tuple[str, ...]]]:
    rows = []
    for sentence in sentences:
        for place in range(len(sentence)):
            seen = set()
            for template in templates:
                values = [value_by_hand(sentence, place, part.name, part.offset) for part in template.parts]
                if None not in values:
                    seen.add((str(template), *map(str, values)))
            rows.append(seen)
    return rows


def dense(design: Design) -> np.ndarray:
    matrix = np.zeros((design.tokens.rows, design.features))
    for token in range(design.tokens.rows):
        for row in design.tokens.index[design.tokens.start[token] : design.tokens.start[token + 1]]:
            np.add.at(matrix[token], design.rows.index[design.rows.start[row] : design.rows.start[row + 1]], 1.0)
    return matrix
