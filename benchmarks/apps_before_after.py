"""The applications in two checkouts of this library, in turns: time and memory of training and parsing, and scores.

    python benchmarks/apps_before_after.py --before ../another/checkout [--after .] [--quick] [--only tagger]

Every case has, in each checkout, processes of its own: a first one compiles, the second gives its score, then times one
run when asked to. The processes take turns on one thread, and the least processor time of several rounds counts, so
that other work on the machine hits both alike; memory is the most that the second process ever held. Scores must be
equal to .05 points before a case is timed. The tagger is trained without the rules of IOB2, since checkouts before
c85cdc4 had them in decisions only: with them its likelihood is another one. Last line of output: JSON with
`*_time_ratio` and `*_memory_ratio`, after over before, case by case, the largest of each, and the cases whose scores
differ, for which the script fails.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import DEFAULT_DATA, folder_in, option_parser, print_summary

HERE = Path(__file__).resolve()
CLOSE = 0.05  # points of the score
CASES = ("parser_train", "parser_parse", "tagger_train", "tagger_online", "multilabel_train", "multilabel_online")

Run = Callable[[], Any]
Case = tuple[Run, Callable[[Any], float]]  # what is timed, and the score of what it gives


def case_of(name: str, data: Path, quick: bool) -> Case:
    """What is run, by names that both checkouts have."""
    application, _, what = name.partition("_")
    if application == "parser":
        return _parser(what, data, quick)
    return _tagger(what, data, quick) if application == "tagger" else _multilabel(what, data, quick)


def _parser(what: str, data: Path, quick: bool) -> Case:
    from loopwise.apps import Parser
    from loopwise.apps.parser.options import Pruning, Templates
    from loopwise.formats.conllu import read_conllu

    folder = folder_in(data, "ud", "UD_English-EWT")
    train = read_conllu(next(folder.glob("*train.conllu.gz")))[: 150 if quick else 1000]
    test = read_conllu(next(folder.glob("*test.conllu.gz")))[: 100 if quick else 500]

    def trained() -> Any:
        size = 1 << 18
        parser = Parser(templates=Templates(size=size), pruning=Pruning(size=size, epochs=1, folds=1))
        parser.fit(train, epochs=2, threads=1, progress=False)
        return parser

    def score(parser: Any) -> float:
        return 100.0 * parser.evaluate(test, threads=1).uas

    if what == "train":
        return trained, score
    known = trained()
    return lambda: known.predict(test, threads=1), lambda trees: score(known)


def _learner(app: Any, name: str) -> Any:
    """A learner of an app, by the name that it has in this checkout."""
    prefix = "Chain" if hasattr(app, "Tagger") else "Label"
    return getattr(app, prefix + name if prefix + name in app.__all__ else name)


def _tagger(what: str, data: Path, quick: bool) -> Case:
    from loopwise.formats.columns import read_tagged

    try:
        import loopwise.apps.chain as app
    except ImportError:  # a checkout from before the tagger shared a folder with chains of feature vectors
        import loopwise.apps.tagger as app
    folder = folder_in(data, "ner", "wnut17")
    text, count = read_tagged(folder / "wnut17train.conll.gz"), 500 if quick else 3000
    train = text.sentences()[:count], text.tagged()[:count]
    test = read_tagged(folder / "emerging.test.annotated.gz")
    learner = _learner(app, "Likelihood")(iterations=30) if what == "train" else _learner(app, "Perceptron")(5)

    def trained() -> Any:
        return app.Tagger(learner=learner, threads=1, decoder=app.Viterbi(valid=False)).fit(*train, progress=False)

    return trained, lambda model: 100 * model.score(test)


def _multilabel(what: str, data: Path, quick: bool) -> Case:
    import loopwise.apps.multilabel as app
    from loopwise.walk import MIRA

    folder = folder_in(data, "multilabel")
    path = next(folder.rglob("yeast-train.arff*"))
    table = app.read_labelled(path, next(folder.rglob("yeast.xml")))
    rows = 300 if quick else 1500
    inputs, labels = table.inputs[:rows], table.labels[:rows]
    train = what == "train"
    ranked = {"epochs": 2, "sweeps": 20, "step": MIRA(1e-3)}  # the step that was the default before
    learner = _learner(app, "Likelihood")(iterations=10) if train else _learner(app, "SampleRankSVM")(**ranked)

    def score(model: Any) -> float:
        return 100.0 * float(model.score(inputs[:200], labels[:200]))

    return lambda: app.MultiLabel(learner).fit(inputs, labels, progress=False), score


def serve(name: str, data: Path, quick: bool) -> None:
    """Prints the score of a case, then its seconds and the memory so far as often as asked."""
    run, score = case_of(name, data, quick)
    print(score(run()), flush=True)
    for _ in sys.stdin:
        begin = time.process_time()
        run()
        seconds = time.process_time() - begin
        print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)


class Checkout:
    """A process that runs one case with the library of one checkout."""

    def __init__(self, folder: Path, name: str, options: Any, cache: Path) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(folder / "src"),
            "NUMBA_CACHE_DIR": str(cache / folder.name),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, str(HERE), "--serve", name, "--data", str(options.data)]
        command += ["--quick"] if options.quick else []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=HERE.parent, text=True
        )
        self.score = self._read()[0]

    def ask(self) -> tuple[float, float]:
        """Seconds of a run, and the memory so far."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        seconds, memory = self._read()
        return seconds, memory

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _read(self) -> list[float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a process ended before its answer; its message is above")
        return [float(number) for number in line.split()]


def compare(name: str, folders: dict[str, Path], options: Any, cache: Path) -> tuple[float, float] | None:
    """Time and memory of a case, after over before; None where the scores differ."""
    for folder in folders.values():
        Checkout(folder, name, options, cache).end()  # compiles
    sides = {side: Checkout(folder, name, options, cache) for side, folder in folders.items()}
    before, after = sides["before"].score, sides["after"].score
    if not abs(before - after) <= CLOSE:
        for checkout in sides.values():
            checkout.end()
        print(f"{name}: the scores are {before:.4f} before and {after:.4f} after: nothing was timed")
        return None
    seconds, memory = dict.fromkeys(sides, float("inf")), dict.fromkeys(sides, 0.0)
    for _ in range(options.rounds):
        for side, checkout in sides.items():
            found = checkout.ask()
            seconds[side], memory[side] = min(seconds[side], found[0]), max(memory[side], found[1])
    for checkout in sides.values():
        checkout.end()
    ratios = seconds["after"] / seconds["before"], memory["after"] / memory["before"]
    print(f"{name}: score {before:.3f} before, {after:.3f} after")
    print(f"    {seconds['before']:.3f} s before, {seconds['after']:.3f} s after: {ratios[0]:.3f}")
    print(f"    {memory['before'] / 1e3:.0f} MB before, {memory['after'] / 1e3:.0f} MB after: {ratios[1]:.3f}")
    return ratios


def main() -> None:
    parser = option_parser(__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="the other checkout")
    parser.add_argument("--after", type=Path, default=HERE.parents[1], help="this one (default: %(default)s)")
    parser.add_argument("--only", default="", help="cases whose names begin so")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cache", type=Path, default=None, help="a folder for compiled kernels (default: a fresh one)")
    parser.add_argument("--serve", choices=CASES, help="(used by the script itself)")
    options = parser.parse_args()
    options.data = (options.data or DEFAULT_DATA).resolve()
    if options.serve:
        serve(options.serve, options.data, options.quick)
        return
    folders = {"before": options.before, "after": options.after}
    for side, folder in folders.items():
        if folder is None or not (folder / "src" / "loopwise").is_dir():
            raise SystemExit(f"--{side} must be a checkout of this repository")
    folders = {side: folder.resolve() for side, folder in folders.items()}
    summary: dict[str, object] = {}
    ratios, other = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for name in CASES:
            if name.startswith(options.only):
                found = compare(name, folders, options, options.cache or Path(scratch))
                if found is None:
                    other.append(name)
                    continue
                ratios.append(found)
                summary[f"{name}_time_ratio"], summary[f"{name}_memory_ratio"] = found
    summary["largest_time_ratio"] = max((time for time, _ in ratios), default=None)
    summary["largest_memory_ratio"] = max((memory for _, memory in ratios), default=None)
    summary["other_scores"] = other
    print_summary(summary)
    if other:
        raise SystemExit(f"scores differ by more than {CLOSE}: {', '.join(other)}")


if __name__ == "__main__":
    main()
