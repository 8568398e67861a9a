"""Compiled loops of decoders: clusters from scored pairs."""
