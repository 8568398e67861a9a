"""Walks over any graph: tables, tied tables, columns, evidence."""

from __future__ import annotations

import numpy as np

import loopwise as lw
from loopwise import walk
from oracles.walk_cases import chain_documents, mixed_graph
from oracles.walk_engines import assert_alike


def test_tables_tied_tables_columns_and_evidence() -> None:
    graph = mixed_graph()
    free = np.array([True, True, False, True])
    documents = [walk.GraphDocument(graph, [0, 2, 1, 1], free=free), walk.GraphDocument(graph, [1, 0, -1, 0])]
    for potentials in (lw.TablePotentials(graph), lw.potentials.TiedTables(graph)):
        model = walk.GraphModel(potentials)
        assert_alike(walk.SampleRank, model, walk.GibbsChange(), lw.metric.Accuracy(), documents)
        assert_alike(walk.SampleRankSVM, model, walk.GibbsChange(), lw.metric.Accuracy(), documents[:1])
    tied = lw.SparsePotentials(
        {
            "unary": lw.potentials.SparseGroup((3,), 12, columns=(-1, 0, 1), table="shared"),
            "pair": lw.potentials.SparseGroup((3, 3), 12, columns=(0, 1, 1, 1, 0, 1, 1, 1, -1), table="shared"),
        }
    )
    chains = chain_documents(pair_features=12)
    assert_alike(walk.SampleRank, walk.GraphModel(tied), walk.AllValues(), lw.metric.Accuracy(), chains)
