"""Compiled messages of structured factors, and their adjoints."""
