"""Random models against enumeration (``make oracle MINUTES=10``).

In: graphs of arity 0 to 5 and cardinality 1 to 7 (:mod:`fuzz.truth`), with random potentials up to 1e4 in size, hard
zeros, float32 and float64, batches, evidence. Out: a verdict for each model. What is called exact is exact; what is
called a bound is one; engines agree; what converged on a forest without a warning is right; an impossible model is
called impossible; nothing is NaN; gradients are those of central differences.

Case ``number`` of ``seed`` is always the same batch of models and the same methods.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import loopwise as lw
from fuzz.campaign import BrokenError, Budget, Failure, Tally, choose_kinds, options, place_of, read_case, told
from fuzz.truth import FREE, SHAPES, Array, Shape, Truth
from loopwise.notices import ImpossibleError, LoopwiseWarning

NAME = "oracle"
BATCHES = (1, 1, 2, 5, 16, 33)
SIGMAS = (0.3, 1.0, 1.0, 2.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4)
PATIENT = 5  # examples that the reference engine is given at most
JITTERS = 10  # small changes that are tried to find out whether an order of messages is a tie
GENTLE = 2.0  # sigma up to which gradients are compared with differences
SCHEDULES = {"flooding": lw.inference.Flooding(), "sequential": lw.Sequential(), "residual": lw.inference.Residual()}
# A kernel is compiled for each size, type and method, which takes seconds: not every graph is tried in every way.
SINGLE = ("chain of 2", "mixed tree", "grid of 3", "ring of 5", "five in a loop")  # in float32 too
MAXIMISED = ("chain of 2", "chain of 3", "mixed tree", "triples", "complete of 2", "tangle")  # by max-product
DIFFERENTIATED = ("chain of 2", "mixed tree", "grid of 3", "ring of 4", "tangle")
EPSILON = {torch.float64: 2.2e-16, torch.float32: 1.2e-7}

GRAPHS: dict[str, lw.FactorGraph] = {}


def graph_of(shape: Shape) -> lw.FactorGraph:
    """The library's graph of a shape, made once: it remembers its layout."""
    if shape.name not in GRAPHS:
        scopes = {name: np.array(rows, dtype=np.int64).reshape(len(rows), -1) for name, rows in shape.groups.items()}
        GRAPHS[shape.name] = lw.FactorGraph(list(shape.cardinalities), scopes)
    return GRAPHS[shape.name]


# --- One case --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A batch of models on one graph, and all there is to know about them."""

    number: int
    shape: Shape
    sigma: float
    dtype: torch.dtype
    tables: dict[str, torch.Tensor]
    evidence: Array  # [batch, variables]
    truth: Truth
    plain: bool  # no two numbers are alike, none is zero

    @property
    def batch(self) -> int:
        return len(self.evidence)

    @property
    def graph(self) -> lw.FactorGraph:
        return graph_of(self.shape)

    @property
    def given(self) -> Any:
        """The evidence as an inference call takes it."""
        return None if (self.evidence == FREE).all() else self.evidence

    def rounding(self) -> Array:
        """What rounding may do to a log-potential of each model, ``[batch]``."""
        return EPSILON[self.dtype] * (1 + self.truth.scale) * (1 + self.shape.factors)


