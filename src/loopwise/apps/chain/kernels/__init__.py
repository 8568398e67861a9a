"""Compiled loops of chains of words."""
