"""Gates on single messages, and on factors by what is observed; runs that leave out what they shut."""
