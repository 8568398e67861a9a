"""The numbers of Tables 3 to 6 of Stoyanov et al. 2011.

In: nothing. Out: differences of loss to the true model, by test, training and column; models won, tied and lost.
"""

from __future__ import annotations

Row = dict[str, tuple[float, str | None]]

TRUE_LOSS = {"MSE": 0.04610, "F": 0.06425, "L1": 0.06385}

#: Table 3: (test, training): difference of loss; wins-ties-losses against LOGL.
TABLE3: dict[tuple[str, str], tuple[float, str | None]] = {
    ("MSE", "LOGL"): (0.00710, None),
    ("MSE", "MSE"): (0.00482, "5-0-7"),
    ("MSE", "MSE-in"): (0.00057, "12-0-0"),
    ("F", "LOGL"): (0.01170, None),
    ("F", "F-hyb"): (0.00411, "7-0-5"),
    ("F", "F-in"): (0.00115, "10-1-1"),
    ("F", "F-hyb-in"): (0.00081, "11-0-1"),
    ("L1", "LOGL"): (0.00751, None),
    ("L1", "L1-hyb"): (0.00398, "5-1-6"),
    ("L1", "L1-in"): (0.00137, "10-2-0"),
    ("L1", "L1-hyb-in"): (0.00079, "10-2-0"),
    ("LOGL", "LOGL"): (-0.31618, None),
}


def _row(columns: str, numbers: str, records: str = "") -> Row:
    """One line of a table as it is printed."""
    won: list[str] | list[None] = records.split() or [None] * len(columns.split())
    return {
        column: (float(number), record)
        for column, number, record in zip(columns.split(), numbers.split(), won, strict=True)
    }


_LEVELS = "10% 20% 30% 40%"
_SWEEPS = "100 30 20 10"
#: Tables 4 and 5: (test, whether trained for the loss): by column, difference and wins-ties-losses.
TABLE4: dict[tuple[str, bool], Row] = {
    ("MSE", False): _row(_LEVELS, ".00352 .00642 .00622 .01118"),
    ("MSE", True): _row(_LEVELS, ".00101 .00316 .00312 .00534", "12-0-0 11-0-1 11-0-1 10-0-2"),
    ("F", False): _row(_LEVELS, ".01042 .01928 .01026 .02123"),
    ("F", True): _row(_LEVELS, ".00095 .00472 .00473 .00969", "11-0-1 10-1-1 11-0-1 9-0-3"),
    ("L1", False): _row(_LEVELS, ".00452 .00748 .00569 .01173"),
    ("L1", True): _row(_LEVELS, ".00147 .00442 .00602 .00945", "9-2-1 9-0-3 9-0-3 9-0-3"),
    ("LOGL", False): _row(_LEVELS, "-.3096 -.0180 -.0373 -.1169"),
}
TABLE5: dict[tuple[str, bool], Row] = {
    ("MSE", False): _row(_SWEEPS, ".00710 .00301 .00816 .02461"),
    ("MSE", True): _row(_SWEEPS, ".00057 .00072 .00063 .00064", "12-0-0 11-0-1 12-0-0 12-0-0"),
    ("F", False): _row(_SWEEPS, ".01170 .00476 .01276 .03085"),
    ("F", True): _row(_SWEEPS, ".00081 .00126 .00058 .00091", "11-0-1 12-0-0 10-1-1 11-0-1"),
    ("L1", False): _row(_SWEEPS, ".00751 .00344 .01087 .02984"),
    ("L1", True): _row(_SWEEPS, ".00079 .00101 .00078 .00096", "10-2-0 10-0-2 10-2-0 12-0-0"),
    ("LOGL", False): _row(_SWEEPS, "-.3161 -.1823 -.2422 -.1104"),
}

#: Table 6: (test, loss trained for).
TABLE6: dict[tuple[str, str], float] = {
    ("MSE", "MSE"): 0.00057, ("MSE", "F"): 0.00122, ("MSE", "L1"): 0.00115, ("MSE", "LOGL"): 0.0071,
    ("F", "MSE"): 0.00109, ("F", "F"): 0.00081, ("F", "L1"): 0.00106, ("F", "LOGL"): 0.0117,
    ("L1", "MSE"): 0.00069, ("L1", "F"): 0.00096, ("L1", "L1"): 0.00079, ("L1", "LOGL"): 0.00751,
    ("LOGL", "MSE"): 0.11141, ("LOGL", "F"): 0.16153, ("LOGL", "L1"): 0.1508, ("LOGL", "LOGL"): -0.31618,
}  # fmt: skip
