"""Limits that a grammar's mathematics in torch and its kernels share. In: nothing. Out: numbers. Below the stages."""

from __future__ import annotations

# Nats that stand for "never" where a default value is ruled out: beyond any sum of scores, yet finite. As few as do,
# since what is added to scores costs them digits: LEAST and BEYOND times a bound of all scores, at most HARD.
HARD, LEAST, BEYOND = 1e7, 1500.0, 4.0
MOSTLY = 0.9  # fired with more probability than this, a default value's weight is not left to a subtraction
