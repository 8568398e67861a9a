"""What the rows and columns of Table 1 of Domke 2010 are called.

In: nothing. Out: names, which are also those of ``published.toml``.
"""

from __future__ import annotations

TRUNCATED = 5  # sweeps of the row that is not in the paper

SURROGATE, CLIQUE, UNIVARIATE = "Surrogate likelihood", "Clique likelihood", "Univariate likelihood"
ERROR, CLIQUE_ERROR = "Smooth class. error", "Smooth clique error"
UNROLLED = "Univariate likelihood, unrolled"
FEW_SWEEPS = f"Univariate likelihood, {TRUNCATED} sweeps"
CLASSIFICATION = "Class. error"
MEASURES = (SURROGATE, CLIQUE, UNIVARIATE, CLASSIFICATION)  # columns
PUBLISHED_ROWS = (SURROGATE, CLIQUE, UNIVARIATE, ERROR)
