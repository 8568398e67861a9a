"""Bayesian networks in the interchange format BIF.

In: a ``.bif`` file. Out: a :class:`TableModel` of kind ``BAYES`` with the names of its variables and values; and back.
The file has a block for each variable, ``variable flu { type discrete [ 2 ] { no, yes }; }``, and one for each
conditional distribution, ``probability ( flu | season ) { (winter) 0.9, 0.1; ... }``; or ``table`` and all entries, the
variable itself changing slowest and the last of its parents fastest; or ``default`` for the rows that are not listed.
Properties are skipped, comments are those of C++.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.errors import FormatError, quoted
from loopwise.formats.files import PathLike, atomic_write, display_name, read_text
from loopwise.formats.model import MAXIMUM_AXES, MAXIMUM_OMITTED_ENTRIES, ModelKind, TableModel, check_model
from loopwise.formats.numbers import bounded_product, number_in
from loopwise.formats.vocabulary import Vocabulary

ROUNDING = 0.01  # by how much the probabilities of a row may miss 1: files round them
_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"]*\"|[{}()\[\],;|]|[^\s{}()\[\],;|\"]+|\"", re.DOTALL)
_PLAIN = re.compile(r"[^\s{}()\[\],;|\"/]+")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Token:
    text: str
    line: int


@dataclass
class _Network:
    """What has been read so far."""

    where: str
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    distributions: dict[str, tuple[tuple[str, ...], Floats]] = field(default_factory=dict)

    def known(self, name: _Token) -> str:
        if name.text not in self.values:
            raise FormatError(
                self.where,
                name.line,
                f"no variable is called {quoted(name.text)}; declare it above, in a block",
            )
        return name.text


class _Tokens:
    """The words of a file, one after another."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        self.found = list(_tokens(where, text))
        self.place = 0

    def error(self, message: str, token: _Token | None = None) -> FormatError:
        last = self.found[-1].line if self.found else None
        return FormatError(self.where, last if token is None else token.line, message)

    @property
    def ended(self) -> bool:
        return self.place >= len(self.found)

    def next(self, what: str) -> _Token:
        """The next word, whatever it is; ``what`` is what messages say should be there."""
        if self.ended:
            raise self.error(f"the file ends where {what} should be")
        self.place += 1
        return self.found[self.place - 1]

    def word(self, what: str) -> _Token:
        """A name or a number; quotes around it are taken off."""
        token = self.next(what)
        if token.text in "{}()[],;|":
            raise self.error(f"{quoted(token.text)} stands where {what} should be", token)
        text = token.text[1:-1] if token.text.startswith('"') else token.text
        if not text:
            raise self.error(f"there is nothing between the quotation marks where {what} should be", token)
        return _Token(text, token.line)

    def take(self, text: str, what: str) -> _Token:
        """This very word."""
        token = self.next(f"{quoted(text)} ({what})")
        if token.text != text:
            raise self.error(f"{quoted(token.text)} stands where {quoted(text)} should be ({what})", token)
        return token

    def at(self, text: str) -> bool:
        """Whether this word is next; it is then taken."""
        if self.ended or self.found[self.place].text != text:
            return False
        self.place += 1
        return True

    def skip_property(self) -> None:
        while self.next("the end of a property, ';'").text != ";":
            pass

    def listed(self, end: str, what: str) -> list[_Token]:
        """Words up to ``end``, with or without commas between them."""
        found = []
        while not self.at(end):
            found.append(self.word(what))
            self.at(",")
        return found


def read_bif(path: PathLike) -> TableModel:
    """The Bayesian network of a ``.bif`` file, plain or ``.gz``: a factor for each variable, in the file's order.

    The scope of a factor is the variable's parents and then itself. Numbers are taken as they are; the rows of a
    distribution must sum to 1 up to rounding (:data:`ROUNDING`). O(bytes).

    Raises
    ------
    FormatError
        Where something is not BIF, names what is not declared, or is not a distribution; it names the line.
    """
    where = display_name(path)
    tokens, network = _Tokens(where, read_text(path)), _Network(where)
    while not tokens.ended:
        head = tokens.next("a block")
        if head.text == "network":
            _skip_network(tokens)
        elif head.text == "variable":
            _read_variable(tokens, network)
        elif head.text == "probability":
            _read_distribution(tokens, network)
        else:
            raise tokens.error(
                f"{quoted(head.text)} begins no block of a BIF file; blocks are network, variable and probability", head
            )
    return _model(network)


