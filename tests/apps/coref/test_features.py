"""Features of mentions and pairs, against words that say what must come out and against slow loops."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.coref import made_documents
from loopwise.apps.coref.features import Featuriser
from loopwise.apps.coref.mentions import describe
from loopwise.apps.coref.pair_templates import MentionPairs
from loopwise.apps.coref.set_templates import PREDICATES
from loopwise.formats.coref import CorefDocument, MentionSpan


def test_shared_rows_hold_the_features_of_every_pair() -> None:
    """Each pair's row against the codes of that pair alone, and predicates likewise."""
    (document,) = made_documents(1, seed=2, mentions=20)
    featuriser = Featuriser.of([document])
    made = featuriser(document)
    pairs = MentionPairs(
        describe(document, {name: place for place, name in enumerate(featuriser.types)}), featuriser.frequencies
    )
    assert made.pair_row is not None and made.predicates is not None and made.attributes is not None
    assert made.pairs.rows < len(made.pair_row) and made.truth.tolist() == document.entities()
    codes = [template.codes(pairs).tolist() for template in featuriser.templates]
    held = [np.asarray(predicate.compute(pairs)).astype(int).tolist() for predicate in PREDICATES]
    for pair, row in enumerate(made.pair_row.tolist()):
        wanted = [start + code[pair] for start, code in zip(featuriser.starts, codes, strict=False) if code[pair] != -1]
        assert made.pairs.index[made.pairs.start[row] : made.pairs.start[row + 1]].tolist() == wanted
        assert made.predicates[row].tolist() == [column[pair] for column in held]
    featuriser.model().checked(made)


@pytest.mark.parametrize("count", [0, 1])
def test_documents_with_hardly_any_mention(count: int) -> None:
    spans = (MentionSpan(0, 0, "1", "person"),)[:count]
    document = CorefDocument("d", ("Ann", "sang"), (0, 2), spans)
    made = Featuriser.of([document])(document)
    assert made.mentions == count and made.pair_row is not None and len(made.pair_row) == 0