def make_case(seed: int, number: int, shapes: Sequence[Shape] = SHAPES, largest: int = BATCHES[-1]) -> Case:
    """Draws a case."""
    rng = np.random.default_rng([seed, number])
    shape = shapes[int(rng.integers(len(shapes)))]
    batch = min(int(rng.choice(BATCHES)), largest)
    sigma = float(rng.choice(SIGMAS))
    dtype = torch.float32 if shape.name in SINGLE and rng.random() < 0.5 else torch.float64
    zeros = float(rng.choice([0.0, 0.0, 0.2, 0.5]))
    rounded, shifted = rng.random() < 0.2, rng.random() < 0.15
    sure = rng.random() < 0.9  # one configuration of each model stays possible
    if zeros and not sure:
        batch = 1
    possible = rng.integers(0, np.array(shape.cardinalities), (batch, len(shape.cardinalities)))
    tables = {}
    for name, scopes in shape.groups.items():
        table = sigma * rng.normal(size=(batch, len(scopes), *shape.table_shape(name)))
        if rounded:
            table = np.round(table)
        if shifted:
            table = table + rng.choice([-1e4, 1e4])
        forbidden = rng.random(table.shape) < zeros
        if sure:
            for row, scope in enumerate(scopes):
                forbidden[(np.arange(batch), row, *(possible[:, variable] for variable in scope))] = False
        table = np.where(forbidden, -np.inf, table)
        tables[name] = torch.tensor(table).to(dtype)
    evidence = np.full(possible.shape, FREE)
    if rng.random() < 0.3:
        seen = rng.random(possible.shape if rng.random() < 0.5 else possible.shape[1:]) < 0.4
        evidence = np.where(np.broadcast_to(seen, possible.shape), possible, FREE)
    exactly = {name: table.double().numpy() for name, table in tables.items()}
    truth = Truth(shape, exactly, evidence)
    return Case(number, shape, sigma, dtype, tables, evidence, truth, not (rounded or zeros))


# --- Calls -----------------------------------------------------------------------------------------------------------


def call(method: lw.inference.Inference, case: Case) -> tuple[Any, list[str]]:
    """Beliefs, and the library's warnings. Other warnings are a failure."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            beliefs = method(case.graph, case.tables, case.given)
            log_z = None if isinstance(method, lw.Gibbs) else beliefs.log_partition
        except Exception as error:
            error.add_note(repr(method))
            raise
    for warning in heard:
        if not issubclass(warning.category, LoopwiseWarning):
            raise BrokenError(f"warns: {warning.category.__name__}: {str(warning.message)[:100]}")
    assert log_z is None or log_z.shape == (case.batch,)
    return beliefs, [warning.category.__name__ for warning in heard]


def claims(status: Any, what: str) -> bool:
    """Whether a status claims something of all examples."""
    return bool(torch.as_tensor(getattr(status, what)).all())


def claims_upper_bound(status: Any) -> bool:
    return any("is an upper bound" in note for note in status.notes)


class Verdict:
    """The examples of a case that failed, and why."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.failures: list[Failure] = []
        self.wrong = np.zeros(case.batch, dtype=np.bool_)

    def must(self, holds: Any, label: str, what: str, method: object, details: str = "") -> None:
        """``holds``: of each example, or of all."""
        broken = ~np.broadcast_to(np.asarray(holds, dtype=np.bool_), self.wrong.shape)
        if broken.any():
            self.wrong |= broken
            self._keep(label, what, method, int(np.argmax(broken)), details)

    def error(self, label: str, error: BaseException, method: object) -> None:
        if isinstance(error, BrokenError):
            what = str(error)
        else:
            what = f"{type(error).__name__} at {place_of(error.__traceback__)}: {str(error)[:40]}"
        self.wrong[0] = True
        self._keep(label, what, method, 0, told(error))

    def _keep(self, label: str, what: str, method: object, example: int, details: str) -> None:
        case, stream = self.case, io.BytesIO()
        np.savez(stream, evidence=case.evidence[example], **{k: t[example].numpy() for k, t in case.tables.items()})
        facts = {
            "shape": case.shape.name,
            "cardinalities": list(case.shape.cardinalities),
            "scopes": {name: [list(scope) for scope in rows] for name, rows in case.shape.groups.items()},
            "sigma": case.sigma,
            "dtype": str(case.dtype),
            "batch": case.batch,
            "example": example,
            "method": repr(method),
        }
        text = f"{method!r}\nexample {example} of {case.batch}, {case.shape.name}, sigma {case.sigma:g}, {case.dtype}\n"
        failure = Failure(
            case.number, case.shape.name, f"{label}: {what}", text + details, {"model.npz": stream.getvalue()}, facts
        )
        self.failures.append(failure)


# --- Checks ----------------------------------------------------------------------------------------------------------

Check = Callable[[Case, np.random.Generator, Verdict], None]


