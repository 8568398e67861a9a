"""Small files with entities."""

from __future__ import annotations

WORD = "{}\t{}\t{}\tNOUN\tNN\t_\t{}\tdep\t_\t{}"


def conllu(*sentences: list[tuple[str, str]], header: str = "GRP-etype-infstat") -> str:
    """Sentences of (word, Entity value); the first word of each is its root."""
    lines = ["# newdoc id = one", f"# global.Entity = {header}"]
    for words in sentences:
        for number, (form, brackets) in enumerate(words, 1):
            misc = f"A=b|Entity={brackets}|SpaceAfter=No" if brackets else "_"
            lines.append(WORD.format(number, form, form, 0 if number == 1 else 1, misc))
        lines.append("")
    return "\n".join(lines) + "\n"


TEXT = conllu(
    [("Ann", "(1-person-new)"), ("saw", ""), ("the", "(2-object-new"), ("red", ""), ("house", "2)")],
    [("Her", "(3-object-giv(1-person-giv)"), ("own", ""), ("house", "3)"), ("fell", "")],
)
