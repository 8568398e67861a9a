"""Compiled loops over flat arrays."""