def engine_of(rng: np.random.Generator, case: Case) -> tuple[str, Any]:
    """One of the engines; the slow one for small batches only."""
    if case.batch <= PATIENT and rng.random() < 0.3:
        return "reference", lw.inference.Reference()
    return "compiled", lw.inference.Compiled(threads=1)


def check_numbers(case: Case, beliefs: Any, label: str, method: object, verdict: Verdict) -> Array:
    """Marginals are finite and sum to one; gives them."""
    states = beliefs.states.detach().double().numpy()
    verdict.must(np.isfinite(states).all(-1), label, "a marginal is not finite", method)
    verdict.must((states >= -1e-6).all(-1), label, "a marginal is negative", method)
    ends = np.cumsum(case.shape.cardinalities)
    for end, size in zip(ends, case.shape.cardinalities, strict=True):
        sums = states[:, end - size : end].sum(-1)
        verdict.must(np.abs(sums - 1) < 1e-4, label, "a marginal does not sum to one", method, f"{sums}")
    return states


def compare(
    case: Case,
    beliefs: Any,
    states: Array,
    label: str,
    claim: str,
    method: object,
    verdict: Verdict,
    slack: tuple[float, float],
    temperature: float = 1.0,
) -> None:
    """Marginals and log Z against the truth; ``slack``: of marginals and of log Z, beyond rounding."""
    log_z, marginals = case.truth.at(temperature)
    rounding = case.rounding() / min(temperature, 1.0)
    off = np.abs(states - marginals).max(-1)
    verdict.must(
        off <= slack[0] + 20 * rounding, label, f"{claim}, and a marginal is wrong", method, f"by {off.tolist()}"
    )
    found = beliefs.log_partition.detach().double().numpy()
    away = np.abs(found - log_z.astype(np.float64))
    allowed = slack[1] + 20 * rounding + 10 * EPSILON[case.dtype] * np.abs(log_z.astype(np.float64))
    verdict.must(away <= allowed, label, f"{claim}, and log Z is wrong", method, f"by {away.tolist()}")


def compare_factors(
    case: Case,
    beliefs: Any,
    label: str,
    method: object,
    rng: np.random.Generator,
    verdict: Verdict,
    slack: float,
    temperature: float,
) -> None:
    """Marginals of one group of factors, of an answer that is called exact."""
    name = list(case.shape.groups)[int(rng.integers(len(case.shape.groups)))]
    table = beliefs.factor(name).double().numpy().reshape(case.batch, len(case.shape.groups[name]), -1)
    off = np.abs(table - case.truth.factor(name, temperature)).max((1, 2))
    allowed = slack + 20 * case.rounding() / min(temperature, 1.0)
    verdict.must(off <= allowed, label, "called exact, and a factor's marginal is wrong", method, f"{name} by {off}")


def check_exact(case: Case, rng: np.random.Generator, verdict: Verdict) -> None:
    """Exact inference: marginals of variables and factors, log Z, at a temperature too."""
    temperature = float(rng.choice([1.0, 1.0, 0.5, 3.0]))
    method = lw.Exact(temperature=temperature)
    beliefs, heard = call(method, case)
    verdict.must(claims(beliefs.status, "exact") and not heard, "Exact", "does not call itself exact", method)
    states = check_numbers(case, beliefs, "Exact", method, verdict)
    fine = 1e-9 if case.dtype == torch.float64 else 2e-6
    compare(case, beliefs, states, "Exact", "called exact", method, verdict, (fine, fine), temperature)
    compare_factors(case, beliefs, "Exact", method, rng, verdict, fine, temperature)


