"""Table 1 of Domke 2010 as printed, and what its rows and columns are called here.

In: nothing. Out: names and :data:`PUBLISHED`.
"""

from __future__ import annotations

from loopwise.reproduce.domke_table1_data import BERKELEY, BIMODAL_NAME, GAUSSIAN_NAME

TRUNCATED = 5  # sweeps of the row that is not in the paper

SURROGATE, CLIQUE, UNIVARIATE = "Surrogate likelihood", "Clique likelihood", "Univariate likelihood"
ERROR, CLIQUE_ERROR = "Smooth class. error", "Smooth clique error"
UNROLLED = "Univariate likelihood, unrolled"
FEW_SWEEPS = f"Univariate likelihood, {TRUNCATED} sweeps"
CLASSIFICATION = "Class. error"
MEASURES = (SURROGATE, CLIQUE, UNIVARIATE, CLASSIFICATION)  # columns
PUBLISHED_ROWS = (SURROGATE, CLIQUE, UNIVARIATE, ERROR)

# Table 1 as printed: (train, test) of each column; of the small studies only the error.
PUBLISHED: dict[str, dict[str, dict[str, tuple[float | None, float]]]] = {
    BERKELEY: {
        SURROGATE: {SURROGATE: (0.251, 0.252), CLIQUE: (1.328, 1.330), UNIVARIATE: (0.417, 0.416),
                    CLASSIFICATION: (0.141, 0.140)},
        CLIQUE: {SURROGATE: (0.275, 0.277), CLIQUE: (1.176, 1.178), UNIVARIATE: (0.316, 0.315),
                 CLASSIFICATION: (0.127, 0.126)},
        UNIVARIATE: {SURROGATE: (0.301, 0.303), CLIQUE: (1.207, 1.210), UNIVARIATE: (0.305, 0.305),
                     CLASSIFICATION: (0.128, 0.127)},
        ERROR: {SURROGATE: (0.281, 0.283), CLIQUE: (1.179, 1.181), UNIVARIATE: (0.311, 0.310),
                CLASSIFICATION: (0.127, 0.126)},
    },
    BIMODAL_NAME: {
        SURROGATE: {CLASSIFICATION: (0.0498, 0.0540)},
        CLIQUE: {CLASSIFICATION: (0.0488, 0.0535)},
        UNIVARIATE: {CLASSIFICATION: (0.0493, 0.0541)},
        ERROR: {CLASSIFICATION: (0.0460, 0.0527)},
        "Best published earlier": {CLASSIFICATION: (None, 0.0548)},
    },
    GAUSSIAN_NAME: {
        SURROGATE: {CLASSIFICATION: (0.0286, 0.0239)},
        CLIQUE: {CLASSIFICATION: (0.0278, 0.0236)},
        UNIVARIATE: {CLASSIFICATION: (0.0278, 0.0235)},
        ERROR: {CLASSIFICATION: (0.0273, 0.0241)},
        "Best published earlier": {CLASSIFICATION: (None, 0.0251)},
    },
}  # fmt: skip
