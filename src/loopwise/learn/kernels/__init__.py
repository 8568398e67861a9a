"""Compiled loops of online learners."""
