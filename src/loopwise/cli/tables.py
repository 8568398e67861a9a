"""Tables of variables for the commands that train and use systems: structures over columns, saved systems, examples.

In: paths and names. Out: graphs, examples, systems.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from loopwise.formats.table import DataTable, Vocabulary
    from loopwise.graph.factor_graph import FactorGraph
    from loopwise.learn import Examples, System

MODELS = (".uai", ".fg", ".bif", ".uai.gz", ".fg.gz", ".bif.gz")
FEW = 20  # rows, in which it is no wonder if all differ
SHAPES = "complete, outputs, chain, tree or grid:ROWSxCOLUMNS"
AUTO, EVERY = "auto", "all"  # the structure that data choose; outputs: any column


def read_training(
    structure: Path | None,
    train: Path,
    shape: str | None,
    outputs: Sequence[str],
    hidden: Sequence[str],
    ignore: Sequence[str],
    *,
    bins: int,
    numbers: Sequence[str] | None,
) -> tuple[FactorGraph, DataTable]:
    """The table, and the graph of its columns: that of a model file, or one of a given shape.

    Without a file, numbers are cut into intervals and rare labels pooled as :class:`~loopwise.apps.MRFClassifier` does.
    """
    from loopwise.formats import read_model
    from loopwise.formats.table import read_table
    from loopwise.graph.factor_graph import FactorGraph

    if structure is None:
        whole = [*outputs, *hidden]
        table = read_table(train, may_be_empty=hidden, ignore=ignore, bins=bins, numbers=numbers, whole=whole)
        _warn_of_names(table)
        return FactorGraph.from_scopes(*_shaped(table, shape, outputs, hidden)), table
    if shape is not None:
        raise ValueError(f"the structure is that of {structure}; leave out --structure {shape}, or the file")
    model = read_model(structure)
    table = read_table(train, cardinalities=model.cardinalities.tolist(), may_be_empty=hidden, ignore=ignore)
    scopes = list(dict.fromkeys(model.scopes))  # two factors of one scope are one table to learn
    return FactorGraph.from_scopes(model.cardinalities, scopes), table


def _warn_of_names(table: DataTable) -> None:
    """Columns of which nearly every row has a value of its own: numbers of rows, names, measurements."""

    import numpy as np

    from loopwise.formats.coding import OTHER
    from loopwise.formats.errors import quoted
    from loopwise.notices import DataWarning, warn

    for name, labels, column in zip(table.vocabulary.names, table.vocabulary.labels, table.values.T, strict=True):
        known = column[column >= 0]
        different = f"{len(np.unique(known))} different values"
        pooled = labels[-1] == OTHER and 2 * int((known == len(labels) - 1).sum()) > len(known)
        if pooled or (len(known) >= FEW and 2 * len(np.unique(known)) > len(known)):
            warn(
                f"column {quoted(name)} has {'mostly rare labels' if pooled else different} in {len(known)} rows, so "
                "that little can be learnt of it; --ignore leaves it out",
                DataWarning,
            )


def _shaped(
    table: DataTable, shape: str | None, outputs: Sequence[str], hidden: Sequence[str]
) -> tuple[Sequence[int], list[tuple[int, ...]]]:
    """Cardinalities and scopes: each column, and pairs of columns as ``shape`` says, or as the size of the table does.

    Only what joins inputs with outputs asks which columns these are: a shape is one of all columns alike.
    """
    import numpy as np

    from loopwise.apps.table.model import BySize, ColumnChain, ColumnTree, Complete, Grid, Structure, ToOutputs
    from loopwise.formats.errors import quoted
    from loopwise.graph.evidence import Role

    known: dict[str, Structure] = {
        "complete": Complete(), "outputs": ToOutputs(), "chain": ColumnChain(), "tree": ColumnTree(),
    }  # fmt: skip
    grid = None if shape is None else re.fullmatch(r"grid:([0-9]{1,9})x([0-9]{1,9})", shape)
    if shape is not None and grid is None and shape not in known:
        raise ValueError(f"there is no structure {quoted(shape)}; there are {SHAPES}; choose one of them")
    structure = BySize() if shape is None else known[shape] if grid is None else Grid(int(grid[1]), int(grid[2]))
    sizes = table.vocabulary.cardinalities
    roles = np.full(len(sizes), Role.INPUT)
    if isinstance(structure, BySize | ToOutputs):
        for names, role in ((outputs, Role.OUTPUT), (hidden, Role.HIDDEN)):
            roles[[table.vocabulary.variable(name) for name in names]] = role
    pairs = structure.pairs(table.values, sizes, roles)
    return sizes, [*((place,) for place in range(len(sizes))), *map(tuple, pairs.tolist())]


def read_saved(path: Path) -> System:
    """A system that ``loopwise fit`` saved, or one from Python that has the names of its variables."""
    from loopwise.learn import System

    system = System.load(path)
    if system.vocabulary is None or system.roles is None:
        raise ValueError(
            f"{path} does not say what its variables are called or which are predicted; save a System with vocabulary "
            "and roles"
        )
    return system


def asked_for(system: System, columns: Sequence[str]) -> System:
    """The system with the outputs that are asked for; one of any column must be told which."""
    import numpy as np

    from loopwise.graph.evidence import Role

    assert system.vocabulary is not None and system.roles is not None
    has_outputs = bool((system.roles == Role.OUTPUT).any())
    if has_outputs and columns:
        raise ValueError(
            f"the model predicts {', '.join(output_names(system))}; --columns is for models of any column "
            "(fit --outputs all), so leave it out"
        )
    if not has_outputs:
        if not columns:
            raise ValueError("the model predicts any column; name those that are wanted by --columns")
        system.roles = np.where(
            np.isin(np.arange(len(system.roles)), [system.vocabulary.variable(name) for name in columns]),
            Role.OUTPUT,
            system.roles,
        )
    return system


def read_examples(system: System, data: Path, ignore: Sequence[str] = ()) -> Examples:
    """The rows of a table for a saved system, columns found by their names; labels that it never saw are missing."""
    from loopwise.formats.table import read_table
    from loopwise.learn import Examples

    whole = output_names(system)
    table = read_table(data, vocabulary=system.vocabulary, ignore=ignore, unseen_is_missing=True, whole=whole)
    assert system.roles is not None
    return Examples.of(system.graph, table.values, system.roles)


def tell_of_unmet(path: Path, system: System, examples: Examples) -> None:
    """Warns of rows that miss what training never missed, where the file of the system says what that is."""
    import numpy as np

    from loopwise.apps.table.missingness import warn_of_unmet
    from loopwise.learn.files.container import read_container

    met = read_container(path)[1].get("missed")
    if met is not None and system.vocabulary is not None and len(met) < len(system.vocabulary.names):
        warn_of_unmet(system.vocabulary.names, examples.values[:, : len(met)], np.array(met, dtype=np.bool_))


def predicted(system: System, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Decided values and beliefs of every row, whatever is missing in each: at once where rows can go by themselves."""
    import numpy as np

    from loopwise.decode.pointwise import Max
    from loopwise.graph.evidence import Role
    from loopwise.inference.evidence_rows import RowAnswers

    model = RowAnswers.of(system) if isinstance(system.decoder, Max) else None
    if model is None:
        return system.predict(examples).numpy(), system.predict_marginals(examples).numpy()
    beliefs = model.beliefs(examples.evidence.clamp((Role.INPUT,)))
    widest = max(each.shape[1] for each in beliefs)
    padded = np.stack([np.pad(each, ((0, 0), (0, widest - each.shape[1]))) for each in beliefs], axis=1)
    return padded.argmax(axis=2), padded