def check_maximum(case: Case, rng: np.random.Generator, verdict: Verdict) -> None:
    """Joint maxima: of Exact always, of max-product where it calls itself exact."""
    schedule = str(rng.choice(list(SCHEDULES)))
    kind, engine = engine_of(rng, case)
    methods: list[tuple[str, lw.inference.Inference]] = [("Exact maximum", lw.Exact(temperature=0.0))]
    if case.shape.name in MAXIMISED:
        method = lw.BP(temperature=0.0, schedule=SCHEDULES[schedule], engine=engine)
        methods.append((f"max-product, {schedule}, {kind}", method))
    if rng.random() < 0.3:
        methods.append(("MapSearch", lw.inference.MapSearch(rounds=1)))
    for label, method in methods:
        beliefs, heard = call(method, case)
        check_numbers(case, beliefs, label, method, verdict)
        assignment = beliefs.assignment.numpy()
        inside = ((assignment >= 0) & (assignment < np.array(case.shape.cardinalities))).all(-1)
        verdict.must(inside, label, "a value is out of range", method)
        known = (case.evidence == FREE) | (case.evidence == assignment)
        verdict.must(known.all(-1), label, "an assignment contradicts the evidence", method)
        if not inside.all():
            continue
        score, best = case.truth.score_of(assignment), case.truth.best
        allowed = 1e-9 + 20 * case.rounding()
        if claims(beliefs.status, "exact"):
            short = (best - score).astype(np.float64)
            verdict.must(short <= allowed, label, "called exact, and is not the maximum", method, f"short by {short}")
        check_upper_end(case, beliefs, score, label, method, rng, verdict)
        told_score = beliefs.log_partition.double().numpy()
        with np.errstate(invalid="ignore"):
            same = (np.abs(told_score - score.astype(np.float64)) <= allowed) | (told_score == score)
        verdict.must(same, label, "the score is not that of the assignment", method, f"{told_score} and {score}")
        if np.isneginf(score).any():
            verdict.must(bool(heard), label, "an assignment of score -inf comes without a warning", method)


def check_upper_end(
    case: Case, beliefs: Any, score: Array, label: str, method: object, rng: np.random.Generator, verdict: Verdict
) -> None:
    """The bound on any assignment's score that a status has (``maximum``), and whether it is right to say optimal."""
    maximum = getattr(beliefs.status, "maximum", None)
    if maximum is None or rng.random() < 0.6:  # the bound takes a run of its own
        return
    bound, allowed = maximum.bound.double().numpy(), 1e-9 + 20 * case.rounding()
    below = (case.truth.best - bound).astype(np.float64)
    verdict.must(below <= allowed, label, "its upper bound is below the maximum", method, f"by {below}")
    short = np.where(maximum.optimal.numpy(), (case.truth.best - score).astype(np.float64), 0.0)
    allowed = allowed + 1e-8 * np.abs(case.truth.best.astype(np.float64))
    verdict.must(short <= allowed, label, "called optimal, and is not the maximum", method, f"short by {short}")


def check_bracket(case: Case, beliefs: Any, temperature: float, label: str, method: object, verdict: Verdict) -> None:
    """The bounds of log Z on both sides that beliefs have (``log_partition_bounds``)."""
    if not hasattr(type(beliefs), "log_partition_bounds"):
        return
    log_z, allowed = (
        case.truth.at(temperature)[0],
        (1e-3 if case.dtype == torch.float64 else 1e-2) + 20 * case.rounding(),
    )
    lower, upper = (bound.double().numpy() for bound in beliefs.log_partition_bounds)
    verdict.must((lower - log_z).astype(np.float64) <= allowed, label, "its lower bound is above log Z", method)
    verdict.must((log_z - upper).astype(np.float64) <= allowed, label, "its upper bound is below log Z", method)


