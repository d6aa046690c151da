"""Completion by conditional message passing: NBFNet's layers and ULTRA, for graphs never seen."""
