"""Flooding of a small graph whose factors are pairs of literal size: probabilities, undamped, plain BP, one example.

In: tables and messages, a message's states side by side. Out: messages, in place; beliefs where asked for; and the
adjoints of these. What ``factor_step`` and ``visit_variables``, ``factors_back`` and ``variables_back`` do, with
messages as vectors: where few factors of one kind stand side by side, lanes would stay empty.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.arithmetic import U, inverse
from loopwise.compiled.decorators import fused_callee, fused_leaf
from loopwise.compiled.lane_vectors import below, most, size, store, total, where
from loopwise.inference.messages.kernels.message_vectors import collected, message_at, quick, repeated
from loopwise.inference.messages.kernels.pairs import least_mass
from loopwise.inference.messages.kernels.plan import MEMBERS, SLOT_START, TABLE_START
from loopwise.inference.messages.kernels.views import Message
from loopwise.inference.messages.kernels.views import at as value_of


@fused_callee
def transposed_tables(plan, theta, literal):
    """The tables of all factors, group by group, transposed."""
    states, groups = U(len(literal)), plan.groups
    factors = np.int64(0)
    for g in range(groups.shape[0]):
        factors += np.int64(groups[g, MEMBERS])
    tables, place = np.empty(factors * len(literal) * len(literal), theta.dtype), U(0)
    for g in range(groups.shape[0]):
        start = groups[g, TABLE_START]
        for _ in range(groups[g, MEMBERS]):
            for a in range(states):
                for b in range(states):
                    tables[place + b * states + a] = theta[start + a * states + b]
            place += states * states
            start += states * states
    return tables


@quick
def table_times(rows, n, literal, semiring):
    """The sum of the rows of a table, each times a number of ``n``; nothing beyond the table is read."""
    data, states = rows.data, U(len(literal))
    message = message_at(data, rows.start, literal) * repeated(value_of(n, U(0)), data, literal)
    for state in range(U(1), states):
        part = message_at(data, rows.start + state * states, literal) * repeated(value_of(n, state), data, literal)
        message = collected(message, part, semiring)
    return message


@quick
def send_message(rows, n, m, literal, semiring):
    """The normalised message of a factor to one of its variables into ``m``, from the other's message ``n``; returns
    the normaliser."""
    message = table_times(rows, n, literal, semiring)
    mass = total(message)
    store(m.data, m.start, message * repeated(inverse(mass, semiring), m.data, literal))
    return mass


@fused_leaf
def send_pairs(run, here, schedule, scratch, static):
    """Messages of all factors."""
    literal, semiring, groups = static.literal, static.semiring, run.plan.groups
    theta, m, n, transposed = run.potentials.theta, run.messages.m, run.messages.n, schedule.transposed
    states, least, table = U(len(literal)), scratch.lowest[0], U(0)
    for g in range(groups.shape[0]):
        given, first = groups[g, TABLE_START], groups[g, SLOT_START]
        for _ in range(groups[g, MEMBERS]):
            second = first + states
            a = send_message(
                Message(transposed, table), Message(n, here.n + second), Message(m, here.m + first), literal, semiring
            )
            b = send_message(
                Message(theta, given), Message(n, here.n + first), Message(m, here.m + second), literal, semiring
            )
            least = min(least, min(a, b))
            first = second + states
            given += states * states
            table += states * states
    scratch.lowest[0] = least


@fused_leaf
def visit_by_vectors(run, here, watch, scratch, static):
    """Messages of all variables; with ``watch`` their beliefs are renewed, too. No variable has so many factors that
    products would have to be rescaled."""
    literal, plan, semiring = static.literal, run.plan, static.semiring
    m, n, unary, beliefs = run.messages.m, run.messages.n, run.potentials.unary, run.messages.beliefs
    edge_start, edge_base, states = plan.edge_start, plan.edge_base, U(len(literal))
    moved, least = repeated(0.0, m, literal), scratch.lowest[0]
    for variable in range(U(plan.state_start.shape[0] - 1)):
        first, last = U(edge_start[variable]), U(edge_start[variable + U(1)])
        whole = message_at(unary, here.unary + variable * states, literal)
        for at in range(first, last):
            store(n, here.n + edge_base[at], whole)
            whole = whole * message_at(m, here.m + edge_base[at], literal)
        after = repeated(1.0, m, literal)
        for back in range(first, last):
            place = edge_base[first + last - U(1) - back]
            store(n, here.n + place, message_at(n, here.n + place, literal) * after)
            after = after * message_at(m, here.m + place, literal)
        if watch:
            mass, place = total(whole), here.beliefs + variable * states
            least = min(least, mass)
            belief = whole * repeated(inverse(mass, semiring), m, literal)
            moved = most(moved, size(belief - message_at(beliefs, place, literal)))
            store(beliefs, place, belief)
    store(scratch.total, U(0), moved)
    for state in range(states):
        scratch.change[0] = max(scratch.change[0], scratch.total[state])
    scratch.lowest[0] = least


@fused_leaf
def undo_pairs(run, schedule, n, adjoint, scratch, static):
    """Undoes the messages of all factors, made of the messages ``n``; adjoints of messages to factors are written."""
    literal, semiring, groups, states = static.literal, static.semiring, run.plan.groups, U(len(static.literal))
    theta, transposed, data, rates = run.theta, schedule.transposed, n.data, scratch.rates
    back, spread, sums, table = adjoint.m, adjoint.n, adjoint.theta, U(0)
    nothing, least = repeated(0.0, back, literal), repeated(least_mass(theta), back, literal)
    for g in range(groups.shape[0]):
        given, first, own = groups[g, TABLE_START], groups[g, SLOT_START], U(adjoint.theta_start[g, 0])
        for _ in range(groups[g, MEMBERS]):
            second = first + states
            rows, columns = Message(theta, given), Message(transposed, table)
            mass = table_times(columns, Message(data, n.start + second), literal, semiring)
            rate = where(below(least, mass), message_at(back, first, literal) / mass, nothing)
            store(rates, U(0), rate)
            mass = table_times(rows, Message(data, n.start + first), literal, semiring)
            rate = where(below(least, mass), message_at(back, second, literal) / mass, nothing)
            store(rates, states, rate)
            p, q = message_at(data, n.start + first, literal), message_at(data, n.start + second, literal)
            store(spread, first, p * table_times(columns, Message(rates, states), literal, semiring))
            store(spread, second, q * table_times(rows, Message(rates, U(0)), literal, semiring))
            for a in range(states):
                row = message_at(theta, given + a * states, literal)
                part = q * repeated(rates[a], back, literal) + rate * repeated(data[n.start + first + a], back, literal)
                store(sums, own + a * states, message_at(sums, own + a * states, literal) + row * part)
            first = second + states
            given += states * states
            table += states * states
            own += states * states


@fused_leaf
def answers_back(run, adjoint, adding, static):
    """Undoes the visits to all variables; adjoints of messages to them are written over unless ``adding``."""
    literal, plan, m, n, unary = static.literal, run.plan, adjoint.m, adjoint.n, adjoint.unary
    edge_start, edge_base, states = plan.edge_start, plan.edge_base, U(len(literal))
    for variable in range(U(plan.state_start.shape[0] - 1)):
        first, last = U(edge_start[variable]), U(edge_start[variable + U(1)])
        whole = repeated(0.0, m, literal)
        for at in range(first, last):
            whole = whole + message_at(n, edge_base[at], literal)
        excess, all_of_it = total(whole), total(size(whole))
        share = excess / all_of_it if all_of_it > 0 else excess
        whole = whole - size(whole) * repeated(share, m, literal)
        place = variable * states
        store(unary, place, message_at(unary, place, literal) + whole)
        for at in range(first, last):
            found = whole - message_at(n, edge_base[at], literal)
            if adding:
                found = found + message_at(m, edge_base[at], literal)
            store(m, edge_base[at], found)
