"""Gormley, Dredze & Eisner 2015: parsers trained for the iterations of BP they are given."""
