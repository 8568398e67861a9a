"""Compiled search for the best assignment, and dual bounds."""
