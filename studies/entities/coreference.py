"""``python -m studies.entities.coreference``: coreference beside a rule of 25 lines, whole documents, genres held out.

In: GUM or OntoGUM, and the file of the rule. Out: CoNLL averages, and a paired bootstrap over documents. Genres are
dealt into folds; a fold's documents are resolved by a model of the other genres' documents.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loopwise.apps.coref import Coref, Report, published_variants
from loopwise.formats.coref import CorefDocument, read_coref
from loopwise.walk import Sweeps

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
RESAMPLES = 5000


def rule_of(path: Path) -> Callable[[CorefDocument], list[int]]:
    """The rule of a file with a function ``rule_entities(words, mentions)``."""
    spec = importlib.util.spec_from_file_location("coref_rule", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file; give the file of the rule with --rule")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def entities(document: CorefDocument) -> list[int]:
        mentions = [(mention.first, mention.last) for mention in document.mentions]
        order = sorted(range(len(mentions)), key=mentions.__getitem__)
        numbers: dict[Any, int] = {}
        found = [0] * len(mentions)
        for place, name in zip(order, module.rule_entities(document.words, mentions), strict=True):
            found[place] = numbers.setdefault(name, len(numbers))
        return found

    return entities


def genre(document: CorefDocument) -> str:
    """``news`` of ``GUM_news_asylum``."""
    return [*document.name.split("_"), "", ""][1]


def resolved(documents: Sequence[CorefDocument], folds: int, most: int, seed: int) -> dict[int, Any]:
    """The answers for the documents of each fold (at most ``most``), by a model of as many others'."""
    random = np.random.default_rng(seed)
    genres = sorted({genre(document) for document in documents})
    fold = {name: place % folds for place, name in enumerate(random.permutation(genres).tolist())}
    found: dict[int, Any] = {}
    for held in range(folds):
        test = [place for place, document in enumerate(documents) if fold[genre(document)] == held]
        train = [place for place, document in enumerate(documents) if fold[genre(document)] != held]
        test, train = (random.permutation(part)[:most].tolist() for part in (test, train))
        model = Coref(published_variants()[0], rounds=4, steps=4000, decode_steps=Sweeps(300), seed=seed)
        model.fit([documents[place] for place in train])
        found.update(zip(test, model.predict([documents[place] for place in test]), strict=True))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "coref" / "gum")
    parser.add_argument("--rule", type=Path, default=SHARED / "cases" / "coref_rule.py")
    parser.add_argument("--corpus", default="gum", choices=("gum", "ontogum"))
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--most", type=int, default=1000, help="documents that train, and that are resolved, in a fold")
    told = parser.parse_args()
    ending = "conllu" if told.corpus == "gum" else "conll"
    files = [told.data / f"{told.corpus}-{part}.{ending}.gz" for part in ("train", "dev", "test")]
    documents = [document for file in files for document in read_coref(file) if document.mentions]
    rule, answers = rule_of(told.rule), resolved(documents, told.folds, told.most, 0)
    chosen = sorted(answers)
    known = [documents[place] for place in chosen]
    ours, theirs = [answers[place] for place in chosen], [rule(document) for document in known]
    reports = [Report.of(known, each).reference for each in (ours, theirs)]
    single = np.array(
        [
            [Report.of([document], [each]).reference["conll"] for each in pair]
            for document, *pair in zip(known, ours, theirs, strict=True)
        ]
    )
    gaps = single[:, 0] - single[:, 1]
    random = np.random.default_rng(0)
    means = gaps[random.integers(0, len(gaps), (RESAMPLES, len(gaps)))].mean(axis=1)
    print(f"{told.corpus}: documents {len(known)}")
    for name, report in zip(("loopwise", "rule"), reports, strict=True):
        print(f"{name:9} " + "  ".join(f"{key} {value:.4f}" for key, value in report.items()))
    result = {
        "corpus": told.corpus,
        "documents": len(known),
        "conll": [round(report["conll"], 4) for report in reports],
        "mean_gap": round(float(gaps.mean()), 4),
        "p": float((means <= 0).mean()),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
