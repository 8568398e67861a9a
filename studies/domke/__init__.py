"""Domke 2010: implicit differentiation by perturbation."""
