"""Wick, Rohanimanesh, Bellare, Culotta & McCallum 2011: learning inside a walk."""
