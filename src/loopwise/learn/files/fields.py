"""Fields of a saved file, read as what they must be: types, ranges, and sizes that agree with the stored weights.

In: the JSON and the tensors of a file. Out: plain values and arrays, or a ``ValueError`` that names the field. Stage:
learning. Loaders read through this before they build anything, so that a file is never believed further than the
numbers that it holds.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, display_name

MOST_ITERATIONS = 10_000_000  # of anything a file asks for: a sweep of the smallest model takes about a microsecond
LARGEST = 2**63 - 1
LARGEST_WEIGHT = 1e100
WIDE = 1024  # letters of a class that are allowed whatever the classes are
SHOWN = 60  # characters of a wrong value in a message
# What building from a damaged description can raise; everything else is a fault of the program.
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError, AssertionError)

T = TypeVar("T")


class FieldError(ValueError):
    """A field of a file that is not what it must be."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the field {name!r} {problem}")


class OtherVersionError(ValueError):
    """A file that is in order, but of a version that this one cannot use; the message says what to do."""


def damaged(path: PathLike, what: str, problem: Exception) -> FormatError:
    """What is said of a file whose description of ``what`` could not be built."""
    if isinstance(problem, FormatError):
        return problem
    if isinstance(problem, OtherVersionError):
        return FormatError(display_name(path), None, str(problem))
    reason = f"there is no {problem.args[0]!r}" if isinstance(problem, KeyError) else " ".join(str(problem).split())
    reason = reason or type(problem).__name__
    return FormatError(display_name(path), None, f"the description of the {what} in the file is damaged: {reason}")


