"""Limits that a grammar's mathematics in torch and its kernels share. In: nothing. Out: numbers. Below the stages."""

from __future__ import annotations

HARD = 1e7  # nats that stand for "never" where a default value is ruled out: beyond any sum of scores, yet finite
MOSTLY = 0.9  # fired with more probability than this, a default value's weight is not left to a subtraction
