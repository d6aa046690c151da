"""Training that dies and resumes bitwise: configuration, batch stream, loop, checkpoints."""
