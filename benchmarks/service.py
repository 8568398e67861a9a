"""One request at a time: a sentence tagged, a sentence parsed, a row classified; tags against CRFsuite's.

    python benchmarks/service.py [--quick]

What a service asks: `Tagger.predict([words])`, `Parser.predict([sentence])`, `MRFClassifier.predict(row)`, each call a
whole one, on one thread. Tags: names in Danish text; CRFsuite is trained on the same sentences with the features that
our templates find, by name, and decodes from lists of features that are made for it beforehand, not timed; a second
figure counts making them, from words, by a plain function of Python. Before anything is timed, our Viterbi must find
CRFsuite's own tags under CRFsuite's weights, sentence by sentence. Requests are sentences of six words from the test
text, each asked once, so that words are as new as they are in life; ours and CRFsuite's take turns. Last line of
output: JSON with `tag_us`, `parse_us`, `row_us` (medians, microseconds), `tag_vs_crfsuite` (how many times CRFsuite's
time ours is), `crfsuite_us`, `crfsuite_with_features_us`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import folder_in, option_parser, print_summary
from loopwise.apps import MRFClassifier, Parser, Tagger
from loopwise.apps.chain import ChainLikelihood, Viterbi
from loopwise.apps.chain.features.attributes import PLACES, attribute, is_question
from loopwise.apps.chain.features.templates import NAMES, parse_templates
from loopwise.formats.columns import TaggedText, read_tagged
from loopwise.formats.conllu import Sentence, read_conllu
from studies.samplerank.names.data import part_of

WORDS, PENALTY = 6, 0.5


class Features:
    """What templates see of a sentence, as texts: a plain function for CRFsuite."""

    def __init__(self) -> None:
        self.templates = [(str(template), template.parts) for template in parse_templates(NAMES)]

    def __call__(self, words: Sequence[str]) -> list[list[str]]:
        return [[found for name, parts in self.templates if (found := self._value(name, parts, words, place))]
                for place in range(len(words))]  # fmt: skip

    def _value(self, name: str, parts: Sequence[Any], words: Sequence[str], place: int) -> str | None:
        values = [self._part(part, words, place) for part in parts]
        return None if None in values else f"{name}={'|'.join(map(str, values))}"

    @staticmethod
    def _part(part: Any, words: Sequence[str], place: int) -> str | None:
        if part.name in PLACES:
            return "" if place == (0 if part.name == "first" else len(words) - 1) else None
        look, at = attribute(part.name), place + part.offset
        if look is None:
            return ""
        if not 0 <= at < len(words):
            return None if is_question(part.name) else "<" if at < 0 else ">"
        return look(words[at])


def crfsuite(text: TaggedText, features: Features, iterations: int, folder: Path) -> Any:
    """A tagger of python-crfsuite, trained by likelihood."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c1": 0.0, "c2": PENALTY, "max_iterations": iterations})
    for words, tags in zip(text.sentences(), text.tagged(), strict=True):
        trainer.append(features(words), tags)
    trainer.train(str(folder / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(folder / "model"))
    return tagger


def check(text: TaggedText, other: Any, features: Features, sentences: Sequence[Sequence[str]]) -> None:
    """Stops unless our Viterbi finds the same tags under CRFsuite's weights: both then do the same work."""
    info = other.info()
    tokens = [features(words) for words in text.sentences()]
    mine = Tagger(decoder=Viterbi(valid=False), learner=ChainLikelihood(iterations=1)).fit(tokens, text.tagged())
    place = {label: number for number, label in enumerate(mine.labels_)}
    weights = mine.weights_.like(np.zeros_like(mine.weights_.vector))
    names = [(name, label, weight) for (name, label), weight in info.state_features.items()]
    from loopwise.potentials.hashing import text_keys

    rows = mine.unary_index_.find(text_keys([name for name, _, _ in names]))
    for row, (_, label, weight) in zip(rows.tolist(), names, strict=True):
        weights.unary[row, place[label]] = weight
    for (one, two), weight in info.transitions.items():
        weights.pair[0, place[one] * len(place) + place[two]] = weight
    mine.weights_ = weights
    said = mine.predict([features(words) for words in sentences])
    wrong = sum(tags != other.tag(features(words)) for tags, words in zip(said, sentences, strict=True))
    if wrong:
        raise SystemExit(f"{wrong} sentences have other tags under the same weights: nothing was timed")


def medians(calls: dict[str, Callable[[Any], object]], requests: Sequence[Any]) -> dict[str, float]:
    """Microseconds of each call; each request is asked of all, one after another, once."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for request in requests:
        for name, call in calls.items():
            begin = time.perf_counter()
            call(request)
            taken[name].append(time.perf_counter() - begin)
    return {name: 1e6 * float(np.median(times)) for name, times in taken.items()}


def tagging(data: Path, quick: bool) -> dict[str, float]:
    folder = folder_in(data, "ner", "UNER_Danish-DDT")
    text, test = (read_tagged(folder / f"da_ddt-ud-{part}.iob2.gz") for part in ("train", "test"))
    text = part_of(text, 0, 800) if quick else text
    iterations, features = (20 if quick else 100), Features()
    starts = [(words, start) for words in test.sentences() for start in range(0, len(words) - WORDS, WORDS)]
    requests = [words[start : start + WORDS] for words, start in starts[: 300 if quick else 1500]]
    with tempfile.TemporaryDirectory() as scratch:
        other = crfsuite(text, features, iterations, Path(scratch))
        check(text, other, features, requests[:100])
        tagger = Tagger(learner=ChainLikelihood(l2=2 * PENALTY, iterations=iterations), threads=1).fit(
            text, progress=False
        )
        tagger.predict([requests[0]])
        ready = {id(words): features(words) for words in requests}
        found = medians(
            {
                "tag_us": lambda words: tagger.predict([words]),
                "crfsuite_us": lambda words: other.tag(ready[id(words)]),
                "crfsuite_with_features_us": lambda words: other.tag(features(words)),
            },
            requests,
        )
    return {**found, "tag_vs_crfsuite": found["tag_us"] / found["crfsuite_us"]}


def parsing(data: Path, quick: bool) -> dict[str, float]:
    folder = folder_in(data, "ud", "UD_English-EWT")
    train, test = (read_conllu(sorted(folder.glob(f"*{part}*.conllu*"))[0]) for part in ("train", "test"))
    parser = Parser()
    parser.fit(train[: 200 if quick else 1000], epochs=1 if quick else 3, threads=1)
    requests = [sentence for sentence in test if WORDS <= len(sentence) <= WORDS + 2][: 50 if quick else 200]
    bare: list[Sentence] = [sentence.with_tree([-1] * len(sentence)) for sentence in requests]
    parser.predict(bare[:1], threads=1)
    return medians({"parse_us": lambda sentence: parser.predict([sentence], threads=1)}, bare)


def rows(quick: bool) -> dict[str, float]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300 if quick else 1000, 10))
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(int)
    model = MRFClassifier().fit(x, y)
    model.predict(x[:1])
    return medians({"row_us": model.predict}, [x[place : place + 1] for place in range(200)])


def main() -> None:
    options = option_parser(__doc__.splitlines()[0]).parse_args()
    try:
        import pycrfsuite  # noqa: F401
    except ImportError:
        raise SystemExit("python-crfsuite is not installed: pip install python-crfsuite") from None
    torch.set_num_threads(1)
    summary: dict[str, float] = {}
    parts: list[Callable[[], dict[str, float]]] = [
        lambda: tagging(options.data, options.quick),
        lambda: parsing(options.data, options.quick),
        lambda: rows(options.quick),
    ]
    for part in parts:
        found = part()
        for name, value in found.items():
            print(f"{name:28} {value:10.1f}", flush=True)
        summary.update(found)
    print_summary(summary)


if __name__ == "__main__":
    main()