def check_bp(case: Case, rng: np.random.Generator, verdict: Verdict) -> None:
    """BP under all schedules: what it claims, and what it does not warn of."""
    schedule = str(rng.choice(list(SCHEDULES)))
    kind, engine = engine_of(rng, case)
    damping = float(rng.choice([0.0, 0.0, 0.3]))
    tolerance = float(rng.choice([1e-6, 1e-6, 1e-10, 1e-3]))
    temperature = float(rng.choice([1.0, 1.0, 1.0, 0.5]))
    iterations = int(rng.choice([100, 100, 5, 300])) if kind == "compiled" else 50
    method = lw.BP(iterations, tolerance, damping, SCHEDULES[schedule], temperature, engine)
    label = f"BP, {schedule}, {'damped, ' if damping else ''}{kind}"
    beliefs, heard = call(method, case)
    states = check_numbers(case, beliefs, label, method, verdict)
    slack = (1e-4, 1e-3) if case.dtype == torch.float64 else (1e-3, 1e-2)
    if claims(beliefs.status, "exact"):
        compare(case, beliefs, states, label, "called exact", method, verdict, slack, temperature)
        compare_factors(case, beliefs, label, method, rng, verdict, slack[0], temperature)
    elif case.shape.is_forest and claims(beliefs.status, "converged") and not heard and tolerance <= 1e-6:
        loose = (1e-3, 1e-2)
        compare(case, beliefs, states, label, "converged on a forest, no warning", method, verdict, loose, temperature)
    if not claims(beliefs.status, "exact") and rng.random() < 0.2:
        check_bracket(case, beliefs, temperature, label, method, verdict)


def check_trw(case: Case, rng: np.random.Generator, verdict: Verdict) -> None:
    """TRW under all schedules: its upper bounds, and forests."""
    schedule = str(rng.choice(list(SCHEDULES)))
    kind, engine = engine_of(rng, case)
    damping = float(rng.choice([0.0, 0.0, 0.3]))
    iterations = int(rng.choice([100, 100, 1000])) if kind == "compiled" else 50
    method = lw.TRW(iterations, float(rng.choice([1e-6, 1e-9])), damping, SCHEDULES[schedule], engine=engine)
    label = f"TRW, {schedule}, {'damped, ' if damping else ''}{kind}"
    beliefs, _ = call(method, case)
    states = check_numbers(case, beliefs, label, method, verdict)
    slack = (1e-4, 1e-3) if case.dtype == torch.float64 else (1e-3, 1e-2)
    if claims(beliefs.status, "exact"):
        compare(case, beliefs, states, label, "called exact", method, verdict, slack)
    if claims_upper_bound(beliefs.status):
        log_z, _ = case.truth.at()
        below = (log_z - beliefs.log_partition.double().numpy()).astype(np.float64)
        allowed = slack[1] + 20 * case.rounding()
        verdict.must(below <= allowed, label, "called an upper bound, and is below log Z", method, f"by {below}")


def check_mean_field(case: Case, rng: np.random.Generator, verdict: Verdict) -> None:
    """Mean field: a lower bound wherever it stops."""
    method = lw.MeanField(iterations=int(rng.choice([1, 5, 100])), restarts=int(rng.choice([1, 3])), threads=1)
    beliefs, heard = call(method, case)
    check_numbers(case, beliefs, "mean field", method, verdict)
    log_z, bound = case.truth.at()[0], beliefs.log_partition.double().numpy()
    verdict.must(~np.isnan(bound), "mean field", "its bound is NaN", method)
    above = (bound - log_z).astype(np.float64)
    verdict.must(
        above <= 1e-9 + 20 * case.rounding(), "mean field", "its lower bound is above log Z", method, f"{above}"
    )
    if np.isneginf(bound).any():
        verdict.must(bool(heard), "mean field", "a bound of -inf comes without a warning", method)


def check_gibbs(case: Case, rng: np.random.Generator, verdict: Verdict) -> None:
    """Gibbs sampling never calls itself exact; where mixing is easy, chains that agree are near."""
    method = lw.Gibbs(samples=200, burn_in=50, chains=8, seed=int(rng.integers(1 << 30)), threads=1)
    try:
        beliefs, _ = call(method, case)
    except ValueError as error:
        if "no possible configuration" in str(error):
            return  # it may be right, or have to search for longer: it says so
        raise
    verdict.must(not claims(beliefs.status, "exact"), "Gibbs", "calls itself exact", method)
    states = check_numbers(case, beliefs, "Gibbs", method, verdict)
    if case.sigma <= 1 and case.plain and claims(beliefs.status, "converged"):
        off = np.abs(states - case.truth.at()[1]).max(-1)
        verdict.must(off < 0.15, "Gibbs", "converged, and a marginal is far off", method, f"by {off}")


