"""Examples, and which of them go together."""
