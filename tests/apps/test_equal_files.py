"""Equal runs give equal files, byte for byte: no times, no places in memory, no order of sets in what is saved."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from loopwise.apps.saved import written

TRAIN = """
import sys
import warnings
from pathlib import Path
import numpy as np
from loopwise.apps import ChainCRF, Coref, Decoder, GridCRF, MRFClassifier, MultiLabel, Tagger
from loopwise.apps.coref import made_documents

sys.path.append(sys.argv[2])
from oracles import few_kernels

few_kernels.in_this_process()
warnings.simplefilter("ignore")
rng, out = np.random.default_rng(0), Path(sys.argv[1])
x = rng.normal(size=(40, 3))
y = (x @ rng.normal(size=(3, 3)) > 0).astype(int)
words = [["Ann", "saw", "Bonn"], ["Bonn", "is", "old"]] * 5
tags = [["B-PER", "O", "B-LOC"], ["B-LOC", "O", "O"]] * 5
Tagger("w[0] lower[-1] bias").fit(words, tags).save(out / "tagger")
MultiLabel().fit(x, y).save(out / "multilabel")
MRFClassifier().fit(x, y[:, 0]).save(out / "mrf")
ChainCRF().fit([x[:20], x[20:]], [y[:20, 0], y[20:, 0]]).save(out / "chain")
Coref(rounds=1, steps=50).fit(made_documents(3, seed=0)).save(out / "coref")
checks = [[1, 1, 0, 1], [0, 1, 1, 1]]
decoder = Decoder(checks, 0.1, sweeps=3)
from loopwise.apps.decoder import Flips
decoder.fit(Flips(decoder.code), steps=3, dev=50).save(out / "decoder")
images = rng.random((2, 5, 5))
GridCRF(states=2, iterations=2).fit(images, (images > 0.5).astype(int)).save(out / "grid")
"""


def test_every_app_saves_the_same_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another seed of Python's hashes orders sets otherwise. The parser is tested among its own tests."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    given = [str(Path(__file__).parents[1])]
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    command = [sys.executable, "-c", TRAIN, str(there), *given]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    monkeypatch.setattr(sys, "argv", ["", str(here), *given])
    monkeypatch.setattr(sys, "path", [*sys.path])
    with warnings.catch_warnings():
        exec(compile(TRAIN, "TRAIN", "exec"), {})
    found = [{path.name: path.read_bytes() for path in sorted(folder.iterdir())} for folder in (here, there)]
    assert list(found[0]) == ["chain", "coref", "decoder", "grid", "mrf", "multilabel", "tagger"]
    assert [name for name in found[0] if found[0][name] != found[1][name]] == []


@pytest.mark.parametrize("thing", [lambda: None, object(), [np.sum, object()]])
def test_no_place_in_memory_is_written(thing: object) -> None:
    assert "0x" in repr(thing) or "function" in repr(thing)
    assert "0x" not in written(thing)