def check_engines(case: Case, rng: np.random.Generator, verdict: Verdict) -> None:
    """Both engines after the same sweeps."""
    schedule = str(rng.choice(list(SCHEDULES)))
    if case.dtype != torch.float64 or (schedule == "residual" and not case.plain):
        return  # equal numbers are ties, which may be broken either way
    kind = lw.BP if rng.random() < 0.6 else lw.TRW
    temperature = float(rng.choice([1.0, 1.0, 0.6, 0.0]))
    if temperature == 0 and (case.shape.name not in MAXIMISED or kind is lw.TRW):
        return
    damping, iterations = float(rng.choice([0.0, 0.3])), int(rng.integers(1, 5))
    some = slice(0, PATIENT)
    tables = {name: table[some] for name, table in case.tables.items()}
    evidence = None if case.given is None else case.evidence[some]
    methods = [
        kind(iterations, 0.0, damping, SCHEDULES[schedule], temperature, engine)
        for engine in (lw.inference.Reference(), lw.inference.Compiled(threads=1))
    ]
    found = [method(case.graph, tables, evidence) for method in methods]
    label = f"engines, {kind.__name__}, {schedule}{', max-product' if temperature == 0 else ''}"
    allowed = 1e-10 * np.maximum(1, case.truth.scale[some] / 10) / (temperature or 1.0)
    plain, fast = found
    same = np.abs((plain.states - fast.states).numpy()).max(-1) <= allowed
    tied = np.zeros(len(same), dtype=np.bool_)
    if schedule == "residual" and not same.all():
        tied = order_is_a_toss(methods, case.graph, tables, evidence, found)
    wide = np.ones(case.batch, dtype=np.bool_)
    wide[some] = same | tied
    verdict.must(wide, label, "disagree about a marginal", methods[1])
    if schedule != "residual":  # there, rounding decides whether a message is still worth sending
        wide[some] = (plain.status.sweeps == fast.status.sweeps).numpy()
        verdict.must(wide, label, "disagree about the number of sweeps", methods[1])
    if temperature:
        with np.errstate(invalid="ignore"):
            one, other = (beliefs.log_partition.numpy() for beliefs in found)
            wide[some] = (np.abs(one - other) <= allowed * (1 + np.abs(one))) | (one == other) | tied
        verdict.must(wide, label, "disagree about log Z", methods[1], f"{one} and {other}")


def order_is_a_toss(
    methods: Sequence[Any], graph: lw.FactorGraph, tables: dict[str, torch.Tensor], evidence: Any, found: Sequence[Any]
) -> Array:
    """Examples in which a change of 1e-9 changes an engine's own answer by far more: two messages are equally urgent,
    and either may go first. Where both engines keep to their answers, a difference between them is none of that."""
    toss = np.zeros(len(found[0].states), dtype=np.bool_)
    for number in range(JITTERS):
        generator = torch.Generator().manual_seed(number)
        moved = {
            name: table + 1e-9 * torch.randn(table.shape, generator=generator, dtype=table.dtype)
            for name, table in tables.items()
        }
        for method, before in zip(methods, found, strict=True):
            toss |= np.abs((method(graph, moved, evidence).states - before.states).numpy()).max(-1) > 1e-5
    return toss


