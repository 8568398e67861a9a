"""Exact inference by a junction tree."""
