"""The command line of the study."""

from studies.decoder.run import main

main()
