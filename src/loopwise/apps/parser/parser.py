"""The parser by the path that it had before every app was made of model, features, estimator and report."""

from loopwise.apps.parser.estimator import Parser as Parser
from loopwise.apps.parser.estimator import ParseTree as ParseTree
from loopwise.lazy import moved_module

moved_module(__name__, "loopwise.apps.parser.estimator")
