"""Compiled sweeps of messages, their adjoints and tangents."""
