"""Numbers: log-potentials, a tensor a group."""

from loopwise.potentials.tables import TablePotentials

__all__ = ["TablePotentials"]
