"""Models of chains in files: rules, decoders, weights, links, and back.

In: parts of a fitted model. Out: JSON and tensors; from a checked record, the parts. Stage: use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.chain.skip import Skip
from loopwise.decode.chains import ChainDecoder, Posterior, Viterbi
from loopwise.decode.rules import Flags, Rules
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference
from loopwise.learn.chain.problem import ChainWeights
from loopwise.learn.files.describe import Builder, Describer
from loopwise.learn.files.fields import FieldError, Record

_DECODERS: dict[str, type[Viterbi] | type[Posterior]] = {"Viterbi": Viterbi, "Posterior": Posterior}


def describe_decoder(decoder: ChainDecoder) -> dict[str, Any]:
    """JSON for a decoder of chains, if it is one of ours."""
    name = type(decoder).__name__
    if type(decoder) is not _DECODERS.get(name):
        raise ValueError(
            f"a model with a decoder of class {name} cannot be saved, since loading would have to run code that is not "
            "loopwise's; set decoder to Viterbi() or Posterior() before saving"
        )
    return {"class": name, "valid": decoder.valid}


def read_decoder(told: Record) -> ChainDecoder:
    """What :func:`describe_decoder` described."""
    return _DECODERS[told.choice("class", _DECODERS)](valid=told.flag("valid"))


def kept_rules(rules: Rules | None) -> dict[str, Any] | None:
    """Rules as JSON."""
    if rules is None:
        return None
    return {name: getattr(rules, name).astype(int).tolist() for name in ("first", "follow", "last")}


def read_rules(told: Record, states: int) -> Rules | None:
    """What :func:`kept_rules` wrote."""

    def flags(name: str, shape: tuple[int, ...]) -> Flags:
        found: NDArray[Any] = np.array(given.raw(name))
        if found.shape != shape or found.dtype.kind not in "bi" or not np.isin(found, (0, 1)).all():
            raise ValueError(f"the rules {name!r} must be 0 or 1 for each of {states} tags")
        return found.astype(np.bool_)

    if told.raw("rules") is None:
        return None
    given = told.record("rules")
    return Rules(flags("first", (states,)), flags("follow", (states, states)), flags("last", (states,)))


def read_weights(told: Record, features: int, step_features: int, states: int) -> ChainWeights:
    """The weights of a file."""
    unary, pair = told.weights("unary", (features, states)), told.weights("pair", (step_features, states * states))
    vector = np.concatenate([unary.reshape(-1), pair.reshape(-1)])
    return ChainWeights.of_vector(vector, features, step_features, states)


_NO_GRAPH = FactorGraph([2], {})  # methods of inference are described without one


def kept_skip(skip: Skip | None) -> dict[str, Any] | None:
    """Links as JSON."""
    if skip is None:
        return None
    describer = Describer(_NO_GRAPH, {})
    inference = describer.describe(skip.inference, "skip.inference")
    if describer.tensors:
        raise ValueError(
            f"the links of this model use {type(skip.inference).__name__} with weights of its own, which its file does "
            "not hold; choose a method without"
        )
    equal = list(skip.equal) if isinstance(skip.equal, list | tuple) else skip.equal
    return {"equal": equal, "neighbours": skip.neighbours, "inference": inference}


def read_skip(told: Record) -> Skip | None:
    """What :func:`kept_skip` wrote; files of before there were links have none."""
    if "skip" not in told or told.raw("skip") is None:
        return None
    given = told.record("skip")
    equal = given.raw("equal")
    if any(isinstance(one, bool) or not isinstance(one, str | int) for one in _listed(equal)):
        raise FieldError("skip.equal", "must be templates, keys or numbers of columns")
    inference = Builder(_NO_GRAPH, {}).build(given.raw("inference"), "skip.inference")
    if inference is not None and not isinstance(inference, Inference):
        raise FieldError("skip.inference", "describes no method of inference")
    return Skip(equal, given.maybe("neighbours", lambda record, name: record.whole(name, 1)), inference)


def _listed(equal: Any) -> list[Any]:
    return equal if isinstance(equal, list) else [equal]