def write_bif(path: PathLike, model: TableModel) -> None:
    """Writes a Bayesian network so that reading gives back the same numbers exactly.

    Raises
    ------
    ValueError
        If the factors are not one conditional distribution for each variable, which comes last in its scope: BIF has
        no room for other models; write them as ``.uai`` or ``.fg``.
    """
    check_model(model)
    _check_bayesian(model)
    vocabulary = model.names
    names = [_written(name) for name in vocabulary.names]
    labels = [[_written(label) for label in known] for known in vocabulary.labels]
    with atomic_write(path) as out:
        out.write("network unknown {\n}\n")
        for name, known in zip(names, labels, strict=True):
            out.write(f"variable {name} {{\n  type discrete [ {len(known)} ] {{ {', '.join(known)} }};\n}}\n")
        for scope, table in zip(model.scopes, model.tables, strict=True):
            *parents, own = scope
            given = f" | {', '.join(names[parent] for parent in parents)}" if parents else ""
            out.write(f"probability ( {names[own]}{given} ) {{\n")
            if not parents:
                out.write(f"  table {_row(table)};\n")
            for place in np.ndindex(*table.shape[:-1]) if parents else ():
                values = ", ".join(labels[parent][value] for parent, value in zip(parents, place, strict=True))
                out.write(f"  ({values}) {_row(table[place])};\n")
            out.write("}\n")


# --- Reading ---------------------------------------------------------------------------------------------------------


def _tokens(where: str, text: str) -> Iterator[_Token]:
    line, end = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", end, match.start())
        end = match.start()
        found = match[0]
        if found == '"':
            raise FormatError(where, line, 'a quotation mark opens here and nothing closes it; write "name"')
        if found.startswith("/*") and (len(found) < 4 or not found.endswith("*/")):
            raise FormatError(where, line, "a comment opens here and nothing closes it; end it by */")
        if not found.startswith(("//", "/*")):
            yield _Token(found, line)


def _skip_network(tokens: _Tokens) -> None:
    while tokens.next("'{' of the network block").text != "{":
        pass
    while not tokens.at("}"):
        tokens.take("property", "or '}', in a network block")
        tokens.skip_property()


def _read_variable(tokens: _Tokens, network: _Network) -> None:
    name = tokens.word("the name of a variable")
    if name.text in network.values:
        raise tokens.error(f"variable {quoted(name.text)} is declared twice; give each a name of its own", name)
    tokens.take("{", f"the block of variable {quoted(name.text)}")
    while not tokens.at("}"):
        if tokens.at("property"):
            tokens.skip_property()
            continue
        tokens.take("type", f"or property, in the block of variable {quoted(name.text)}")
        kind = tokens.word("the type of a variable")
        if kind.text != "discrete":
            raise tokens.error(f"variable {quoted(name.text)} is {kind.text}; only discrete ones are supported", kind)
        network.values[name.text] = _read_values(tokens, name)
    if name.text not in network.values:
        raise tokens.error(f"variable {quoted(name.text)} has no type; write type discrete [ 2 ] {{ no, yes }};", name)


def _read_values(tokens: _Tokens, name: _Token) -> tuple[str, ...]:
    tokens.take("[", "the number of values")
    count = tokens.word("the number of values")
    tokens.take("]", "after the number of values")
    tokens.take("{", f"the values of variable {quoted(name.text)}")
    values = [token.text for token in tokens.listed("}", "a value")]
    tokens.at(";")
    if str(len(values)) != count.text:
        raise tokens.error(
            f"variable {quoted(name.text)} lists {len(values)} values and says [ {count.text} ]; both must be the same",
            count,
        )
    if not values:
        raise tokens.error(f"variable {quoted(name.text)} has no value; give it at least one", count)
    twice = next((value for place, value in enumerate(values) if value in values[:place]), None)
    if twice is not None:
        raise tokens.error(f"variable {quoted(name.text)} lists the value {quoted(twice)} twice; list it once", count)
    return tuple(values)


