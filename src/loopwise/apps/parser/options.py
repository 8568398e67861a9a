"""What a parser is made of, as small objects.

In: what users write. Out: the bits and numbers that kernels read, models of trees and inference on them. Stage: use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loopwise.formats.errors import quoted
from loopwise.gradient.perturbation import Perturbation
from loopwise.gradient.unroll import Unroll
from loopwise.inference.base import Inference
from loopwise.inference.exact.method import Exact
from loopwise.inference.families.tree_models import ExactGrandparents, Floats, Propagated, TreeModels
from loopwise.inference.messages.message_passing import BP

FACTORS = ("grandparent", "sibling")
LARGEST_TABLE = (1 << 31) - 1
# A word's arcs read a hundred weights each, and the first steps of AdaGrad move every one of them by the rate. 0.1,
# common elsewhere, saturates beliefs within a batch, and a loss of beliefs then has no slope left (measured on EWT).
RATE = 0.01


@dataclass(frozen=True)
class Templates:
    """Which features arcs and pairs have (kernels/parser_features.py lists them), and how many weights they share.

    full: tags between and around head and modifier, and 5-letter prefixes, beside words and tags (McDonald, Crammer &
    Pereira 2005). coarse: every template with tags once more with coarse ones. rich: arcs have the words beside head
    and modifier, and tags two words off; pairs of arcs (Carreras 2007) have trigrams of words and fine tags, and
    distances. size: of the hashed table. cutoff: rarer words are unknown.
    """

    full: bool = True
    coarse: bool = True
    rich: bool = True
    size: int = 20_000_000
    cutoff: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.size <= LARGEST_TABLE:
            raise ValueError(f"the size of the table of weights must be 1 to {LARGEST_TABLE}, not {self.size}")
        if self.cutoff < 1:
            raise ValueError(f"cutoff must be at least 1, which keeps all words, not {self.cutoff}")

    @property
    def version(self) -> int:
        """Of the lists of templates, which weights belong to."""
        from loopwise.apps.parser.features.templates import VERSION

        return VERSION

    @property
    def flags(self) -> int:
        """As kernels read them."""
        from loopwise.apps.parser.features.templates import COARSE_COPIES, FULL, RICH

        return (FULL if self.full else 0) | (COARSE_COPIES if self.coarse else 0) | (RICH if self.rich else 0)


@dataclass(frozen=True)
class Pruning:
    """How arcs are cut before the model sees them (Gormley, Dredze & Eisner 2015, section 6).

    lengths: arcs longer than any seen with their coarse tags. Then a first-order model of words and tags, trained for
    ``epochs`` by likelihood at ``rate`` with ``size`` weights: heads less than ``threshold`` times as probable as the
    word's best, and all but its ``heads`` best. The arcs of that model's own parse stay. folds: training sentences are
    pruned by models that were trained on the other folds, so that they look as new sentences will; 1: by the model
    itself, which has seen them and leaves too little.
    """

    lengths: bool = True
    threshold: float = 1e-4
    heads: int = 10
    epochs: int = 3
    rate: float = 0.03  # with few features an arc, steps may be longer than those of the model itself
    size: int = 10_000_000
    folds: int = 3

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise ValueError(f"the threshold of pruning must be at least 0 and below 1, not {self.threshold}")
        for name, value in (("heads", self.heads), ("epochs", self.epochs), ("folds", self.folds)):
            if value < 1:
                raise ValueError(f"pruning needs at least 1 of its {name}, not {value}")
        if not self.rate > 0:
            raise ValueError(f"the rate of pruning must be positive, not {self.rate}")


@dataclass(frozen=True)
class ParserStructure:
    """Which pairs of arcs are scored, and which trees there are."""

    factors: tuple[str, ...] = FACTORS
    projective: bool = True
    single_root: bool = True

    @staticmethod
    def of(factors: Sequence[str], projective: bool, single_root: bool) -> ParserStructure:
        """Checked and in one order."""
        if isinstance(factors, str):
            factors = (factors,)
        wrong = next((name for name in factors if name not in FACTORS), None)
        if wrong is not None:
            raise ValueError(
                f"there is no factor {quoted(wrong)}; a parser has {' and '.join(FACTORS)}, or none of them"
            )
        return ParserStructure(tuple(name for name in FACTORS if name in factors), projective, single_root)

    @property
    def bits(self) -> int:
        """As kernels read them."""
        from loopwise.apps.parser.features.parts import GRANDPARENTS, SIBLINGS

        pairs = (GRANDPARENTS if "grandparent" in self.factors else 0) | (SIBLINGS if "sibling" in self.factors else 0)
        return pairs | self.tree_bits

    @property
    def tree_bits(self) -> int:
        """Those of the tree alone."""
        from loopwise.apps.parser.features.parts import PROJECTIVE, SINGLE_ROOT

        return (PROJECTIVE if self.projective else 0) | (SINGLE_ROOT if self.single_root else 0)

    def models(self, lengths: Any, *arrays: Any) -> TreeModels:
        """Sentences of ``lengths`` words with arcs, and pairs if any, as :meth:`TreeModels.of` takes them."""
        return TreeModels.of(lengths, *arrays, projective=self.projective, single_root=self.single_root)


@dataclass(frozen=True)
class TreeInference:
    """Inference as the models of sentences are told: exact, or so many sweeps, fewer once no belief moves by more than
    the tolerance. ``perturbed``: gradients by perturbation instead of back through the sweeps."""

    iterations: int
    tolerance: float = 0.0
    exact: bool = False
    perturbed: bool = False

    @staticmethod
    def of(inference: Inference, structure: ParserStructure) -> TreeInference:
        """``BP(iterations, tolerance)``, its gradient unrolled or by perturbation; or ``Exact()``."""
        if isinstance(inference, Exact):
            if "sibling" in structure.factors:
                raise ValueError("exact inference knows grandparents only; leave out the siblings, or use BP")
            if structure.factors and not structure.projective:
                raise ValueError("exact inference with grandparents needs projective trees; use BP for others")
            return TreeInference(1, exact=bool(structure.factors))
        if not isinstance(inference, BP):
            raise ValueError(f"a parser runs BP or Exact, not {type(inference).__name__}")
        if inference.damping != 0 or inference.temperature != 1:
            raise ValueError("the parser's BP has no damping and no temperature; its schedule is that of a tree")
        if inference.iterations < 1:
            raise ValueError(f"a parser needs at least 1 iteration of BP, not {inference.iterations}")
        if not isinstance(inference.gradient, Unroll | Perturbation):
            raise ValueError(f"the parser unrolls BP or perturbs it; it has no {type(inference.gradient).__name__}")
        iterations = inference.iterations if structure.factors else 1
        return TreeInference(iterations, inference.tolerance, perturbed=isinstance(inference.gradient, Perturbation))

    def __call__(
        self, models: TreeModels, unary: Floats, scores: Floats, taped: bool = False
    ) -> Propagated | ExactGrandparents:
        """Beliefs of arcs; ``taped``: with the way back."""
        if self.exact:
            return models.exact(unary, scores)
        return models.propagate(unary, scores, self.iterations, self.tolerance, taped=taped)
