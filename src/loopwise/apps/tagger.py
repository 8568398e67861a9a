"""The tagger by the path that it had before it shared a folder with chains of feature vectors."""

from loopwise.apps.chain import *  # noqa: F403
from loopwise.apps.chain import __all__ as __all__
from loopwise.apps.chain import __getattr__ as __getattr__
from loopwise.lazy import moved_module

moved_module(__name__, "loopwise.apps.chain")
