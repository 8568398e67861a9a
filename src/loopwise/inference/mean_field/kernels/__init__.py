"""Compiled mean field, and its adjoint."""
