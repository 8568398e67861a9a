"""Training of taggers with links: learners, checkpoints, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps import Tagger
from loopwise.apps.chain import ChainERM, ChainLikelihood, ChainPerceptron, ChainSampleRank, ChainSVM, EntityF1
from loopwise.formats.columns import read_tagged
from oracles.skip_cases import DOCUMENTS, SKIP, TAGS, TEMPLATES, WORDS, fitted


@pytest.mark.parametrize(
    "learner", [ChainLikelihood(l2=0.1), ChainERM(EntityF1(), l2=0.1), ChainERM(l2=0.1, inference=lw.BP(iterations=3))]
)
def test_learners_that_know_links(learner: Any) -> None:
    tags = [[tag if tag == "O" else f"B-{tag}" for tag in row] for row in TAGS]
    tagger = Tagger(TEMPLATES, skip=SKIP, learner=learner).fit(DOCUMENTS, tags, dev=(DOCUMENTS, tags), progress=False)
    assert tagger.score(DOCUMENTS, tags) == 1.0
    assert np.abs(tagger.weights_.pair[-1]).max() > 1e-3


def test_training_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop(event: Any) -> None:
        if event.number == 3:
            raise StopError

    whole = fitted(SKIP)
    tagger = Tagger(TEMPLATES, skip=SKIP, learner=ChainLikelihood(l2=0.1))
    with pytest.raises(StopError):
        tagger.fit(DOCUMENTS, TAGS, progress=False, checkpoint=tmp_path / "c", callback=stop)
    tagger.fit(DOCUMENTS, TAGS, progress=False, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(tagger.weights_.vector, whole.weights_.vector)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"learner": ChainPerceptron()}, "Perceptron does not go with skip"),
        ({"learner": ChainSVM()}, "SVM"),
        ({"learner": ChainSampleRank()}, "SampleRank"),
        ({"learner": ChainLikelihood(seen_only=True)}, "seen_only"),
        ({"order": 2}, "order=2"),
    ],
)
def test_what_does_not_go_with_links_is_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Tagger(skip=SKIP, **options).fit(WORDS, TAGS, progress=False)


def test_files_say_where_documents_begin(tmp_path: Path) -> None:
    lines = "Ann B-PER\nran O\n\nAnn B-PER\nsat O\n\n"
    (tmp_path / "a.conll").write_text(f"-DOCSTART- O\n\n{lines}-DOCSTART- O\n\n{lines}")
    text = read_tagged(tmp_path / "a.conll")
    assert text.document is not None and text.document.tolist() == [1, 1, 2, 2]
    tagger = Tagger("w[0] bias", skip=SKIP).fit(text, progress=False)
    assert tagger.prepared(text)[1].links.place.tolist() == [[0, 2], [4, 6]]
    (tmp_path / "b.conll").write_text(lines)
    assert read_tagged(tmp_path / "b.conll").document is None
    row = "1\tAnn\tann\tPROPN\t_\t_\t0\troot\t_\t_\n\n"
    (tmp_path / "c.conllu").write_text(f"# newdoc id = x\n# sent_id = 1\n{row}{row}# newdoc\n{row}")
    assert read_tagged(tmp_path / "c.conllu").document.tolist() == [1, 1, 2]
