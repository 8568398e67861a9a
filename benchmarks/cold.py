"""What a first call costs: CPU seconds of compilation and compiled functions, in an empty kernel cache.

    python benchmarks/cold.py [--quick] [--before ../another/checkout]

Each job has a process and a cache of its own: one call of BP on a grid, the example of the README, `loopwise infer`,
`loopwise fit`, and (without `--quick`) `loopwise parser train`. Counted is the CPU time between the beginning and the
end of outermost compilations, as Numba reports them; a second process with the cache that the first filled must compile
nothing, and its CPU time as a whole is what a short run costs every time. Last line of output: JSON with `bp_seconds`,
`readme_seconds`, `infer_seconds`, `fit_seconds`, `parser_seconds`, functions of each, and `.._process_seconds`; with
`--before`, `.._process_ratio`: that of this checkout over that of the other, least of five runs in turns.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from common import REPOSITORY, option_parser, print_summary

# Runs a job and prints what was compiled on the way; the job is the last argument.
WATCH = """
import json, sys, time
from numba.core import event

class Watch(event.Listener):
    depth = functions = 0
    seconds = begin = 0.0
    def on_start(self, event):
        if self.depth == 0:
            self.begin = time.process_time()
        self.depth += 1
        self.functions += 1
    def on_end(self, event):
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.process_time() - self.begin

watch = Watch()
event.register("numba:compile", watch)
job = sys.argv.pop()
try:
    exec(compile(job, "job", "exec"), {"__name__": "__main__"})
except SystemExit as end:
    if end.code:
        raise
print(json.dumps({"seconds": watch.seconds, "functions": watch.functions}))
"""

BP = """
import torch, loopwise as lw
graph = lw.grid(8, 8, 5)
lw.BP(iterations=10, tolerance=0)(graph, lw.TablePotentials.random(graph, seed=0))
"""

COMMAND = """
import sys
sys.argv = ["loopwise", *{arguments!r}]
from loopwise.cli.main import run
run()
"""


def readme_example() -> str:
    """The first example of the README, without its prompts."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None, "README.md has no example"
    lines = [line[4:] for line in found.group(1).splitlines() if line.startswith((">>> ", "... "))]
    return "\n".join(lines)


TURNS = 5


def measure(job: str, cache: Path, checkout: Path = REPOSITORY) -> dict[str, float]:
    """Seconds and functions that ``job`` compiled with this cache, and seconds of its whole process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "LOOPWISE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(checkout / "src")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", WATCH, job], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"a job failed:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {**answer, "process": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def jobs(folder: Path, quick: bool) -> dict[str, str]:
    model = folder / "model.uai"
    model.write_text("MARKOV\n3\n2 3 2\n2\n2 0 1\n2 1 2\n\n6\n 4 1 2 1 3 1\n\n6\n 1 2 1 3 2 1\n", encoding="utf-8")
    table = folder / "table.csv"
    rows = [f"{row % 2},{row // 2 % 2},{row % 2 ^ row // 2 % 2 if row % 7 else row % 2}" for row in range(300)]
    table.write_text("\n".join(["a,b,y", *rows]) + "\n", encoding="utf-8")
    arguments = ["fit", str(table), "--outputs", "y", "--l2", "0.01", "--out", str(folder / "table.loopwise")]
    found = {
        "bp": BP,
        "readme": readme_example(),
        "infer": COMMAND.format(arguments=["infer", str(model), "--out", str(folder / "model.MAR")]),
        "fit": COMMAND.format(arguments=arguments),
    }
    if not quick:
        text = folder / "small.conllu"
        rows = ["1\tThe\t_\tDET\t_\t_\t2\tdet\t_\t_", "2\tdog\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_"]
        rows += ["3\tsleeps\t_\tVERB\t_\t_\t0\troot\t_\t_", ""]
        text.write_text("\n".join([*rows, ""] * 8) + "\n", encoding="utf-8")
        arguments = ["parser", "train", str(text), "--out", str(folder / "parser.loopwise"), "--epochs", "1"]
        found["parser"] = COMMAND.format(arguments=arguments)
    return found


def main() -> None:
    parser = option_parser(__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="another checkout, to take turns with")
    options = parser.parse_args()
    checkouts = [REPOSITORY, *([options.before.resolve()] if options.before else [])]
    summary: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for job, script in jobs(folder, options.quick).items():
            first, again = (measure(script, folder / job) for _ in range(2))
            print(
                f"{job}: {first['seconds']:.1f} s, {first['functions']:.0f} functions; again {again['seconds']:.2f} s"
            )
            summary[f"{job}_seconds"], summary[f"{job}_functions"] = first["seconds"], first["functions"]
            summary[f"{job}_again_seconds"], summary[f"{job}_process_seconds"] = again["seconds"], again["process"]
            if options.before:
                caches = [folder / job, folder / f"{job}-before"]
                measure(script, caches[1], options.before.resolve())
                turns = [
                    [
                        measure(script, cache, checkout)["process"]
                        for cache, checkout in zip(caches, checkouts, strict=True)
                    ]
                    for _ in range(TURNS)
                ]
                mine, theirs = (min(times) for times in zip(*turns, strict=True))
                print(f"  with compiled kernels {mine:.2f} s, {theirs:.2f} s before")
                summary[f"{job}_process_ratio"] = mine / theirs
    print_summary(summary)


if __name__ == "__main__":
    main()
