"""Factors that are programs instead of tables: trees, chains, one of many, grammars, parity, counts, logic."""

from loopwise.graph.structured.at_most_one import AtMostOne
from loopwise.graph.structured.automaton import Automaton
from loopwise.graph.structured.base import StructuredFactor
from loopwise.graph.structured.chain import Chain
from loopwise.graph.structured.compiled import CompiledMessages
from loopwise.graph.structured.count import Count
from loopwise.graph.structured.edges import all_edges
from loopwise.graph.structured.exactly_one import ExactlyOne
from loopwise.graph.structured.hypergraph import Hypergraph
from loopwise.graph.structured.logic import And, Implies, Or
from loopwise.graph.structured.parity import Parity
from loopwise.graph.structured.projective_tree import ProjectiveTree
from loopwise.graph.structured.tree import Tree

__all__ = [
    "And",
    "AtMostOne",
    "Automaton",
    "Chain",
    "CompiledMessages",
    "Count",
    "ExactlyOne",
    "Hypergraph",
    "Implies",
    "Or",
    "Parity",
    "ProjectiveTree",
    "StructuredFactor",
    "Tree",
    "all_edges",
]
