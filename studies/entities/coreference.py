"""``python -m studies.entities.coreference``: coreference beside a rule of 25 lines, whole documents, genres held out.

In: GUM or OntoGUM, and the file of the rule. Out: CoNLL averages, and a paired bootstrap over documents. Genres are
dealt into folds; documents of a fold's genres are resolved by a model of the training part's documents of all other
genres. Links, starts, steps and temperatures were chosen on documents of the training part alone (news, fiction,
conversation, textbook and voyage resolved by a model of the others); features older than these had been scored on all
parts before.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loopwise.apps.coref import Coref, CorefReport
from loopwise.formats.coref import CorefDocument, read_coref

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
RESAMPLES = 5000

Documents = Sequence[CorefDocument]


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


def fold_of(documents: Sequence[CorefDocument], folds: int, seed: int) -> list[int]:
    """The fold of each document: that of its genre, which are dealt at random."""
    genres = sorted({genre(document) for document in documents})
    dealt = {name: place % folds for place, name in enumerate(np.random.default_rng(seed).permutation(genres).tolist())}
    return [dealt[genre(document)] for document in documents]


def resolved(train: Documents, test: Documents, folds: int, seed: int) -> list[Any]:
    """The answers for the documents of ``test``, each by a model of those of ``train`` that are of other folds."""
    fold = fold_of([*train, *test], folds, seed)
    found: list[Any] = [None] * len(test)
    for held in range(folds):
        asked = [place for place in range(len(test)) if fold[len(train) + place] == held]
        known = [document for document, one in zip(train, fold, strict=False) if one != held]
        if asked:
            model = Coref(bare=False, seed=seed).fit(known, progress=False)
            for place, answer in zip(asked, model.predict([test[place] for place in asked]), strict=True):
                found[place] = answer
    return found


def compared(known: Documents, ours: Sequence[Any], theirs: Sequence[Any]) -> dict[str, Any]:
    """Pooled scores of both; the mean difference of documents' CoNLL averages, its 95 % interval and p by bootstrap."""
    reports = [CorefReport.of(known, each).reference for each in (ours, theirs)]
    single = [
        [CorefReport.of([document], [each]).reference["conll"] for each in pair]
        for document, *pair in zip(known, ours, theirs, strict=True)
    ]
    gaps = np.array(single) @ [1.0, -1.0]
    means = gaps[np.random.default_rng(0).integers(0, len(gaps), (RESAMPLES, len(gaps)))].mean(axis=1)
    for name, report in zip(("loopwise", "rule"), reports, strict=True):
        print(f"{name:9} " + "  ".join(f"{key} {value:.4f}" for key, value in report.items()))
    return {
        "documents": len(known),
        "conll": [round(report["conll"], 4) for report in reports],
        "mean_gap": round(float(gaps.mean()), 4),
        "interval": [round(float(end), 4) for end in np.quantile(means, (0.025, 0.975))],
        "p": float((means <= 0).mean()),
    }


def read(folder: Path, corpus: str, parts: Sequence[str], most: int) -> list[CorefDocument]:
    """Documents with mentions, at most so many of each part; brackets without a partner are told of and passed over."""
    ending = "conllu" if corpus == "gum" else "conll"
    found = [read_coref(folder / f"{corpus}-{part}.{ending}.gz", skip_bad=True) for part in parts]
    return [document for part in found for document in [one for one in part if one.mentions][:most]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "coref" / "gum")
    parser.add_argument("--rule", type=Path, default=SHARED / "cases" / "coref_rule.py")
    parser.add_argument("--corpus", default="gum", choices=("gum", "ontogum"))
    parser.add_argument("--parts", default="dev,test", help="parts whose documents are resolved")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--most", type=int, default=1000, help="documents of each part")
    told = parser.parse_args()
    train = read(told.data, told.corpus, ["train"], told.most)
    test = read(told.data, told.corpus, told.parts.split(","), told.most)
    rule, began = rule_of(told.rule), time.perf_counter()
    print(f"{told.corpus}: {len(train)} documents to learn from, {len(test)} to resolve", flush=True)
    result = compared(test, resolved(train, test, told.folds, 0), [rule(document) for document in test])
    seconds = round(time.perf_counter() - began, 1)
    print(json.dumps({"corpus": told.corpus, "parts": told.parts, **result, "seconds": seconds}))


if __name__ == "__main__":
    main()