def _read_distribution(tokens: _Tokens, network: _Network) -> None:
    tokens.take("(", "after probability")
    name = tokens.word("the name of a variable")
    own = network.known(name)
    tokens.at("|")
    parents = [network.known(token) for token in tokens.listed(")", "a parent, or ')'")]
    if own in network.distributions:
        raise tokens.error(f"variable {quoted(own)} has two distributions; leave one of them", name)
    scope = (*parents, own)
    if len(set(scope)) < len(scope):
        raise tokens.error(f"the distribution of {quoted(own)} names a variable twice; name each once", name)
    table = _room(tokens, network, name, scope)
    tokens.take("{", f"the distribution of {quoted(own)}")
    filled = np.zeros(table.shape[:-1], dtype=np.bool_)
    default: Floats | None = None
    while not tokens.at("}"):
        if tokens.at("property"):
            tokens.skip_property()
        elif tokens.at("table"):
            entries = _numbers(tokens, name, table.size, f"the table of {quoted(own)}")
            table[...] = np.moveaxis(entries.reshape(table.shape[-1], *table.shape[:-1]), 0, -1)
            filled[...] = True
        elif tokens.at("default"):
            default = _numbers(tokens, name, table.shape[-1], f"the default of {quoted(own)}")
        else:
            place = _read_place(tokens, network, own, parents)
            table[place] = _numbers(tokens, name, table.shape[-1], f"a row of {quoted(own)}")
            filled[place] = True
    if default is not None:
        table[~filled] = default
    elif not filled.all():
        missing = _described(network, parents, tuple(np.argwhere(~filled)[0].tolist()))
        raise tokens.error(f"the distribution of {quoted(own)} has no row{missing}; give it, or a default", name)
    _check_rows(tokens, network, name, parents, table)
    network.distributions[own] = scope, table


def _room(tokens: _Tokens, network: _Network, name: _Token, scope: tuple[str, ...]) -> Floats:
    """The table of a distribution, if it may be made: a short file must not ask for any amount of memory."""
    shape = tuple(len(network.values[variable]) for variable in scope)
    most = max(len(tokens.found), MAXIMUM_OMITTED_ENTRIES)
    if len(shape) > MAXIMUM_AXES or bounded_product(shape, most) > most:
        raise tokens.error(
            f"the distribution of {quoted(name.text)} given {len(shape) - 1} parents has too many entries; at most "
            f"{MAXIMUM_AXES - 1} parents and {MAXIMUM_OMITTED_ENTRIES} entries are supported",
            name,
        )
    return np.zeros(shape)


def _read_place(tokens: _Tokens, network: _Network, own: str, parents: list[str]) -> tuple[int, ...]:
    opening = tokens.take("(", f"a row of {quoted(own)}, or table, default or property")
    values = tokens.listed(")", "the value of a parent, or ')'")
    if len(values) != len(parents):
        raise tokens.error(
            f"a row of {quoted(own)} gives {len(values)} values to {len(parents)} parents; give each one", opening
        )
    place = []
    for parent, value in zip(parents, values, strict=True):
        known = network.values[parent]
        if value.text not in known:
            raise tokens.error(
                f"variable {quoted(parent)} has no value {quoted(value.text)}; it has {', '.join(map(quoted, known))}",
                value,
            )
        place.append(known.index(value.text))
    return tuple(place)


def _numbers(tokens: _Tokens, name: _Token, count: int, what: str) -> Floats:
    found = tokens.listed(";", "a probability, or ';'")
    values = []
    for token in found:
        number = number_in(token.text)
        if number is None or not 0 <= number < np.inf:
            raise tokens.error(
                f"{what} holds {quoted(token.text)}; probabilities are numbers, finite and not negative", token
            )
        values.append(number)
    if len(values) != count:
        raise tokens.error(f"{what} has {len(values)} probabilities; {count} are needed", found[0] if found else name)
    return np.array(values)


