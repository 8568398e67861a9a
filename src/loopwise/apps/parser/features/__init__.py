"""Features of arcs, pairs of arcs and relations, hashed and scored by compiled loops."""
