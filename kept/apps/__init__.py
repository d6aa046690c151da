"""What users start: the command line, services, the explorer and their functions in Python."""
