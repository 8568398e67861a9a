"""The dependency parser of two checkouts of this library, in turns: what a change costs in time, memory and accuracy.

    python benchmarks/parser_gates.py --before ../another/checkout [--quick]

Both train the same second-order parser (4 iterations of BP, L2, relations) on the beginning of EWT's training set and
parse its test set; each reads the file that the other saved, too, and must give the trees of its writer. Each checkout
has a process of its own, which times one call when asked to, in seconds of its own CPU where it has one thread; the
processes take turns and the fastest round counts, so that other work on the machine hits both alike. Last line of
output: JSON with this checkout's time over that of the other for an epoch of training (`train`, and with two threads),
for parsing (`parse`) and for single sentences of about ten words (`one_sentence`), the same of peak memory, and
attachment scores of both.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import folder_in, option_parser, print_summary
from loopwise.apps.parser import Parser, Pruning, Templates
from loopwise.formats.conllu import read_conllu
from loopwise.inference.messages.message_passing import BP

HERE = Path(__file__).resolve()


class Server:
    """One checkout's parser, and the calls that are timed."""

    def __init__(self, folder: Path, quick: bool) -> None:
        train, test = (read_conllu(next(folder.glob(f"*{name}.conllu.gz"))) for name in ("train", "test"))
        self.test = test[:200] if quick else test[:1000]
        self.short = [sentence for sentence in self.test if 8 <= len(sentence) <= 12][:30]
        self.parser = self.fresh()
        self.data = self.parser.prepare(train[: 300 if quick else 1500], threads=1)
        self.parser.fit(self.data, epochs=2, threads=1)
        self.calls: dict[str, Callable[[], object]] = {
            "train": lambda: self.fresh().fit(self.data, epochs=1, threads=1, labels=False),
            "train_two_threads": lambda: self.fresh().fit(self.data, epochs=1, threads=2, labels=False),
            "parse": lambda: self.parser.predict(self.test, threads=1),
            "one_sentence": lambda: [self.parser.predict([sentence], threads=1) for sentence in self.short],
        }

    @staticmethod
    def fresh() -> Parser:
        return Parser(
            inference=BP(iterations=4), templates=Templates(size=8_000_000), pruning=Pruning(size=4_000_000, folds=1)
        )

    def answer(self, asked: str) -> Any:
        """A time, a memory, scores or trees."""
        name, _, path = asked.partition(":")
        if name == "save":
            return self.parser.save(path)
        if name == "trees":
            parser = Parser.load(path) if path else self.parser
            return [[tree.heads, tree.relations] for tree in parser.parse(self.test, threads=1)]
        if name == "scores":
            found = self.parser.evaluate(self.test, threads=1)
            return [100 * found.uas, 100 * found.las]
        if name == "memory":
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        clock = time.perf_counter if name.endswith("threads") else time.process_time
        begin = clock()
        self.calls[name]()
        return clock() - begin


class Side:
    """A process that runs with the library of one checkout."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        cache = Path(tempfile.gettempdir()) / "loopwise-parser-gates" / folder.name
        environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "NUMBA_CACHE_DIR": str(cache)}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE), "--serve", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=environment, cwd=HERE.parent, text=True,
        )  # fmt: skip

    def ask(self, asked: str) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(asked + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process that was asked for {asked!r} ended")
        return json.loads(line)


def serve(folder: Path, quick: bool) -> None:
    server = Server(folder, quick)
    for line in sys.stdin:
        print(json.dumps(server.answer(line.strip())), flush=True)


def check_files(sides: dict[str, Side], folder: Path) -> None:
    """Each side's file gives the trees of its writer on the other side."""
    for name, side in sides.items():
        side.ask(f"save:{folder / name}")
    for name, side in sides.items():
        for other in sides.values():
            if other.ask(f"trees:{folder / name}") != side.ask("trees"):
                raise SystemExit(f"the file saved by {name} gives other trees in another checkout: nothing was timed")


def main() -> None:
    parser = option_parser(__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="the other checkout")
    parser.add_argument("--serve", action="store_true", help="(used by the script itself)")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    data = folder_in(options.data, "ud", "UD_English-EWT")
    if options.serve:
        serve(data, options.quick)
        return
    if options.before is None or not (options.before / "src" / "loopwise").is_dir():
        raise SystemExit("--before must be another checkout of this repository")
    arguments = ["--data", str(options.data), *(["--quick"] if options.quick else [])]
    sides = {"before": Side(options.before.resolve(), arguments), "here": Side(HERE.parents[1], arguments)}
    with tempfile.TemporaryDirectory() as folder:
        scores = {name: side.ask("scores") for name, side in sides.items()}
        memory = {name: side.ask("memory") for name, side in sides.items()}
        check_files(sides, Path(folder))
    report: dict[str, Any] = {"scores_before": scores["before"], "scores": scores["here"]}
    for name in ("train", "train_two_threads", "parse", "one_sentence"):
        for side in sides.values():
            side.ask(name)  # compiles
        rounds = [[side.ask(name) for side in sides.values()] for _ in range(options.rounds)]
        before, here = (min(times) for times in zip(*rounds, strict=True))
        print(f"{name:20s} {before:9.4f} s there, {here:9.4f} s here")
        report[name] = here / before
    report["memory"] = memory["here"] / memory["before"]
    print_summary(report)


if __name__ == "__main__":
    main()
