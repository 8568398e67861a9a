"""Entity resolution measured: loopwise beside dedupe and splink, with equal labels."""
