"""Classifiers of tables by the path that they had before it was named after what they are for."""

from loopwise.apps.table import *  # noqa: F403
from loopwise.apps.table import __all__ as __all__
from loopwise.apps.table import __getattr__ as __getattr__
from loopwise.lazy import moved_module

moved_module(__name__, "loopwise.apps.table")
