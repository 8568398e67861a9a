"""Records with duplicates, made up, and labels of pairs."""

from __future__ import annotations

from loopwise.apps.dedupe import made_records

RECORDS, IDS = made_records(150, seed=0, noise=0.25)


TEST, TEST_IDS = made_records(150, seed=1, noise=0.25)
