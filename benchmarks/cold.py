"""What a first call costs: CPU seconds of compilation and compiled functions, in an empty kernel cache.

    python benchmarks/cold.py [--quick]

Each job has a process and a cache of its own: one call of BP on a grid, the example of the README, `loopwise infer`,
and (without `--quick`) `loopwise parser train`. Counted is the CPU time between the beginning and the end of outermost
compilations, as Numba reports them; a second process with the cache that the first filled must compile nothing. Last
line of output: JSON with `bp_seconds`, `readme_seconds`, `infer_seconds`, `parser_seconds`, and functions of each.
"""

from __future__ import annotations

import json
import os
import re
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


def measure(job: str, cache: Path) -> dict[str, float]:
    """Seconds and functions that ``job`` compiled with this cache."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "LOOPWISE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", WATCH, job], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"a job failed:\n{done.stderr[-2000:]}")
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def jobs(folder: Path, quick: bool) -> dict[str, str]:
    model = folder / "model.uai"
    model.write_text("MARKOV\n3\n2 3 2\n2\n2 0 1\n2 1 2\n\n6\n 4 1 2 1 3 1\n\n6\n 1 2 1 3 2 1\n", encoding="utf-8")
    found = {
        "bp": BP,
        "readme": readme_example(),
        "infer": COMMAND.format(arguments=["infer", str(model), "--out", str(folder / "model.MAR")]),
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
    options = option_parser(__doc__.splitlines()[0]).parse_args()
    summary: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for job, script in jobs(folder, options.quick).items():
            first, again = (measure(script, folder / job) for _ in range(2))
            print(
                f"{job}: {first['seconds']:.1f} s, {first['functions']:.0f} functions; again {again['seconds']:.2f} s"
            )
            summary[f"{job}_seconds"], summary[f"{job}_functions"] = first["seconds"], first["functions"]
            summary[f"{job}_again_seconds"] = again["seconds"]
    print_summary(summary)


if __name__ == "__main__":
    main()
