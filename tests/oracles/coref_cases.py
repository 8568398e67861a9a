"""Made-up documents with entities."""

from __future__ import annotations

from loopwise.apps.coref import made_documents

DOCUMENTS = made_documents(14, seed=5, mentions=24)


TRAIN, TEST = DOCUMENTS[:9], DOCUMENTS[9:]
