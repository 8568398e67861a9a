"""The command line: the only place where names become objects."""
