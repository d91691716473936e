"""The command line. Modules here import other rooms inside functions only, so that `ratelane --help` answers at once."""
