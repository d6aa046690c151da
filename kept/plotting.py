"""Whether pictures can be drawn: matplotlib is an extra."""

from __future__ import annotations

from importlib.util import find_spec

from kept.errors import MissingExtraError

REMEDY = "pictures need matplotlib: pip install 'kept[plot]'"


def can_draw() -> bool:
    """Return whether matplotlib is installed; it is not imported."""
    return find_spec("matplotlib") is not None


def require_plotting() -> None:
    """Raise `MissingExtraError` where pictures cannot be drawn."""
    if not can_draw():
        raise MissingExtraError(REMEDY)
