"""Compiled loops that several methods of inference share."""
