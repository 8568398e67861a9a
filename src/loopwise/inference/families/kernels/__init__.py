"""Compiled loops over batches of chains, trees and codes."""
