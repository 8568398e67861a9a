"""Walking: learning inside a Markov chain, for models that message passing cannot hold and for any metric."""

from loopwise.lazy import old_names
from loopwise.walk.clustering import Clustering
from loopwise.walk.cooling import Cooling
from loopwise.walk.engines import CompiledWalks, Fastest, Plain, WalkEngine
from loopwise.walk.labelling import Labelling
from loopwise.walk.learning.averaging import Averaging
from loopwise.walk.learning.learner import Learner, WalkEpoch
from loopwise.walk.learning.learners import CD, PCD, Hybrid, SampleRank, SampleRankSVM, SampleRankSVM1
from loopwise.walk.learning.margins import ConstantMargin, Margin, OmegaMargin, ScaledMargin
from loopwise.walk.learning.perceptron import AnnealedDecoder, AveragedPerceptron, ExactDecoder
from loopwise.walk.learning.rules import Accept
from loopwise.walk.learning.steps import MIRA, AdaGrad, Decaying, Step, Unit
from loopwise.walk.learning.updates import Tally
from loopwise.walk.marginals import Marginals
from loopwise.walk.models.cluster_model import ClusterModel, MentionDocument, all_pairs, shared_rows
from loopwise.walk.models.graph_model import GraphDocument, GraphModel
from loopwise.walk.models.model import Model
from loopwise.walk.models.user_model import CompiledModel, WalkFunctions
from loopwise.walk.mover import BalancedMover, MentionMover, Mixture, SplitMerge
from loopwise.walk.pairs import Pair
from loopwise.walk.plan import Sweeps
from loopwise.walk.proposal import ALWAYS, Proposal, Proposed, Ranked, Walker
from loopwise.walk.randomness import Stream
from loopwise.walk.signal import Signal, WholeWorld
from loopwise.walk.single_site import AllValues, ForcedFlip, GibbsChange, UniformChange
from loopwise.walk.world import Move, Start, World

__all__ = [
    "ALWAYS",
    "CD",
    "MIRA",
    "PCD",
    "Accept",
    "AdaGrad",
    "AllValues",
    "AnnealedDecoder",
    "AveragedPerceptron",
    "Averaging",
    "BalancedMover",
    "ClusterModel",
    "Clustering",
    "CompiledModel",
    "CompiledWalks",
    "ConstantMargin",
    "Cooling",
    "Decaying",
    "ExactDecoder",
    "Fastest",
    "ForcedFlip",
    "GibbsChange",
    "GraphDocument",
    "GraphModel",
    "Hybrid",
    "Labelling",
    "Learner",
    "Margin",
    "Marginals",
    "MentionDocument",
    "MentionMover",
    "Mixture",
    "Model",
    "Move",
    "OmegaMargin",
    "Pair",
    "Plain",
    "Proposal",
    "Proposed",
    "Ranked",
    "SampleRank",
    "SampleRankSVM",
    "SampleRankSVM1",
    "ScaledMargin",
    "Signal",
    "SplitMerge",
    "Start",
    "Step",
    "Stream",
    "Sweeps",
    "Tally",
    "UniformChange",
    "Unit",
    "WalkEngine",
    "WalkEpoch",
    "WalkFunctions",
    "Walker",
    "WholeWorld",
    "World",
    "all_pairs",
    "shared_rows",
]

__getattr__ = old_names(
    __name__, {"Compiled": "CompiledWalks", "Engine": "WalkEngine", "Epoch": "WalkEpoch", "Gibbs": "GibbsChange"}
)
