"""Completion for entities that training never saw: GraIL's splits and CoDEx-S."""
