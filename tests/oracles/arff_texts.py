"""Small ARFF files."""

from __future__ import annotations

import gzip
from pathlib import Path

HEADER = """% a comment
@RELATION 'two words: -C 2'

@attribute 'width in cm' numeric
@ATTRIBUTE\tkind {red, 'dark blue', "it\\"s"}
@attribute flag {0,1}
@attribute on {0,1}
@attribute off {1,0}
@DATA
"""


DENSE = HEADER + "1.5,red,0,1,1\n% between\n\n-2e3 , 'dark blue' ,1, 0, 0\n?,?,1,1,0\n"


SPARSE = HEADER + "{0 1.5, 3 1}\n{0 -2e3,1 'dark blue',2 1,4 0}\n{ 0 ?, 1 ?, 2 1, 3 1, 4 0 }\n{}\n"


def write(folder: Path, text: str, name: str = "data.arff") -> Path:
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path
