"""Decoders: trained message passing beside what users have today, on the same shots, with confidence intervals."""
