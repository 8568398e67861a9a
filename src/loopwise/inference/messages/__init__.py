"""Message passing: BP and TRW, their schedules, stop rules and weights, and the two engines."""
