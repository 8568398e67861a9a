"""Compiled loops over the structure of graphs."""
