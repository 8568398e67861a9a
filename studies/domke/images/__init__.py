"""Table 1 and Figure 1 of Domke 2010: what training for each loss gives."""