def shown(value: object) -> str:
    """A value for a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


@dataclass(frozen=True)
class Record:
    """One object of the JSON of a file, with the tensors of the file; ``path`` is where it stands in the JSON.

    >>> record = Record({"labels": ["a", "b"], "features": 3}, {"unary": torch.zeros(3, 2)})
    >>> record.whole("features"), record.texts("labels"), record.weights("unary", (3, 2)).shape
    (3, ('a', 'b'), (3, 2))
    >>> record.whole("labels")
    Traceback (most recent call last):
    ...
    loopwise.learn.files.fields.FieldError: the field 'labels' must be a whole number from 0 to 10000000, not ['a', 'b']
    """

    values: Any
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    path: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.values, dict):
            raise FieldError(self.path, f"must be an object with fields, not {shown(self.values)}")

    def name(self, key: str) -> str:
        """How messages call a field of this object."""
        return f"{self.path}.{key}" if self.path else key

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def raw(self, key: str) -> Any:
        """The value as it is in the file."""
        if key not in self.values:
            raise FieldError(self.name(key), "is not there")
        return self.values[key]

    def whole(self, key: str, least: int = 0, most: int = MOST_ITERATIONS) -> int:
        """A whole number."""
        value = self.raw(key)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise FieldError(self.name(key), f"must be a whole number from {least} to {most}, not {shown(value)}")
        return value

    def number(self, key: str, least: float = -math.inf, most: float = math.inf) -> float:
        """A finite number."""
        value = self.raw(key)
        if not _is_number(value) or not math.isfinite(value) or not least <= value <= most:
            within = "" if least == -math.inf and most == math.inf else f" from {least:g} to {most:g}"
            raise FieldError(self.name(key), f"must be a finite number{within}, not {shown(value)}")
        return float(value)

    def positive(self, key: str) -> float:
        """A finite number above 0."""
        value = self.number(key)
        if not value > 0:
            raise FieldError(self.name(key), f"must be above 0, not {shown(value)}")
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        return self._of_kind(key, bool, "true or false")

    def text(self, key: str) -> str:
        """A string."""
        return self._of_kind(key, str, "a text")

    def choice(self, key: str, known: Collection[str]) -> str:
        """One of some names."""
        value = self.text(key)
        if value not in known:
            raise FieldError(self.name(key), f"is {shown(value)}, which this version of loopwise does not know")
        return value

    def items(self, key: str, read: Callable[[Record, str], T]) -> tuple[T, ...]:
        """A list, of which ``read`` reads each item: ``record.items("names", Record.text)``."""
        members = self._of_kind(key, list, "a list")
        inner = Record({f"{key}[{place}]": item for place, item in enumerate(members)}, self.tensors, self.path)
        return tuple(read(inner, name) for name in inner.values)

    def texts(self, key: str, *, distinct: bool = False) -> tuple[str, ...]:
        """A list of strings."""
        found = self._of_kind(key, list, "a list of texts")
        wrong = [item for item in found if not isinstance(item, str)]
        if wrong:
            raise FieldError(self.name(key), f"must be a list of texts, but one of them is {shown(wrong[0])}")
        if distinct and len(set(found)) < len(found):
            raise FieldError(self.name(key), "lists a name twice")
        return tuple(found)

    def maybe(self, key: str, read: Callable[[Record, str], T]) -> T | None:
        """None, or what ``read`` reads."""
        return None if self.raw(key) is None else read(self, key)

    def record(self, key: str) -> Record:
        """An object within this one."""
        return Record(self.raw(key), self.tensors, self.name(key))

    def classes(self, key: str, kind: str) -> NDArray[Any]:
        """Labels of classes, of the NumPy type that the field ``kind`` names: numbers, truth values or texts."""
        try:
            dtype = np.dtype(self.text(kind))
        except (TypeError, ValueError, SyntaxError):
            raise FieldError(self.name(kind), f"is {shown(self.raw(kind))}, which is no type of NumPy") from None
        found = self._of_kind(key, list, "a list of classes")
        plain = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float), "U": (str,)}.get(dtype.kind)
        if plain is None:
            raise FieldError(self.name(kind), f"says that classes are of type {dtype}, which no label has")
        if not found or not all(
            isinstance(item, plain) and (bool in plain or type(item) is not bool) for item in found
        ):
            raise FieldError(self.name(key), f"must be a list of classes of type {dtype}, not {shown(found)}")
        # A type of a billion letters would take that much for each class.
        if dtype.kind == "U" and dtype.itemsize > 4 * max(WIDE, *map(len, found)):
            raise FieldError(self.name(kind), f"is {dtype.str}, far longer than any class")
        made = np.array(found, dtype=dtype)
        if len(set(found)) < len(found) or made.tolist() != found:
            raise FieldError(self.name(key), f"must be different classes of type {dtype}, not {shown(found)}")
        return made

    # --- Tensors -----------------------------------------------------------------------------------------------------

    def tensor(self, key: str, shape: Sequence[int | None]) -> Tensor:
        """A tensor of the file, of this shape; None stands for any size."""
        if key not in self.tensors:
            raise ValueError(f"the tensor {key!r} is not in the file")
        found = self.tensors[key]
        fits = len(shape) == found.ndim and all(
            wanted in (None, size) for wanted, size in zip(shape, found.shape, strict=True)
        )
        if not fits:
            wanted = tuple("any" if size is None else size for size in shape)
            raise ValueError(f"the tensor {key!r} is of shape {tuple(found.shape)}; it must be {wanted}")
        return found

    def weights(self, key: str, shape: Sequence[int | None], dtype: Any = np.float64) -> NDArray[Any]:
        """Finite weights of this shape."""
        tensor = self.tensor(key, shape)
        check_weights({key: tensor})
        return np.array(tensor.double().numpy(), dtype=dtype)

    def integers(
        self,
        key: str,
        shape: Sequence[int | None],
        least: int = -LARGEST - 1,
        most: int = LARGEST,
        dtype: Any = np.int64,
    ) -> NDArray[Any]:
        """Whole numbers in a range."""
        tensor = self.tensor(key, shape)
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
            raise ValueError(f"the tensor {key!r} holds {_dtype(tensor)}; it must hold whole numbers")
        found = tensor.numpy()
        if found.size and not least <= int(found.min()) <= int(found.max()) <= most:
            raise ValueError(f"the tensor {key!r} holds {found.min()} to {found.max()}; it must be {least} to {most}")
        return np.array(found, dtype=dtype)

    def _of_kind(self, key: str, kind: type[T], what: str) -> T:
        value = self.raw(key)
        if not isinstance(value, kind):
            raise FieldError(self.name(key), f"must be {what}, not {shown(value)}")
        return value


def check_weights(
    tensors: Mapping[str, Tensor], *, logarithms: Collection[str] = (), unset: Collection[str] = ()
) -> None:
    """A ``ValueError`` unless all are real numbers, and finite.

    All are at most :data:`LARGEST_WEIGHT`, since sums of larger ones overflow. ``logarithms``: names of tensors that
    may hold -inf, the logarithm of a potential of 0. ``unset``: of those that are NaN until they are known.
    None may hold +inf.
    """
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise ValueError(f"the tensor {name!r} holds {_dtype(tensor)}; weights must be floating-point numbers")
        # In double precision, since the bound itself is infinite in others.
        fine = torch.isfinite(tensor) & (tensor.double().abs() <= LARGEST_WEIGHT)
        if name in logarithms:
            fine |= tensor == -math.inf
        if name in unset:
            fine |= torch.isnan(tensor)
        if not bool(fine.all()):
            place = torch.nonzero(~fine.reshape(-1))[0].item()
            value = tensor.reshape(-1)[int(place)].item()
            raise ValueError(
                f"the tensor {name!r} holds {value} (number {place}); weights must be finite, to {LARGEST_WEIGHT:g}"
            )


def check_shapes(wanted: Mapping[str, Sequence[int]], tensors: Mapping[str, Tensor]) -> None:
    """A ``ValueError`` unless the file has tensors of these names and shapes: before any are made."""
    stored = Record({}, tensors)
    for name, shape in wanted.items():
        stored.tensor(name, tuple(shape))


# --- Options of classes ----------------------------------------------------------------------------------------------


def check_options(kind: Any, options: Mapping[str, Any], path: str) -> None:
    """A :class:`FieldError` about the first option that ``kind`` does not have, or whose type or range is not that of
    its annotation.

    Counts are at most :data:`MOST_ITERATIONS` (a seed may be any whole number); numbers are not NaN, infinite only
    where they are limits or tolerances, and limits are above 0.
    """
    hints = _hints(kind)
    for name, value in options.items():
        if hints is None:
            continue
        if name not in hints:
            raise FieldError(f"{path}.{name}", f"is no option of {kind.__name__}")
        if not _fits(value, hints[name]):
            raise FieldError(f"{path}.{name}", f"must be {_described(hints[name])}, not {shown(value)}")
        counted = name != "seed" and not _fits(0.5, hints[name])
        _check_range(name, value, f"{path}.{name}", MOST_ITERATIONS if counted else LARGEST)


def check_counts(kind: Any, options: Mapping[str, Any], path: str) -> None:
    """A :class:`FieldError` about a count above :data:`MOST_ITERATIONS`: on saving, so that the file can be loaded."""
    hints = _hints(kind) or {}
    for name, value in options.items():
        counts = isinstance(value, int | np.integer) and not isinstance(value, bool) and name != "seed"
        if counts and value > MOST_ITERATIONS and not _fits(0.5, hints.get(name, float)):
            raise FieldError(f"{path}.{name}", f"is {value}; a file holds at most {MOST_ITERATIONS}: set it lower")


def _check_range(name: str, value: Any, path: str, most: int) -> None:
    unlimited = value == math.inf and ("limit" in name or name == "tolerance") if isinstance(value, float) else False
    if isinstance(value, float) and not math.isfinite(value) and not unlimited:
        raise FieldError(path, f"must be a finite number, not {value}")
    if isinstance(value, int | float) and value <= 0 and ("limit" in name or name == "rho"):
        raise FieldError(path, f"must be above 0, not {shown(value)}")
    if isinstance(value, int) and not -most <= value <= most:
        raise FieldError(path, f"must be a whole number of at most {most}, not {shown(value)}")
    if isinstance(value, tuple):
        for item in value:
            _check_range(name, item, path, most)
    if isinstance(value, Tensor) and value.is_floating_point() and not bool(torch.isfinite(value).all()):
        raise FieldError(path, "must hold finite numbers")


def _hints(kind: Any) -> dict[str, Any] | None:
    """The annotations of what makes a ``kind``; None where they cannot be had."""
    make = kind.__init__ if inspect.isclass(kind) else kind
    try:
        if dataclasses.is_dataclass(kind):  # by class: names in its bases' annotations are those of their modules
            known = typing.get_type_hints(kind)
            return {field.name: known[field.name] for field in dataclasses.fields(kind) if field.init}
        return {name: hint for name, hint in typing.get_type_hints(make).items() if name != "return"}
    except (NameError, TypeError):
        return None


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type; what cannot be told fits."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if hint is None or hint is type(None):
        return value is None
    if hint is bool:
        return isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is float:
        return _is_number(value)
    if origin is tuple or (
        inspect.isclass(origin) and issubclass(origin, Sequence | Collection) and origin is not dict
    ):
        return _fits_collection(value, origin, inner)
    if inspect.isclass(hint) or inspect.isclass(origin):
        return _is_instance(value, hint if origin is None else origin)
    return True


def _fits_collection(value: Any, origin: Any, inner: tuple[Any, ...]) -> bool:
    if issubclass(origin, Mapping):
        return isinstance(value, dict)
    if not isinstance(value, tuple):
        return False
    if origin is tuple and not (len(inner) == 2 and inner[1] is Ellipsis):
        return len(value) == len(inner) and all(_fits(item, one) for item, one in zip(value, inner, strict=True))
    return all(_fits(item, inner[0]) for item in value) if inner else True


def _is_instance(value: Any, kind: Any) -> bool:
    if kind is np.ndarray or kind.__module__.startswith("numpy"):
        return isinstance(value, np.ndarray | tuple | float | int) and not isinstance(value, bool)
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that cannot be asked
        return not (value is None or isinstance(value, bool | int | float | str | tuple | dict))


def _described(hint: Any) -> str:
    inner = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_described(one) for one in inner))
    plain = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", type(None): "null"}
    if hint in plain:
        return plain[hint]
    name = getattr(typing.get_origin(hint) or hint, "__name__", str(hint))
    return {"tuple": "a list", "Mapping": "a mapping", "Collection": "a list", "Sequence": "a list"}.get(name, name)


def _is_number(value: object) -> bool:
    """An integer or a float that is one, +inf included; no NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max or value == math.inf


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
