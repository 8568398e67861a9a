"""Figure 2 of Domke 2010: what each gradient costs."""
