"""Compiled walks: models, proposals, learners."""
