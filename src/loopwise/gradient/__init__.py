"""Gradient estimators: how the backward of an inference call is computed."""
