"""Made records: people with typing mistakes, missing cells and moved houses, at any size.

In: how many, a seed. Out: records and the true entity of each. Stage: use (tests, demonstrations, benchmarks).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.dedupe.records import Records

_SYLLABLES = ("an", "ber", "cor", "da", "el", "fin", "gra", "hol", "is", "jo", "ka", "lin", "mar", "no", "ol", "pe")
_MORE = ("qua", "ri", "sa", "tor", "ul", "vin", "wes", "xa", "yo", "zen", "bri", "cla", "dro", "fle", "glo", "hu")
_STREETS = ("street", "road", "avenue", "lane", "court")
_LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def made_records(count: int, *, seed: int = 0, noise: float = 0.1) -> tuple[Records, NDArray[np.int64]]:
    """About ``count`` records of people, 1 to 4 of each, and who each is.

    Each copy has in each cell with probability ``noise`` a mistake (a letter changed, dropped or doubled, two swapped),
    and half as often nothing.

    >>> records, ids = made_records(100)
    >>> len(records) == len(ids) >= 100, records.names
    (True, ('name', 'street', 'city', 'born', 'phone'))
    """
    if count < 1 or not 0 <= noise <= 1:
        raise ValueError(f"count must be at least 1 and noise a share, not {count} and {noise}")
    random = np.random.default_rng(seed)
    copies = random.choice([1, 2, 3, 4], size=count, p=[0.5, 0.3, 0.15, 0.05])
    people = int(np.searchsorted(np.cumsum(copies), count)) + 1
    ids = np.repeat(np.arange(people), copies[:people])
    columns = _people(people, random)
    texts = [[_copied(column[person], random, noise) for person in ids] for column in columns]
    order = random.permutation(len(ids))
    names = ("name", "street", "city", "born", "phone")
    return Records(names, tuple(tuple(column[row] for row in order) for column in texts), "made"), ids[order]


def _people(count: int, random: np.random.Generator) -> list[list[str]]:
    known = (*_SYLLABLES, *_MORE)
    firsts, lasts = random.integers(0, len(known), (count, 2)), random.integers(0, len(known), (count, 3))
    names = [
        "".join(known[k] for k in a) + " " + "".join(known[k] for k in b) for a, b in zip(firsts, lasts, strict=True)
    ]
    roads = random.integers(0, len(known), (count, 3))
    numbers, kinds = random.integers(1, 300, count), random.integers(0, len(_STREETS), count)
    streets = [
        f"{number} {''.join(known[k] for k in road)} {_STREETS[kind]}"
        for number, road, kind in zip(numbers, roads, kinds, strict=True)
    ]
    cities = ["".join(known[k] for k in pair) + "ton" for pair in random.integers(0, len(known), (200, 2))]
    places = [cities[k] for k in random.integers(0, len(cities), count)]
    days = random.integers(0, 28_000, count)
    born = (np.datetime64("1930-01-01") + days.astype("timedelta64[D]")).astype(str).tolist()
    phones = [f"{number:08d}" for number in random.integers(10_000_000, 99_999_999, count)]
    return [names, streets, places, born, phones]


def _copied(text: str, random: np.random.Generator, noise: float) -> str:
    draw = random.random()
    if draw < noise / 2:
        return ""
    if draw > 1.5 * noise or len(text) < 2:
        return text
    place, how = int(random.integers(len(text) - 1)), int(random.integers(4))
    if how == 0:
        return text[:place] + str(random.choice(_LETTERS)) + text[place + 1 :]
    if how == 1:
        return text[:place] + text[place + 1 :]
    if how == 2:
        return text[:place] + text[place] + text[place:]
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
