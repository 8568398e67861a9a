"""Where a command writes: named by the user or by its default, and looked at before the work begins.

In: the options that name outputs, a default, the inputs. Out: a path, or an error that says why nothing could be
written there: an ``OSError``, or a ``ValueError`` where writing would destroy an input or another output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

STANDARD_OUTPUT = Path("-")
OUT = "--out"
SUFFIX = ".loopwise"  # of what training saves
MOST_ITERATIONS = 10_000_000  # that a saved model may ask for (loopwise.learn.files.fields): refused before training


def target_of(
    out: Path | None,
    default: Path = STANDARD_OUTPUT,
    *,
    inputs: Iterable[Path | None],
    checkpoint: Path | None = None,
) -> Path:
    """A path that can be written to, as far as one can tell beforehand, and that is none of the ``inputs``.

    ``checkpoint``: a second file that the command writes, of which the same holds.
    """
    target = default if out is None else out
    check_outputs({f"the default {OUT}" if out is None else OUT: target, "--checkpoint": checkpoint}, inputs)
    return target


def named_after(data: Path) -> Path:
    """Where a model of ``data`` is saved unless told: here, under its name.

    >>> str(named_after(Path("texts/train.conllu.gz")))
    'train.loopwise'
    """
    return Path(data.name.removesuffix(".gz")).with_suffix(SUFFIX)


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """An error unless every output, by the option that names it, can be written and is no input."""
    from loopwise.formats.files import check_target

    given = [(f"{option} {path}", path) for option, path in outputs.items() if path is not None]
    check_apart(given, inputs)
    for _, path in given:
        check_target(path)


def check_apart(outputs: Sequence[tuple[str, Path]], inputs: Iterable[Path | None]) -> None:
    """:func:`loopwise.formats.files.check_apart` for the inputs that were given."""
    from loopwise.formats import files

    files.check_apart(outputs, [path for path in inputs if path is not None])


def check_folder(folder: Path, names: Sequence[str], inputs: Iterable[Path | None]) -> list[Path]:
    """The files ``names`` of a folder that a command fills: all within it, none of them nor it an input."""
    stray = next((name for name in names if name != Path(name).name), None)
    if stray is not None:
        raise ValueError(f"a file {stray[:80]!r} would not be in the folder {folder}; rename the image that it is for")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, not a folder to write to; give another name")
    files = [folder / name for name in names]
    check_apart([(f"the output {file}", file) for file in (folder, *files)], inputs)
    return files
