"""Compiled steps of sweeps, and their adjoints."""
