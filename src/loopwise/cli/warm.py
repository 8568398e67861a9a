"""``loopwise warm``: compiles the kernels of commands beforehand, by running each on a few made-up lines.

In: names of commands. Out: the kernels in their cache on this machine, and a line for each command. What was compiled
stays compiled until loopwise or Numba changes.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from loopwise.cli.messages import one_line_each

Arguments = list[object]


def warm(
    commands: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Which; all of them if none is named.")
    ] = None,
) -> None:
    """Compile kernels now, so that the first run of a command need not: once after each installation."""
    with one_line_each():
        chosen = list(dict.fromkeys(commands or _JOBS))
        for name in chosen:
            if name not in _JOBS:
                raise ValueError(f"there is nothing to compile for {name!r}; there are {', '.join(_JOBS)}")
        for name in chosen:
            began = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                for arguments in _JOBS[name](Path(folder)):
                    _run(name, arguments)
            typer.echo(f"{name}: {time.perf_counter() - began:.1f} s")


def _run(name: str, arguments: Arguments) -> None:
    """A command in this process; what it prints is of no interest."""
    from loopwise.cli.main import app

    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = app([*map(str, arguments)], standalone_mode=False)
    except typer.Exit as end:
        code = end.exit_code
    if code:
        raise ValueError(f"loopwise {name} could not be run on made-up data: {said.getvalue().strip()}")


def _infer(folder: Path) -> Iterator[Arguments]:
    tables = "".join("\n4\n 2 1 1 2\n" for _ in range(4))
    model = folder / "ring.uai"
    model.write_text(f"MARKOV\n4\n2 2 2 2\n4\n2 0 1\n2 1 2\n2 2 3\n2 0 3\n{tables}", encoding="utf-8")
    for task in ("MAR", "MAP"):
        yield ["infer", model, "--task", task, "--out", folder / f"ring.{task}"]


def _fit(folder: Path) -> Iterator[Arguments]:
    data, model = folder / "t.csv", folder / "t.loopwise"
    rows = [f"{place % 2},{'abc'[place % 3]},{place % 2}" for place in range(40)]
    data.write_text("\n".join(["x,y,z", *rows, ",a,1", "1,,0"]) + "\n", encoding="utf-8")
    for loss in ("loglik", "mse"):
        yield ["fit", data, "--outputs", "z", "--loss", loss, "--epochs", 1, "--out", model]
    yield ["predict", model, data, "--out", folder / "said.csv"]
    yield ["evaluate", model, data]


def _tagger(folder: Path) -> Iterator[Arguments]:
    data, model = folder / "t.conll", folder / "t.loopwise"
    data.write_text("Ann\tB-PER\nSmith\tI-PER\nran\tO\n\nthey\tO\nran\tO\n\n" * 4, encoding="utf-8")
    yield ["tagger", "train", data, "--iterations", 2, "--out", model]
    yield ["tagger", "predict", model, data, "--out", folder / "said.conll"]
    yield ["tagger", "evaluate", model, data]
    yield ["tagger", "train", data, "--iterations", 2, "--skip", "w[-1]", "--out", folder / "linked.loopwise"]


def _multilabel(folder: Path) -> Iterator[Arguments]:
    data, labels, model = folder / "t.arff", folder / "t.xml", folder / "t.loopwise"
    rows = [f"{place / 7:.3f},{place % 2},{place // 2 % 2},{place % 3 // 2}" for place in range(30)]
    head = ["@relation r", "@attribute x numeric", *(f"@attribute {name} {{0,1}}" for name in "abc"), "@data"]
    data.write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")
    labels.write_text("<labels>" + "".join(f'<label name="{name}"/>' for name in "abc") + "</labels>", encoding="utf-8")
    yield ["multilabel", "train", data, "--labels", labels, "--out", model]
    yield ["multilabel", "predict", model, data, "--out", folder / "said.csv"]


def _denoise(folder: Path) -> Iterator[Arguments]:
    import numpy as np

    clean = np.zeros((8, 8), dtype=np.uint8)
    clean[2:6, 2:6] = 1
    noisy = clean + np.linspace(0, 0.5, 64).reshape(8, 8)
    pictures: dict[str, Any] = {"noisy": noisy, "clean": clean}
    for name, picture in pictures.items():
        (folder / name).mkdir()
        np.save(folder / name / "1.npy", picture)
    model = folder / "t.loopwise"
    yield ["denoise", "train", folder / "noisy", folder / "clean", "--iterations", 2, "--out", model]
    yield ["denoise", "predict", model, folder / "noisy", folder / "said"]


def _parser(folder: Path) -> Iterator[Arguments]:
    data, model = folder / "t.conllu", folder / "t.loopwise"
    rows = ["1\tThe\t_\tDET\t_\t_\t2\tdet\t_\t_", "2\tdog\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_"]
    rows += ["3\tsleeps\t_\tVERB\t_\t_\t0\troot\t_\t_", "", ""]
    data.write_text("\n".join(rows) * 8, encoding="utf-8")
    yield ["parser", "train", data, "--epochs", 1, "--out", model]
    yield ["parser", "predict", model, data, "--out", folder / "said.conllu"]


def _coref(folder: Path) -> Iterator[Arguments]:
    from loopwise.apps.coref import made_documents
    from loopwise.formats.coref import write_coref

    data, model = folder / "t.conllu", folder / "t.loopwise"
    write_coref(data, made_documents(2, seed=0, mentions=8))
    yield ["coref", "train", data, "--rounds", 1, "--steps", 50, "--out", model]
    yield ["coref", "predict", model, data, "--out", folder / "said.conllu"]


def _decode(folder: Path) -> Iterator[Arguments]:
    code, model = folder / "t.txt", folder / "t.loopwise"
    code.write_text("1 1 0 1 1 0 0\n1 0 1 1 0 1 0\n0 1 1 1 0 0 1\n", encoding="utf-8")
    yield ["decode", "train", code, "--p", 0.05, "--steps", 2, "--batch", 32, "--out", model]
    for shots in (64, 8):  # many stand side by side in longer rows than few
        yield ["decode", "evaluate", model, "--shots", shots, "--out", folder / "counts.csv"]


def _dedupe(folder: Path) -> Iterator[Arguments]:
    data, model = folder / "t.csv", folder / "t.loopwise"
    rows = [f"{place // 2},Ann{'a' * (place % 2)} Smith{place // 2},{place // 2} High Street" for place in range(40)]
    data.write_text("\n".join(["entity,name,address", *rows]) + "\n", encoding="utf-8")
    yield ["dedupe", "train", data, "--ids", "entity", "--out", model]
    yield ["dedupe", "predict", model, data, "--out", folder / "said.csv"]


_JOBS: dict[str, Callable[[Path], Iterator[Arguments]]] = {
    "infer": _infer,
    "fit": _fit,
    "tagger": _tagger,
    "multilabel": _multilabel,
    "denoise": _denoise,
    "parser": _parser,
    "coref": _coref,
    "decode": _decode,
    "dedupe": _dedupe,
}
