"""Inference: from numbers to beliefs."""
