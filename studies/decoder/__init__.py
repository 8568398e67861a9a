"""Decoders: trained message passing beside what users have today, on the same shots, with confidence intervals.

``python -m studies.decoder --quick`` (or ``--full``) ``--minutes M --out FOLDER``; it goes on where it stopped.
"""