def output_names(system: System) -> list[str]:
    """The variables that a system predicts, by name."""
    from loopwise.graph.evidence import Role

    assert system.vocabulary is not None and system.roles is not None
    pairs = zip(system.vocabulary.names, system.roles.tolist(), strict=True)
    return [name for name, role in pairs if role == Role.OUTPUT]


def positive_values(vocabulary: Vocabulary, outputs: Sequence[str], label: str | None) -> tuple[int, ...]:
    """Which values count as positive: that of ``label``, or all but the first of each output."""
    from loopwise.formats.errors import quoted, shortened

    places = [vocabulary.variable(name) for name in outputs]
    if label is None:
        largest = max(len(vocabulary.labels[place]) for place in places)
        return tuple(range(1, largest)) or (0,)
    values = {}
    for name, place in zip(outputs, places, strict=True):
        if label not in vocabulary.labels[place]:
            raise ValueError(
                f"output {quoted(name)} has no label {quoted(label)}, so it cannot be the positive one; name one "
                "that it has"
            )
        values[name] = vocabulary.labels[place].index(label)
    if len(set(values.values())) > 1:
        raise ValueError(
            f"label {quoted(label)} is not the same value in every output ({shortened(values)}); train them one by one"
        )
    return (next(iter(values.values())),)


def named(text: str | None, option: str) -> list[str]:
    """The names in a list separated by commas, each once; ``option`` is how messages call the list."""
    from loopwise.formats.errors import quoted

    names = [] if text is None else [name.strip() for name in text.split(",") if name.strip()]
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ValueError(f"{option} lists {quoted(twice)} twice; name it once")
    return names
