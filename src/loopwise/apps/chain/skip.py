"""Which tokens of a text are linked: those of which something is equal, such as capitalised words.

In: :class:`Skip`, what must be equal; a text, or sequences of feature vectors. Out:
:class:`~loopwise.learn.chain.linked.Links`. Stage: use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopwise.apps.chain.features.documents import Documents
from loopwise.apps.chain.features.extraction import extract
from loopwise.apps.chain.features.sequences import Sequences, holds_items
from loopwise.apps.chain.features.templates import FeatureTemplate
from loopwise.apps.chain.features.text import Column, Text
from loopwise.apps.inputs import is_sparse
from loopwise.formats.errors import listed, quoted, shortened
from loopwise.inference.base import Inference
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.schedules import Sequential
from loopwise.learn.chain.linked import Links
from loopwise.potentials.linear import Floats, Integers

CAPITALS = "w[0]|has_upper[0]"  # equal words that have a capital letter
INFERENCE = BP(iterations=50, tolerance=1e-4, schedule=Sequential())


@dataclass(frozen=True)
class Skip:
    r"""Links between tokens far apart, with a table of weights :math:`\theta_{y_sy_t}` for each kind of link.

    Tokens of one document (of one sentence, where documents are not known) are linked if something is equal. Files say
    where documents begin (``# newdoc``, ``-DOCSTART-``), lists as :class:`Documents`. Links make loops, so answers and
    likelihoods are approximate, unless ``inference`` is exact.

    Parameters
    ----------
    equal:
        For :class:`Tagger`, templates: tokens are linked that see the same, each template a kind of link. The default
        are equal words that have a capital letter. For :class:`ChainCRF`, which of the features: keys of dicts, numbers
        (from 0) of columns; missing values and zeros are equal to nothing.
    neighbours:
        How many of the equal tokens that follow a token is linked to; None: all.
    inference:
        A method of the library: ``lw.Exact()`` where there are few links, another budget of ``lw.BP``. None: BP,
        sequential, to a tolerance of 1e-4 in at most 50 sweeps.

    >>> from loopwise.apps import Tagger
    >>> words = [["Mr", "Rose", "met", "Rose"], ["a", "rose", "in", "May"]]
    >>> tagger = Tagger(skip=Skip()).fit(words, [["O", "PER", "O", "PER"], ["O", "O", "O", "O"]], progress=False)
    >>> marginals, status = tagger.predict_marginals(words[:1], status=True)
    >>> status.exact, status.converged
    (False, True)
    """

    equal: Any = CAPITALS
    neighbours: int | None = 1
    inference: Inference | None = None

    def __post_init__(self) -> None:
        if self.neighbours is not None and (type(self.neighbours) is not int or self.neighbours < 1):
            raise ValueError(f"neighbours must be a whole number from 1 on, or None for all, not {self.neighbours!r}")
        if self.inference is not None and not isinstance(self.inference, Inference):
            raise ValueError(
                f"the inference of a Skip must be a method such as lw.BP(), not {shortened(repr(self.inference))}"
            )

    @staticmethod
    def of(wish: Any) -> Skip | None:
        """What users say: None, a :class:`Skip`, or what must be equal."""
        return wish if wish is None or isinstance(wish, Skip) else Skip(wish)

    @property
    def method(self) -> Inference:
        """The inference method."""
        return INFERENCE if self.inference is None else self.inference

    @property
    def templates(self) -> str:
        """``equal``, where it is templates."""
        if not isinstance(self.equal, str) or not self.equal.strip():
            raise ValueError(
                f"the links of a Tagger are given by templates, such as {CAPITALS!r}, not {shortened(repr(self.equal))}"
            )
        return self.equal

    @property
    def columns(self) -> tuple[str | int, ...]:
        """``equal``, where it is features: keys or numbers."""
        listed_ones = self.equal if isinstance(self.equal, list | tuple) else (self.equal,)
        wrong = next((one for one in listed_ones if isinstance(one, bool) or not isinstance(one, str | int)), None)
        if wrong is not None or not listed_ones:
            raise ValueError(
                "the links of a ChainCRF are given by features, keys of dicts or numbers of columns, not "
                f"{shortened(repr(self.equal))}"
            )
        return tuple(listed_ones)


def text_links(skip: Skip, templates: Sequence[FeatureTemplate], text: Text) -> Links:
    """The links of a text; ``templates`` are those of ``skip``."""
    values = []
    for template in templates:
        rows = extract([template], text)
        row = rows.token_row[:, 0]
        found = np.diff(rows.start)[row] > 0
        value = np.full(text.tokens, -1, dtype=np.int64)
        value[found] = np.unique(rows.key[rows.start[row[found]]], return_inverse=True)[1]
        values.append(value)
    return links_of(values, text.start, text.document, skip.neighbours)


def sequence_links(skip: Skip, given: Any, sequences: Sequences) -> Links:
    """The links of sequences of feature vectors, or of dicts, as users gave them."""
    if sequences.flat:
        raise ValueError("the rows of one array are sequences of one element each: give sequences, or leave skip out")
    document = given.document if isinstance(given, Documents) else None
    raw = list(given) if isinstance(given, Documents) else given
    if holds_items(raw):
        tokens = [token for sequence in raw for token in sequence]
        values = [_of_dicts(tokens, column) for column in skip.columns]
    else:
        values = [_of_column(sequences.inputs, column) for column in skip.columns]
    return links_of(values, sequences.start, document, skip.neighbours)


def links_of(values: Sequence[Integers], start: Integers, document: Integers | None, neighbours: int | None) -> Links:
    """Links between tokens of equal value ``[tokens]``, -1: none; an array of values for each kind.

    ``document`` ``[sentences]``: within these; None: within sentences. O(tokens log tokens + links).
    """
    own = np.arange(len(start) - 1) if document is None else document
    of_token = np.repeat(own, np.diff(start))
    found = [_pairs(value, of_token, neighbours) for value in values]
    kind = np.repeat(np.arange(len(values)), [len(pairs) for pairs in found])
    return Links(np.concatenate(found), kind, len(values), own)


def _pairs(value: Integers, document: Integers, neighbours: int | None) -> Integers:
    token = np.flatnonzero(value >= 0)
    order = token[np.lexsort((token, value[token], document[token]))]
    pairs = [np.zeros((0, 2), dtype=np.int64)]
    distance = 1
    while neighbours is None or distance <= neighbours:
        one, two = order[:-distance], order[distance:]
        equal = (value[one] == value[two]) & (document[one] == document[two])
        if not equal.any():
            break
        pairs.append(np.stack([one[equal], two[equal]], axis=1))
        distance += 1
    joined = np.concatenate(pairs)
    return joined[np.lexsort((joined[:, 1], joined[:, 0]))]


def _of_dicts(tokens: Sequence[Any], key: str | int) -> Integers:
    if not all(isinstance(token, Mapping) for token in tokens):
        raise ValueError("skip looks at keys of dicts; give every element as a dict, or leave skip out")
    if not any(key in token for token in tokens):
        raise ValueError(f"skip looks at {quoted(str(key))}, which no element has; its keys are {listed(tokens[0])}")
    return Column.of([token.get(key) for token in tokens]).number.astype(np.int64)


def _of_column(inputs: Any, column: str | int) -> Integers:
    if isinstance(column, str) or not 0 <= column < inputs.shape[1]:
        raise ValueError(
            f"skip looks at column {column!r}; elements have {inputs.shape[1]} features, numbered from 0: give a number"
        )
    dense: Floats = inputs[:, [column]].toarray()[:, 0] if is_sparse(inputs) else inputs[:, column]
    there = ~np.isnan(dense) & (dense != 0)
    value = np.full(len(dense), -1, dtype=np.int64)
    value[there] = np.unique(dense[there], return_inverse=True)[1]
    return value


def check_skip(skip: Skip | None, refused: Mapping[str, bool]) -> None:
    """Refuses what cannot be done with links: by name, whether each is wanted."""
    wanted = next((name for name, wish in refused.items() if wish), None)
    if skip is not None and wanted is not None:
        raise ValueError(
            f"{wanted} does not go with skip: links are trained by Likelihood() or ERM(), all sentences at once and "
            "alike; leave one of the two out"
        )