def check_gradient(case: Case, rng: np.random.Generator, verdict: Verdict) -> None:
    """The derivative of a random loss along a random direction, against central differences."""
    if case.shape.name not in DIFFERENTIATED or case.dtype != torch.float64:
        return
    if case.sigma > GENTLE or not case.plain or case.truth.scale.max() > 100:
        return
    schedule = str(rng.choice(list(SCHEDULES)))
    kind, engine = engine_of(rng, case)
    choices: list[tuple[str, Any]] = [
        (f"BP, {schedule}, {kind}", lw.BP(3, 0.0, float(rng.choice([0.0, 0.3])), SCHEDULES[schedule], engine=engine)),
        (f"TRW, {schedule}, {kind}", lw.TRW(3, 0.0, 0.0, SCHEDULES[schedule], engine=engine)),
        ("Exact", lw.Exact()),
        ("mean field", lw.MeanField(iterations=4, tolerance=0.0, threads=1)),
    ]
    label, method = choices[int(rng.integers(len(choices)))]
    generator = torch.Generator().manual_seed(int(rng.integers(1 << 30)))
    leaves = {name: table.clone().requires_grad_() for name, table in case.tables.items()}
    ways = {n: torch.randn(t.shape, generator=generator, dtype=t.dtype) for n, t in leaves.items()}
    weights = torch.randn(case.batch, sum(case.shape.cardinalities), generator=generator, dtype=torch.float64)

    def loss(tables: dict[str, torch.Tensor]) -> torch.Tensor:
        beliefs = method(case.graph, tables, case.given)
        return (weights * beliefs.states).sum() + 0.1 * beliefs.log_partition.sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopwiseWarning)
        loss(leaves).backward()
        slope = sum(float((ways[name] * leaf.grad).sum()) for name, leaf in leaves.items() if leaf.grad is not None)
        gaps = []
        with torch.no_grad():
            for step in (1e-5, 1e-6, 1e-4):  # the order of messages, or a start, may jump within one of them
                ahead, behind = (
                    float(loss({n: t + sign * step * ways[n] for n, t in case.tables.items()})) for sign in (1.0, -1.0)
                )
                gaps.append(abs((ahead - behind) / (2 * step) - slope))
                if gaps[-1] <= 1e-5 * (1 + abs(slope)):
                    return
    verdict.must(False, f"gradient of {label}", "is not that of central differences", method, f"{slope}, off by {gaps}")


def check_union(case: Case, rng: np.random.Generator, verdict: Verdict) -> None:
    """The examples of a batch as parts of one union, in which each stops by itself: as in the batch."""
    schedule = str(rng.choice(list(SCHEDULES)))
    kind, engine = engine_of(rng, case)
    damping, tolerance = float(rng.choice([0.0, 0.0, 0.3])), float(rng.choice([0.0, 1e-6, 1e-3]))
    method = lw.BP(int(rng.choice([1, 4, 60])), tolerance, damping, SCHEDULES[schedule], engine=engine)
    label = f"union, {schedule}, {kind}"
    union = lw.graph.union([case.graph] * case.batch)
    joined = {name: table.reshape(-1, *table.shape[2:]) for name, table in case.tables.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopwiseWarning)
        batch = method(case.graph, case.tables, case.given)
        whole = method(union.graph, joined, None if case.given is None else case.evidence.reshape(-1))
    states, wanted = (beliefs.states.reshape(case.batch, -1).double().numpy() for beliefs in (whole, batch))
    away = np.abs(states - wanted).max(-1)
    fine = (1e-10 if case.dtype == torch.float64 else 1e-5) * np.maximum(1, case.truth.scale / 10)
    if schedule != "residual":  # there, rounding decides which of two messages goes first
        verdict.must(away <= fine + tolerance, label, "a marginal is not that of the batch", method, f"by {away}")
    verdict.must(
        claims(whole.status, "exact") == claims(batch.status, "exact"), label, "is not as exact as the batch", method
    )
    if claims(whole.status, "exact"):
        off = np.abs(states - case.truth.at()[1]).max(-1)
        slack = 1e-4 if case.dtype == torch.float64 else 1e-3
        verdict.must(off <= slack + 20 * case.rounding(), label, "called exact, and a marginal is wrong", method)


def check_auto(case: Case, rng: np.random.Generator, verdict: Verdict) -> None:
    """The method that is chosen by itself."""
    method = lw.Auto()
    beliefs, _ = call(method, case)
    states = check_numbers(case, beliefs, "Auto", method, verdict)
    if claims(beliefs.status, "exact"):
        slack = (1e-4, 1e-3) if case.dtype == torch.float64 else (1e-3, 1e-2)
        compare(case, beliefs, states, "Auto", "called exact", method, verdict, slack)