def _check_rows(tokens: _Tokens, network: _Network, name: _Token, parents: list[str], table: Floats) -> None:
    sums = table.sum(-1)
    bad = np.argwhere(np.abs(sums - 1.0) > ROUNDING)
    if len(bad):
        place = tuple(bad[0].tolist())
        raise tokens.error(
            f"the probabilities of {quoted(name.text)}{_described(network, parents, place)} sum to "
            f"{float(sums[place]):.6g}; they must sum to 1",
            name,
        )


def _described(network: _Network, parents: list[str], place: tuple[int, ...]) -> str:
    given = ", ".join(f"{p} = {network.values[p][value]}" for p, value in zip(parents, place, strict=True))
    return f" given {given}" if given else ""


def _model(network: _Network) -> TableModel:
    if not network.values:
        raise FormatError(network.where, None, "the file declares no variable; give it variable blocks")
    number = {name: place for place, name in enumerate(network.values)}
    lost = next((name for name in network.values if name not in network.distributions), None)
    if lost is not None:
        raise FormatError(
            network.where, None, f"variable {quoted(lost)} has no distribution; add probability ( {lost} ) {{ ... }}"
        )
    chosen = [network.distributions[name] for name in network.values]
    scopes = tuple(tuple(number[name] for name in scope) for scope, _ in chosen)
    _check_acyclic(network, scopes)
    return TableModel(
        np.array([len(values) for values in network.values.values()], dtype=np.int64),
        scopes,
        [table for _, table in chosen],
        ModelKind.BAYES,
        vocabulary=Vocabulary(tuple(network.values), tuple(network.values.values())),
    )


def _check_acyclic(network: _Network, scopes: tuple[tuple[int, ...], ...]) -> None:
    stuck = _cycle(scopes)
    if stuck is not None:
        name = list(network.values)[stuck]
        raise FormatError(
            network.where, None, f"variable {quoted(name)} is, by way of others, its own parent; remove a parent"
        )


def _cycle(scopes: tuple[tuple[int, ...], ...]) -> int | None:
    """A variable that lies on a cycle of parents or below one, None if there is none."""
    waiting = {scope[-1]: set(scope[:-1]) for scope in scopes}
    children: dict[int, list[int]] = {}
    for own, parents in waiting.items():
        for parent in parents:
            children.setdefault(parent, []).append(own)
    ready = [own for own, parents in waiting.items() if not parents]
    while ready:
        done = ready.pop()
        del waiting[done]
        for child in children.get(done, ()):
            waiting[child].discard(done)
            if not waiting[child]:
                ready.append(child)
    return next(iter(waiting), None)


# --- Writing ---------------------------------------------------------------------------------------------------------


def _check_bayesian(model: TableModel) -> None:
    own = [scope[-1] for scope in model.scopes if scope]
    remedy = "write the model as .uai or .fg"
    if sorted(own) != list(range(model.variables)) or len(own) != model.factors:
        raise ValueError(
            "BIF holds Bayesian networks, a conditional distribution for each variable, which comes last in its scope; "
            f"this model has other factors: {remedy}"
        )
    for scope, table in zip(model.scopes, model.tables, strict=True):
        off = float(np.abs(table.sum(-1) - 1.0).max(initial=0.0))
        if off > ROUNDING:
            name = model.names.names[scope[-1]]
            raise ValueError(f"a row of the factor of variable {quoted(name)} sums to {1 + off:.6g} or less; {remedy}")
    if _cycle(model.scopes) is not None:
        raise ValueError(f"a variable is, by way of others, its own parent, so this is no Bayesian network; {remedy}")


def _written(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return name
    if '"' in name or not name:
        raise ValueError(f"BIF cannot hold the name {quoted(name)}; rename it, without quotation marks")
    return f'"{name}"'


def _row(values: Floats) -> str:
    return ", ".join(map(repr, np.asarray(values, dtype=np.float64).tolist()))
