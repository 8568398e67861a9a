"""Evidence for, and solutions of, UAI models: the small files beside a ``.uai``.

In: ``.evid``, ``.MAR`` (marginals), ``.PR`` (log10 of the partition function), ``.MAP`` (most probable
values) files of the UAI inference competitions. Out: plain values; and back. Earlier competitions put the
number of evidence samples in front; files with one sample are read in either layout, told apart by how
many numbers follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from loopwise.formats.errors import quoted, shortened
from loopwise.formats.files import PathLike, atomic_write
from loopwise.formats.numbers import Floats, Integers, NumberStream, as_int64

PROBABILITY_SLACK = 1e-5  # above 1: solvers print rounded single-precision numbers
ROUNDING = 5e-4  # of each probability in a sum that should be 1: some files have three decimals


def read_evidence(path: PathLike, cardinalities: ArrayLike | None = None) -> dict[int, int]:
    """Observed variables and their values; an empty file or ``0`` is no evidence.

    ``cardinalities`` of the model, if given, bound variables and values.
    """
    stream = NumberStream(path)
    if not stream.left:
        return {}
    # "count pairs" is an odd number of numbers, "1 count pairs" an even one.
    if stream.left % 2 == 0:
        _skip_sample_count(stream)
    count = stream.integer("the number of observed variables")
    if stream.left != 2 * count:
        raise stream.error(
            f"the file claims {count} observed variables; that many pairs of variable and value should "
            f"follow, not {stream.left} numbers",
            stream.position - 1,
        )
    start = stream.position
    pairs = stream.integers(2 * count, "variables and values")
    if cardinalities is not None:
        _check_evidence(stream, start, pairs, as_int64("cardinalities", cardinalities))
    evidence: dict[int, int] = {}
    for number, (variable, value) in enumerate(pairs.reshape(-1, 2).tolist()):
        if evidence.setdefault(variable, value) != value:
            raise stream.error(
                f"variable {variable} is observed twice, as {evidence[variable]} and as {value}; observe it once",
                start + 2 * number,
            )
    return evidence


def write_evidence(path: PathLike, evidence: Mapping[int, int]) -> None:
    """One line: the number of observed variables, then variable and value of each."""
    for variable, value in evidence.items():
        as_int64("evidence", [variable, value])
        if variable < 0 or value < 0:
            raise ValueError(f"evidence gives variable {variable} the value {value}; both must be at least 0")
    numbers = [len(evidence), *(number for pair in sorted(evidence.items()) for number in pair)]
    with atomic_write(path) as out:
        out.write(" ".join(str(int(number)) for number in numbers) + "\n")


def read_mar(path: PathLike, cardinalities: ArrayLike | None = None) -> list[Floats]:
    """The marginal distribution of every variable; ``cardinalities``, if given, must be those of the file."""
    stream = _solution(path, "MAR")
    if not _holds_marginals(stream.numbers) and _holds_marginals(stream.numbers[1:]):
        _skip_sample_count(stream)
    variables = stream.integer("the number of variables")
    stream.check_room(variables, 2, "variables")
    expected = _expected_cardinalities(stream, variables, cardinalities)
    marginals = []
    for variable in range(variables):
        size = stream.integer(f"the number of values of variable {variable}", least=1)
        if expected is not None and size != expected[variable]:
            raise stream.error(
                f"variable {variable} has {size} values here and {expected[variable]} in the model; "
                "is the file of another model?",
                stream.position - 1,
            )
        marginal = stream.take(size, f"the marginal of variable {variable}")
        fine = (marginal >= 0) & (marginal <= 1 + PROBABILITY_SLACK)
        if not fine.all():
            bad = int(np.argmin(fine))
            raise stream.error(
                f"the probability of value {bad} of variable {variable} is {marginal[bad]}; it must be from 0 to 1",
                stream.position - size + bad,
            )
        if not _sums_to_one(marginal):
            raise stream.error(
                f"the probabilities of variable {variable} sum to {marginal.sum():.6g}, not to 1; mend the file, or "
                "have it written anew",
                stream.position - size,
            )
        marginals.append(marginal)
    stream.finish()
    return marginals


def write_mar(path: PathLike, marginals: Sequence[ArrayLike]) -> None:
    """``MAR``, then on one line how many variables, and for each how many values and their probabilities."""
    words = [str(len(marginals))]
    for variable, marginal in enumerate(marginals):
        values = np.asarray(marginal, dtype=np.float64)
        fine = (values >= 0) & (values <= 1 + PROBABILITY_SLACK)
        if values.ndim != 1 or not values.size or not fine.all():
            raise ValueError(
                f"the marginal of variable {variable} must be a row of probabilities, not {shortened(values.tolist())}"
            )
        if not _sums_to_one(values):
            raise ValueError(
                f"the probabilities of variable {variable} sum to {values.sum():.6g}, not to 1; normalise them"
            )
        words.append(str(values.size))
        words.extend(map(repr, values.tolist()))
    with atomic_write(path) as out:
        out.write("MAR\n" + " ".join(words) + "\n")


def read_pr(path: PathLike) -> float:
    """log10 of the partition function; -inf where the evidence is impossible."""
    stream = _solution(path, "PR")
    if stream.left == 2:
        _skip_sample_count(stream)
    if not stream.left:
        raise stream.error("the file ends where log10 of the partition function should be")
    value = float(stream.numbers[stream.position])
    if not value < math.inf:  # NaN too
        raise stream.error(f"log10 of the partition function is {value}; it must be a number or -inf", stream.position)
    stream.position += 1
    stream.finish()
    return value


def write_pr(path: PathLike, log10_partition: float) -> None:
    """``PR``, then log10 (not the natural logarithm) of the partition function."""
    value = float(log10_partition)
    if not value < math.inf:
        raise ValueError(f"log10 of the partition function is {value}; it must be a number or -inf")
    with atomic_write(path) as out:
        out.write(f"PR\n{value!r}\n")


def read_map(path: PathLike, cardinalities: ArrayLike | None = None) -> Integers:
    """The most probable value of every variable, ``[variables]``; also from files that call the task ``MPE``.

    ``1 0`` is one variable of value 0, not one sample of no variables.
    """
    stream = _solution(path, "MAP", "MPE")
    if stream.left > 2 and stream.numbers[0] == 1:  # one variable would be two numbers in all
        _skip_sample_count(stream)
    variables = stream.integer("the number of variables")
    expected = _expected_cardinalities(stream, variables, cardinalities)
    start = stream.position
    values = stream.integers(variables, "values of the variables")
    stream.finish()
    if expected is not None:
        too_large = np.flatnonzero(values >= expected)
        if too_large.size:
            variable = int(too_large[0])
            raise stream.error(
                f"variable {variable} has the value {values[variable]}; the model gives it values 0 to "
                f"{expected[variable] - 1}",
                start + variable,
            )
    return values


def write_map(path: PathLike, values: ArrayLike) -> None:
    """``MAP``, then on one line the number of variables and their values."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and (not np.issubdtype(array.dtype, np.integer) or array.min() < 0)):
        raise ValueError(f"values must be one integer of at least 0 for each variable, not {shortened(array.tolist())}")
    with atomic_write(path) as out:
        out.write("MAP\n" + " ".join(map(str, [array.size, *array.tolist()])) + "\n")


