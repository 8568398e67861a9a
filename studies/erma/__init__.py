"""Stoyanov, Ropson & Eisner 2011: training for the loss, through truncated BP."""
