"""What Gormley, Dredze & Eisner 2015 print: Tables 1 and 2. Their figures carry no numbers.

UAS in percent, punctuation left out. Table 1 is on the Penn Treebank with Yamada and Matsumoto's heads, Table 2 on the
data of CoNLL 2006 and 2007: other sentences and other trees than those of Universal Dependencies.
"""

from __future__ import annotations

# (objective, exact): development and test data.
TABLE1 = {
    ("CLL", False): (91.37, 91.25),
    ("CLL", True): (91.99, 91.62),
    ("L2", False): (91.83, 91.63),
    ("L2", True): (91.91, 91.66),
}

# CLL, and L2 less CLL: first order, then second order with 1, 2, 4 and 8 iterations.
TABLE2 = {
    "Arabic": ((77.63, -0.26), (73.39, 2.21), (77.05, -0.17), (77.20, 0.02), (77.16, -0.07)),
    "Bulgarian": ((90.38, -0.76), (89.18, -0.45), (90.44, 0.04), (90.73, 0.25), (90.63, -0.19)),
    "Catalan": ((90.47, 0.30), (88.90, 0.17), (90.79, 0.38), (91.21, 0.78), (91.49, 0.66)),
    "Czech": ((84.69, -0.07), (79.92, 3.78), (82.08, 2.27), (83.02, 2.94), (81.60, 4.42)),
    "Danish": ((87.15, -0.12), (86.31, -1.07), (87.41, 0.03), (87.65, -0.11), (87.68, -0.10)),
    "German": ((88.55, 0.81), (88.06, 0.00), (89.27, 0.46), (89.85, -0.05), (89.87, -0.07)),
    "Greek": ((82.43, -0.54), (80.02, 0.29), (81.97, 0.09), (82.49, -0.16), (82.66, -0.04)),
    "English": ((88.31, 0.32), (85.53, 1.44), (87.67, 1.82), (88.63, 1.14), (88.85, 0.96)),
    "Spanish": ((81.49, -0.09), (79.08, -0.37), (80.73, 0.14), (81.75, -0.66), (81.52, 0.02)),
    "Basque": ((73.69, 0.11), (71.45, 0.85), (74.16, 0.24), (74.92, -0.32), (74.94, -0.38)),
    "Hungarian": ((78.79, -0.52), (76.46, 1.24), (79.10, 0.03), (79.07, 0.60), (79.28, 0.31)),
    "Italian": ((84.75, 0.32), (84.14, 0.04), (85.15, 0.01), (85.66, -0.51), (85.81, -0.59)),
    "Japanese": ((93.54, 0.19), (93.01, 0.44), (93.71, -0.10), (93.75, -0.26), (93.47, 0.07)),
    "Dutch": ((76.96, 0.53), (74.23, 2.08), (77.12, 0.53), (78.03, -0.27), (77.83, -0.09)),
    "Portuguese": ((86.31, 0.38), (85.68, -0.01), (87.01, 0.29), (87.34, 0.08), (87.30, 0.17)),
    "Slovenian": ((79.89, 0.30), (78.42, 1.50), (79.56, 1.02), (80.91, 0.03), (80.80, 0.34)),
    "Swedish": ((87.22, 0.60), (86.14, -0.02), (87.68, 0.74), (88.01, 0.41), (87.87, 0.37)),
    "Turkish": ((78.53, -0.30), (77.43, -0.64), (78.51, -1.04), (78.80, -1.06), (78.91, -1.13)),
    "Chinese": ((84.93, -0.39), (82.62, 1.43), (84.27, 0.95), (84.79, 0.68), (84.77, 1.14)),
}
AVERAGE = ((83.98, 0.04), (82.10, 0.68), (83.88, 0.41), (84.41, 0.19), (84.34, 0.31))
COLUMNS = ("1st order", "1 iteration", "2 iterations", "4 iterations", "8 iterations")


def language_of(treebank: str) -> str:
    """The language a treebank is named after.

    >>> language_of("English-EWT")
    'English'
    """
    return treebank.partition("-")[0]


def printed(language: str, column: int) -> tuple[float, float] | None:
    """CLL, and L2 less CLL, of one language in one of :data:`COLUMNS`."""
    return TABLE2[language][column] if language in TABLE2 else None
