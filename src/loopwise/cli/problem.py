"""Reading a model file and its evidence: where every command on a model starts.

In: paths. Out: a graph, log-potentials, observed values, and the sizes that reports mention.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from loopwise.graph.factor_graph import FactorGraph

STANDARD_STREAM = "-"


def read_problem(
    model: Path, evidence: Path | None
) -> tuple[FactorGraph, dict[str, NDArray[np.float64]], dict[int, int], dict[str, Any]]:
    """A ``.uai`` or ``.fg`` file (``-``: a ``.uai`` from standard input) and a ``.evid`` file."""
    from loopwise.formats import read_evidence, read_model, read_uai
    from loopwise.graph.factor_graph import FactorGraph

    if str(model) == STANDARD_STREAM and evidence is not None and str(evidence) == STANDARD_STREAM:
        raise ValueError("model and evidence cannot both come from standard input; give one of them as a file")
    tables = read_uai(STANDARD_STREAM) if str(model) == STANDARD_STREAM else read_model(model)
    observed = {} if evidence is None else read_evidence(evidence, tables.cardinalities)
    graph, potentials = FactorGraph.from_factors(tables.cardinalities, tables.log_factors())
    sizes = {
        "file": str(model),
        "variables": graph.variables,
        "factors": graph.factors,
        "observed": len(observed),
    }
    return graph, potentials, observed, sizes
