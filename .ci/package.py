"""What users install, tried as they would: built, checked, installed into an empty environment, used there.

In: the checkout, beside it ``constraints.txt``. Out: ``dist/*.tar.gz`` and ``dist/*.whl``, or the first thing that is
wrong and exit code 1. The wheel is built from the source archive, so that the archive is known to be whole. Run by
``make package``; needs the package ``build``, and an installer that finds the dependencies.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PACKAGE = "loopwise"

TEN_LINES = """\
import numpy as np, torch, loopwise as lw

graph = lw.chain(4)
coins = np.random.default_rng(0).integers(0, 2, (64, 1))
train = lw.Examples.of(graph, coins.repeat(4, axis=1), [lw.Role.INPUT] + 3 * [lw.Role.OUTPUT])  # four copies of a coin
system = lw.System(lw.TablePotentials(graph), lw.BP(iterations=4, tolerance=0))
before = lw.evaluate(system, train, lw.loss.MSE())
lw.fit(system, train, lw.loss.MSE(), optimizer=lambda params: torch.optim.Adam(params, lr=0.1), epochs=10)
after = lw.evaluate(system, train, lw.loss.MSE())
assert after < before / 2, f"training did not help: MSE {before} before, {after} after"
system.save("coins.loopwise")
"""

COIN = "MARKOV\n2\n2 2\n1\n2 0 1\n\n4\n 2 1 1 2\n"  # a model of two coins that like to agree

WHERE = f"""\
import sys, {PACKAGE}
from pathlib import Path
place = Path({PACKAGE}.__file__).resolve()
assert place.is_relative_to(Path(sys.prefix).resolve()), f"imported from {{place}}, not from the wheel"
assert (place.parent / "py.typed").exists(), "the installed package has no py.typed"
"""


def main() -> None:
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="loopwise-package-") as folder:
        archive, wheel = build(Path(folder) / "dist")
        check_archive(archive)
        check_wheel(wheel)
        python = empty_environment(Path(folder) / "environment", wheel)
        use(python, Path(folder))
        DIST.mkdir(exist_ok=True)
        for file in (archive, wheel):
            shutil.copy(file, DIST / file.name)
    print(f"   {archive.name} and {wheel.name} are in dist/ ({time.perf_counter() - began:.0f} s)")


def build(folder: Path) -> tuple[Path, Path]:
    """The source archive, and the wheel made from it."""
    step("build")
    run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    (archive,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return archive, wheel


def check_archive(archive: Path) -> None:
    """Whatever is in the package, its studies, tests and the licence are in it; nothing that was made is."""
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    sources = {str(path.relative_to(ROOT)) for path in source_files()}
    studies = [path for path in (ROOT / "studies").rglob("*") if path.suffix in (".py", ".toml")]
    sources |= {str(path.relative_to(ROOT)) for path in studies}
    needed = {*sources, "LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "tests/conftest.py"}
    require(needed <= names, f"{archive.name} lacks {sorted(needed - names)[:5]}; see MANIFEST.in")
    made = [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".nbi", ".nbc"))]
    require(not made, f"{archive.name} holds {made[:5]}; exclude them in MANIFEST.in")


def check_wheel(wheel: Path) -> None:
    """Exactly the files of the package, and the metadata."""
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
    sources = {str(path.relative_to(ROOT / "src")) for path in source_files()}
    require(f"{PACKAGE}/py.typed" in names, f"{wheel.name} has no py.typed; see tool.setuptools.package-data")
    require(sources <= names, f"{wheel.name} lacks {sorted(sources - names)[:5]}; see tool.setuptools")
    require(names <= sources, f"{wheel.name} holds more than the package: {sorted(names - sources)[:5]}")


def empty_environment(folder: Path, wheel: Path) -> Path:
    """An environment with the wheel and what it declares to need, nothing else; torch first, as in the Makefile."""
    step("install into an empty environment")
    run(sys.executable, "-m", "venv", str(folder))
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pins = ("--constraint", str(ROOT / "constraints.txt"))
    run(str(python), "-m", "pip", "install", "--quiet", *pins, "torch==2.13.0")
    run(str(python), "-m", "pip", "install", "--quiet", *pins, str(wheel))
    return python


def use(python: Path, folder: Path) -> None:
    """The command, the module and training, from a folder that has nothing to do with the checkout."""
    step("use it")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    clean["NUMBA_CACHE_DIR"] = str(folder / "numba")  # as after a fresh install: everything is compiled here
    version = output(str(python.parent / PACKAGE), "--version", folder=folder, env=clean)
    (declared,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    require(version.split() == [PACKAGE, declared], f"--version says {version!r}, pyproject.toml says {declared}")
    shown = output(str(python), "-m", PACKAGE, "--help", folder=folder, env=clean)
    require("infer" in shown and "demo" in shown, f"python -m loopwise --help does not list the commands: {shown!r}")
    output(str(python), "-c", WHERE, folder=folder, env=clean)
    output(str(python), "-c", TEN_LINES, folder=folder, env=clean)
    (folder / "coins.uai").write_text(COIN, encoding="ascii")
    command = str(python.parent / PACKAGE)
    output(command, "infer", "coins.uai", folder=folder, env=clean)
    card = output(command, "card", "coins.loopwise", folder=folder, env=clean)
    require("64 examples" in card, f"the card of the trained system does not say what it was trained on: {card!r}")


def source_files() -> list[Path]:
    """What belongs into the package: its modules and py.typed, or whatever else is not made by running it."""
    found = (ROOT / "src" / PACKAGE).rglob("*")
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def step(name: str) -> None:
    print(f"== package: {name}", flush=True)


def require(holds: bool, problem: str) -> None:
    if not holds:
        sys.exit(f"error: {problem}")


def run(*command: str) -> None:
    """Runs a command that is quiet unless it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    require(done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}")


def output(*command: str, folder: Path, env: dict[str, str]) -> str:
    """What a command writes; it must succeed."""
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    require(done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