def _sums_to_one(marginal: Floats) -> bool:
    return bool(abs(marginal.sum() - 1) <= ROUNDING * max(2, marginal.size) + 1e-9)


def _solution(path: PathLike, *headers: str) -> NumberStream:
    stream = NumberStream(path, header=True)
    if stream.word.upper() not in headers:
        raise stream.header_error(
            f"the file begins with {quoted(stream.word)}; it should begin with {' or '.join(headers)}"
        )
    return stream


def _skip_sample_count(stream: NumberStream) -> None:
    samples = stream.integer("the number of evidence samples")
    if samples != 1:
        raise stream.error(
            f"the counts do not add up, unless the file holds {samples} evidence samples; only one is supported",
            stream.position - 1,
        )


def _holds_marginals(numbers: Floats) -> bool:
    """Whether ``n K p ... K p ...`` uses up the numbers exactly; with a ``1`` in front it never does too."""
    if not len(numbers) or not 0 <= numbers[0] <= len(numbers):
        return False
    place = 1
    for _ in range(int(numbers[0])):
        if place >= len(numbers) or not 1 <= numbers[place] < len(numbers):
            return False
        place += 1 + int(numbers[place])
    return place == len(numbers)


def _expected_cardinalities(stream: NumberStream, variables: int, cardinalities: ArrayLike | None) -> Integers | None:
    if cardinalities is None:
        return None
    expected = as_int64("cardinalities", cardinalities)
    if len(expected) != variables:
        raise stream.error(
            f"the file has {variables} variables and the model {len(expected)}; is it of another model?",
            stream.position - 1,
        )
    return expected


def _check_evidence(stream: NumberStream, start: int, pairs: Integers, cardinalities: Integers) -> None:
    variables, values = pairs[0::2], pairs[1::2]
    unknown = np.flatnonzero(variables >= len(cardinalities))
    if unknown.size:
        raise stream.error(
            f"variable {variables[unknown[0]]} is observed; the model has {len(cardinalities)} variables, "
            "counted from 0",
            start + 2 * int(unknown[0]),
        )
    too_large = np.flatnonzero(values >= cardinalities[variables])
    if too_large.size:
        variable = variables[too_large[0]]
        raise stream.error(
            f"variable {variable} is observed as {values[too_large[0]]}; it has values 0 to "
            f"{cardinalities[variable] - 1}",
            start + 2 * int(too_large[0]) + 1,
        )
