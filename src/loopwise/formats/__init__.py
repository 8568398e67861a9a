"""File formats: text in, plain arrays out, and back."""

from loopwise.formats.bif import read_bif, write_bif
from loopwise.formats.by_extension import read_model, write_model
from loopwise.formats.errors import FormatError
from loopwise.formats.fg import read_fg, write_fg
from loopwise.formats.files import atomic_write, atomic_write_bytes, open_bytes, read_bytes, read_text
from loopwise.formats.limits import ReadingLimits, current_limits, limits
from loopwise.formats.model import ModelKind, TableModel, check_model
from loopwise.formats.uai import read_uai, write_uai
from loopwise.formats.uai_solutions import (
    read_evidence,
    read_map,
    read_mar,
    read_pr,
    write_evidence,
    write_map,
    write_mar,
    write_pr,
)
from loopwise.formats.vocabulary import Vocabulary
from loopwise.lazy import old_names

__all__ = [
    "FormatError",
    "ModelKind",
    "ReadingLimits",
    "TableModel",
    "Vocabulary",
    "atomic_write",
    "atomic_write_bytes",
    "check_model",
    "current_limits",
    "limits",
    "open_bytes",
    "read_bif",
    "read_bytes",
    "read_evidence",
    "read_fg",
    "read_map",
    "read_mar",
    "read_model",
    "read_pr",
    "read_text",
    "read_uai",
    "write_bif",
    "write_evidence",
    "write_fg",
    "write_map",
    "write_mar",
    "write_model",
    "write_pr",
    "write_uai",
]

__getattr__ = old_names(__name__, {"Limits": "ReadingLimits"})
