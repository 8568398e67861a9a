"""Generated tables on which choices are made, so that those of the study are judged unseen: people, citations,
applicants, sites, products.

In: a kind, a seed. Out: :class:`~studies.entities.data.EntityProblem`. They differ in what makes real tables hard:
entities of one record or fifty, columns that many entities share, values that are written in several ways, cells that
are empty or wrong. ``hard`` is from 0 to 1: how much of this there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from loopwise.apps.dedupe import Records, made_records
from studies.entities.data import EntityProblem

Random = np.random.Generator
Row = dict[str, str]
_SYLLABLES = (
    *("an", "ber", "cor", "da", "el", "fin", "gra", "hol", "is", "jo", "ka", "lin", "mar", "no", "ol", "pe", "qua"),
    *("ri", "sa", "tor", "ul", "vin", "wes", "xa", "yo", "zen", "bri", "cla", "dro", "fle", "glo", "hu"),
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class DrawnWords:
    """Made words, some of which are common; ``word(random)`` draws one."""

    def __init__(self, count: int, random: Random, syllables: tuple[int, int] = (2, 4)) -> None:
        made: dict[str, None] = {}
        while len(made) < count:
            size = int(random.integers(*syllables))
            made["".join(random.choice(_SYLLABLES, size).tolist())] = None
        self.words = list(made)
        share = 1.0 / np.arange(5, count + 5)
        self.share = share / share.sum()

    def some(self, random: Random, count: int) -> list[str]:
        """So many different words."""
        return list(map(str, random.choice(self.words, count, replace=False, p=self.share)))

    def word(self, random: Random) -> str:
        return str(random.choice(self.words, p=self.share))


def typo(text: str, random: Random, noise: float) -> str:
    """With this probability one letter changed, dropped, doubled or swapped."""
    if random.random() >= noise or len(text) < 3:
        return text
    place, how = int(random.integers(len(text) - 1)), int(random.integers(4))
    middle = (random.choice(list(_LETTERS)), "", text[place] * 2, text[place + 1] + text[place])[how]
    return text[:place] + str(middle) + text[place + (2 if how == 3 else 1) :]


def _sizes(records: int, random: Random, most: int, power: float) -> list[int]:
    """Sizes of entities by a power law, that add up to about ``records``."""
    sizes = np.arange(1, most + 1)
    share = sizes**-power
    found: list[int] = []
    while sum(found) < records:
        found.append(int(random.choice(sizes, p=share / share.sum())))
    return found


def _problem(name: str, rows: Sequence[tuple[int, Row]], random: Random) -> EntityProblem:
    order = random.permutation(len(rows))
    truth = np.unique([rows[place][0] for place in order], return_inverse=True)[1]
    return EntityProblem(name, Records.of([rows[place][1] for place in order]), truth)


def people(seed: int, hard: float = 1.0) -> EntityProblem:
    """Records of people with many mistakes and empty cells."""
    records, truth = made_records(1000, seed=seed, noise=0.3 * hard)
    return EntityProblem("people", records, np.unique(truth, return_inverse=True)[1])


def families(seed: int, hard: float = 1.0) -> EntityProblem:
    """People half of whom have a sibling with their surname, street and phone."""
    random = np.random.default_rng(seed)
    firsts, lasts, streets = DrawnWords(150, random), DrawnWords(400, random), DrawnWords(300, random)
    rows: list[tuple[int, Row]] = []
    number = 0
    while len(rows) < 1000:
        last, street = lasts.word(random), f"{random.integers(1, 200)} {streets.word(random)} street"
        phone = f"{random.integers(10**7, 10**8)}"
        for _ in range(1 + int(random.choice(3, p=[0.5, 0.35, 0.15])) * int(random.random() < hard)):
            first, born = firsts.word(random), np.datetime64("1950-01-01") + int(random.integers(20_000))
            for _ in range(int(random.choice([1, 2, 3], p=[0.5, 0.35, 0.15]))):
                shown = first[0] if random.random() < 0.15 else first
                row = {
                    "name": f"{typo(shown, random, 0.15)} {typo(last, random, 0.1)}",
                    "street": "" if random.random() < 0.1 else typo(street, random, 0.15),
                    "phone": "" if random.random() < 0.3 else typo(phone, random, 0.05),
                    "born": "" if random.random() < 0.25 else str(born),
                }
                rows.append((number, row))
            number += 1
    return _problem("families", rows, random)


def citations(seed: int, hard: float = 1.0) -> EntityProblem:
    """Papers cited once or fifty times, each citation in a manner of its own; papers of one group are alike."""
    random = np.random.default_rng(seed)
    subjects, names, places = DrawnWords(500, random), DrawnWords(250, random), DrawnWords(60, random)
    rows: list[tuple[int, Row]] = []
    words: list[str] = []
    for number, size in enumerate(_sizes(1000, random, 60, 1.25)):
        if number and random.random() < 0.35 * hard:  # the next paper of the same people, with much of its title
            words = [*words[: len(words) // 2 + 1], *subjects.some(random, 2)]
        else:
            people = [(subjects.word(random), names.word(random)) for _ in range(int(random.integers(1, 5)))]
            words = subjects.some(random, int(random.integers(4, 9)))
        venue, year, page = places.some(random, 3), int(random.integers(1985, 2000)), int(random.integers(1, 900))
        for _ in range(size):
            style = int(random.integers(3))
            authors = [
                (f"{last}, {first[0]}.", f"{first[0]}. {last}", f"{first} {last}")[style] for first, last in people
            ]
            if len(people) > 2 and random.random() < 0.2:
                authors = [authors[0], "et al"]
            title = [word for word in words if random.random() > 0.04 * hard]
            long = f"proceedings of the {random.integers(1, 20)}th conference on {' '.join(venue)}"
            short = f"proc {''.join(word[0] for word in venue)} {year if random.random() < 0.3 else ''}"
            row = {
                "author": typo(", ".join(authors), random, 0.15),
                "title": "" if random.random() < 0.03 else typo(" ".join(title), random, 0.25),
                "venue": "" if random.random() < 0.25 else (long, short, " ".join(venue))[int(random.integers(3))],
                "year": "" if random.random() < 0.3 else str(year + int(random.random() < 0.08)),
                "pages": "" if random.random() < 0.45 else f"{page}-{page + 12}",
            }
            rows.append((number, row))
    return _problem("citations", rows, random)


def applicants(seed: int, hard: float = 1.0) -> EntityProblem:
    """Names of firms and people on patents, with sets of partners and classes; a few firms have very many records."""
    random = np.random.default_rng(seed)
    subjects, names, forms = (
        DrawnWords(600, random),
        DrawnWords(300, random),
        ("ltd", "limited", "inc", "gmbh", "corp", "co", ""),
    )
    classes = [f"{letter}{number:02d}{other}" for letter in "ABCGH" for number in range(1, 30) for other in "BFKN"]
    rows: list[tuple[int, Row]] = []
    sizes = [*_sizes(700, random, 20, 1.4), 160, 90, 50]
    for number, size in enumerate(sizes):
        firm = random.random() < 0.6 or size > 30
        words = subjects.some(random, int(random.integers(1, 4))) if firm else []
        person = (subjects.word(random), names.word(random))
        own = random.choice(classes, int(random.integers(2, 6)), replace=False).tolist()
        partners = [f"{names.word(random)} {subjects.word(random)}" for _ in range(int(random.integers(2, 12)))]
        where = (random.uniform(40, 55), random.uniform(-5, 20))
        for _ in range(size):
            if firm:
                form = str(random.choice(forms))
                parts = [*words, *(["research"] if random.random() < 0.15 else []), form]
                name = " ".join(part[:3] if random.random() < 0.04 * hard else part for part in parts if part)
            else:
                name = f"{person[1]}, {person[0] if random.random() > 0.3 * hard else person[0][0]}"
            mates = random.choice(partners, min(len(partners), int(random.integers(0, 4))), replace=False).tolist()
            kept = random.choice(own, min(len(own), int(random.integers(1, 4))), replace=False).tolist()
            at = tuple(value + random.normal(0, 0.02) for value in where)
            row = {
                "name": typo(name.upper(), random, 0.15),
                "coauthors": "**".join(mates),
                "classes": "**".join(kept),
                "point": f"{at[0]:.5f},{at[1]:.5f}" if random.random() < 0.3 else "",
            }
            rows.append((number, row))
    return _problem("applicants", rows, random)


def _spellings(words: Sequence[str], city: str, count: int, random: Random) -> list[str]:
    """Ways to write the name of a firm, the usual one first: words swapped, dropped, cut, joined, a form or a city."""
    found = [" ".join(words)]
    for _ in range(20 * count):
        if len(found) >= count:
            break
        shown = list(words)
        if random.random() < 0.3:
            shown = random.permutation(shown).tolist()
        if len(shown) > 1 and random.random() < 0.35:
            shown.pop(int(random.integers(1, len(shown))))
        if random.random() < 0.25:
            place = int(random.integers(len(shown)))
            shown[place] = shown[place][: int(random.integers(3, 6))]
        shown += [str(random.choice(["v", "nv", "nl", city]))] if random.random() < 0.5 else []
        name = typo(("" if random.random() < 0.08 else " ").join(shown), random, 0.35)
        if name not in found:
            found.append(name)
    return found


def conglomerates(seed: int, hard: float = 1.0) -> EntityProblem:
    """Applicants of patents of whom a handful have most of the records, and one a third of all: written in a few usual
    ways and very many rare ones, with long lists of inventors and classes, of which two records seldom share much."""
    random = np.random.default_rng(seed)
    subjects, names, cities = DrawnWords(400, random), DrawnWords(1500, random), DrawnWords(20, random)
    trades = DrawnWords(30, random)
    classes = [f"{letter}{number:02d}{other}" for letter in "ABCFGH" for number in range(1, 40) for other in "BFK"]
    sizes = [*_sizes(1000, random, 120, 1.1), round(100 + 550 * hard)]
    rows: list[tuple[int, Row]] = []
    for number, size in enumerate(sizes):
        words = [*subjects.some(random, int(random.integers(1, 3))), *trades.some(random, int(random.integers(3)))]
        shown = _spellings(words, cities.word(random), 1 + round(0.12 * hard * size), random)
        usual = 4 if size > 200 else 2 if random.random() < 0.3 else 1  # spellings that share 85 % of the records
        share = np.full(len(shown), 0.15 / max(len(shown) - usual, 1))
        share[:usual] = 0.85 * 0.5 ** np.arange(min(usual, len(shown)))
        where = f"{random.uniform(50, 54):.5f},{random.uniform(3, 8):.5f}"
        own = random.choice(classes, int(random.integers(15, 20 + size // 2)) if size < 300 else 200, replace=False)
        crews = [names.some(random, int(random.integers(10, 40))) for _ in range(1 + size // 8)]
        for _ in range(size):
            crew, many = crews[int(random.integers(len(crews)))], int(random.integers(1, 15))
            mates = [*random.choice(crew, min(many, len(crew)), replace=False), *names.some(random, many // 2)]
            inventors = [f"{mate} {subjects.words[len(mate) * 7 % 400]}" for mate in mates]
            kept = random.choice(own, min(len(own), int(random.integers(1, 12))), replace=False).tolist()
            at = "" if random.random() < 0.35 else where
            row = {
                "name": str(random.choice(shown, p=share / share.sum())).upper(),
                "coauthors": "**".join(random.permutation(inventors).tolist()),
                "classes": "**".join([*kept, *random.choice(classes, 1 + many // 6).tolist()]),
                "point": f"{random.uniform(50, 54):.5f},{random.uniform(3, 8):.5f}" if random.random() < 0.15 else at,
            }
            rows.append((number, row))
    return _problem("conglomerates", rows, random)


def sites(seed: int, hard: float = 1.0) -> EntityProblem:
    """Places of agencies: sites of one agency share its name and phone, sites of several agencies an address."""
    random = np.random.default_rng(seed)
    names, streets = DrawnWords(250, random), DrawnWords(150, random)
    kinds = ("day care center", "child development", "head start", "school", "learning academy")
    rows: list[tuple[int, Row]] = []
    addresses: list[tuple[str, str]] = []
    number = 0
    while len(rows) < 1200:
        agency, phone = names.some(random, 2), f"{random.integers(2 * 10**6, 10**7)}"
        for _ in range(int(random.choice([1, 2, 4, 8], p=[0.6, 0.2, 0.12, 0.08])) if random.random() < hard else 1):
            own = f"{' '.join(agency)} {names.word(random) if random.random() < 0.7 else ''}".strip()
            kind = str(random.choice(kinds))
            if addresses and random.random() < 0.15 * hard:
                street, code = addresses[int(random.integers(len(addresses)))]
            else:
                road = f"{random.choice(list('nsew'))} {streets.word(random)}"
                street, code = f"{random.integers(100, 9000)} {road}", f"606{random.integers(10, 60)}"
            addresses.append((street, code))
            mine = phone if random.random() < 0.3 else f"{random.integers(2 * 10**6, 10**7)}"
            for _ in range(int(random.choice([1, 2, 3, 5], p=[0.45, 0.3, 0.15, 0.1]))):
                shown = [*own.split(), *(kind.split() if random.random() < 0.6 else [])]
                if random.random() < 0.25:
                    shown = shown[:1] + shown[2:]
                ending = str(random.choice(["st", "street", ""]))
                row = {
                    "site": typo(" ".join(shown), random, 0.1),
                    "address": typo(f"{street} {ending}".strip(), random, 0.08),
                    "zip": "" if random.random() < 0.35 else code,
                    "phone": "" if random.random() < 0.3 else phone if random.random() < 0.1 else mine,
                }
                rows.append((number, row))
            number += 1
    return _problem("sites", rows, random)


def products(seed: int, hard: float = 1.0) -> EntityProblem:
    """Two shops, links between them: models of a brand differ by a letter, shops describe them in their own words."""
    random = np.random.default_rng(seed)
    brands, common = DrawnWords(40, random), DrawnWords(150, random)
    rows: list[tuple[int, Row, int]] = []
    number = 0
    while number < 800:
        brand, kind, stem = brands.word(random), common.some(random, 3), f"{random.choice(list('ABDKSW'))}"
        code, price = int(random.integers(100, 9999)), float(np.exp(random.normal(5, 1)))
        for variant in range(1 + int(random.choice(3, p=[0.6, 0.25, 0.15])) * int(random.random() < hard)):
            model = f"{stem}{code}{_LETTERS[variant * 7]}"
            extra = common.word(random)
            shops = (0, 1) if random.random() < 0.75 else (int(random.integers(2)),)
            for shop in shops:
                shown = model.upper() if random.random() < 0.8 else f"{model[0]}-{model[1:]}".upper()
                title = [brand, *kind[: int(random.integers(1, 4))], extra if random.random() < 0.6 else ""]
                title.append(shown if random.random() < (0.95 if shop == 0 else 0.75) else "")
                order = title if shop == 0 else random.permutation(title).tolist()
                told = [*kind, extra, *common.some(random, 6)]
                row = {
                    "title": " ".join(part for part in order if part),
                    "description": " ".join(random.permutation(told)) if random.random() < (0.95, 0.5)[shop] else "",
                    "price": f"${price * random.uniform(0.85, 1.15):.2f}" if random.random() < 0.5 else "",
                }
                rows.append((number, row, shop))
            number += 1
    order = random.permutation(len(rows))
    truth = np.unique([rows[place][0] for place in order], return_inverse=True)[1]
    side = np.array([rows[place][2] for place in order])
    return EntityProblem("products", Records.of([rows[place][1] for place in order]), truth, side)


GENERATED: dict[str, Callable[..., EntityProblem]] = {
    made.__name__: made for made in (people, families, citations, applicants, conglomerates, sites, products)
}
