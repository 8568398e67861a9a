"""Reading a model file and its evidence: where every command on a model starts.

In: paths. Out: a graph, log-potentials, observed values, and the sizes that reports mention.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from loopwise.formats.vocabulary import Vocabulary
    from loopwise.graph.factor_graph import FactorGraph

STANDARD_STREAM = "-"


def read_problem(
    model: Path, evidence: Path | None, given: Sequence[str] = ()
) -> tuple[FactorGraph, dict[str, NDArray[np.float64]], dict[int, int], dict[str, Any]]:
    """A ``.uai``, ``.fg`` or ``.bif`` file (``-``: a ``.uai`` from standard input), a ``.evid`` file, and further
    values as ``name=value``, by the names of a ``.bif`` file or by number."""
    from loopwise.formats import read_evidence, read_model, read_uai
    from loopwise.graph.factor_graph import FactorGraph

    if str(model) == STANDARD_STREAM and evidence is not None and str(evidence) == STANDARD_STREAM:
        raise ValueError("model and evidence cannot both come from standard input; give one of them as a file")
    tables = read_uai(STANDARD_STREAM) if str(model) == STANDARD_STREAM else read_model(model)
    observed = {} if evidence is None else read_evidence(evidence, tables.cardinalities)
    graph, potentials = FactorGraph.from_model(tables)
    observed |= _values(given, tables.names, observed)
    sizes = {
        "file": str(model),
        "variables": graph.variables,
        "factors": graph.factors,
        "observed": len(observed),
    }
    return graph, potentials, observed, sizes


def _values(given: Sequence[str], names: Vocabulary, observed: dict[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for text in given:
        name, separator, label = text.partition("=")
        if not separator or not name.strip() or not label.strip():
            raise ValueError(f"--given must be NAME=VALUE, not {text!r}")
        variable = names.variable(name.strip())
        if variable in observed or variable in found:
            raise ValueError(f"variable {name.strip()!r} is given twice; leave one of them out")
        found[variable] = names.value(variable, label.strip())
    return found
