"""Sentences by document."""

from __future__ import annotations

import pytest

from loopwise.apps.chain import Documents
from oracles.skip_cases import DOCUMENTS, TAGS, WORDS


def test_documents_are_sentences_in_a_row() -> None:
    assert list(DOCUMENTS) == WORDS and DOCUMENTS[0] == WORDS[0]
    assert DOCUMENTS.split(TAGS) == [TAGS[:2], TAGS[2:]]
    with pytest.raises(ValueError, match="4 sentences and 1 answers"):
        DOCUMENTS.split([1])
    with pytest.raises(ValueError, match="document 0 is"):
        Documents(["Ann ran"])