def check_impossible(case: Case, rng: np.random.Generator, verdict: Verdict) -> None:
    """A model without a possible configuration: exact inference and forests find out, nobody claims anything."""
    schedule = str(rng.choice(list(SCHEDULES)))
    kind, engine = engine_of(rng, case)
    tried: list[tuple[str, lw.inference.Inference, bool]] = [
        ("Exact", lw.Exact(), True),
        ("Exact maximum", lw.Exact(temperature=0.0), True),
        (f"BP, {schedule}, {kind}", lw.BP(schedule=SCHEDULES[schedule], engine=engine), case.shape.is_forest),
        (f"TRW, {schedule}, {kind}", lw.TRW(schedule=SCHEDULES[schedule], engine=engine), case.shape.is_forest),
        ("mean field", lw.MeanField(threads=1), False),
        ("Gibbs", lw.Gibbs(samples=20, burn_in=20, chains=4, threads=1), True),
    ]
    for label, method, certain in tried:
        name = f"impossible model, {label}"
        try:
            beliefs, heard = call(method, case)
        except ImpossibleError:
            continue
        except ValueError as error:
            if isinstance(method, lw.Gibbs) and "no possible configuration" in str(error):
                continue
            verdict.error(name, error, method)
            continue
        verdict.must(not certain, name, "is not called impossible", method)
        verdict.must(not claims(beliefs.status, "exact"), name, "is called exact", method)
        if isinstance(method, lw.MeanField):
            bound = beliefs.log_partition.numpy()
            verdict.must(np.isneginf(bound) & bool(heard), name, "has a finite bound, or no warning", method)


CHECKS: dict[str, tuple[Check, float]] = {  # and the share of cases that each is done for
    "exact": (check_exact, 1.0),
    "maximum": (check_maximum, 0.7),
    "bp": (check_bp, 1.0),
    "trw": (check_trw, 1.0),
    "mean field": (check_mean_field, 0.7),
    "gibbs": (check_gibbs, 0.1),
    "engines": (check_engines, 0.5),
    "gradient": (check_gradient, 0.5),
    "auto": (check_auto, 0.3),
    "union": (check_union, 0.5),
}


def try_case(case: Case, seed: int, chosen: Sequence[str]) -> Verdict:
    """All checks of a case."""
    verdict = Verdict(case)
    rng = np.random.default_rng([seed, case.number, 1])
    if not case.truth.possible.all():
        check_impossible(case, rng, verdict)
        return verdict
    for name, (check, share) in CHECKS.items():
        own = np.random.default_rng([seed, case.number, 2, len(name), ord(name[0])])
        if name not in chosen or own.random() >= share:
            continue
        try:
            check(case, own, verdict)
        except Exception as error:
            verdict.error(name, error, None)
    return verdict


def go_through(
    seed: int, budget: Budget, tally: Tally, chosen: Sequence[str], shapes: Sequence[Shape] = SHAPES, largest: int = 33
) -> None:
    """Cases from 0 on until the budget is spent; what is counted are models."""
    number = done = 0
    while budget.spent(done) < 1:
        tally.show(budget.spent(done))
        case = make_case(seed, number, shapes, largest)
        verdict = try_case(case, seed, chosen)
        wrong = int(verdict.wrong.sum())
        tally.add(case.shape.name, case.batch - wrong)
        for place, failure in enumerate(verdict.failures):
            tally.fail(failure, max(wrong, 1) if place == 0 else 0)
        done, number = done + case.batch, number + 1


def replay(folder: Path) -> int:
    """The case of a failure again."""
    known = read_case(folder)
    case = make_case(known["seed"], known["number"])
    verdict = try_case(case, known["seed"], list(CHECKS))
    for failure in verdict.failures:
        print(f"{failure.signature}\n{failure.told}")
    wrong = int(verdict.wrong.sum())
    print(f"{case.batch - wrong} passed, {wrong} failed")
    return int(wrong > 0)


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(NAME, "Random models against enumeration; --count is of models.", arguments)
    torch.set_num_threads(1)
    if given.replay is not None:
        return replay(given.replay)
    tally = Tally(NAME, given.seed, given.out)
    go_through(given.seed, Budget(given.minutes, given.count), tally, choose_kinds(list(CHECKS), given.only))
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
