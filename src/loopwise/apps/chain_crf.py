"""Chains of feature vectors by the path that they had before they shared a folder with the tagger."""

from loopwise.apps.chain import *  # noqa: F403
from loopwise.apps.chain import __all__ as __all__
from loopwise.apps.chain import __getattr__ as __getattr__
from loopwise.lazy import moved_module

moved_module(__name__, "loopwise.apps.chain")
