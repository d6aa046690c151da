"""Where kept writes what it prepares once on a machine: `KEPT_CACHE`, else the user's cache."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder of what kept prepares: `KEPT_CACHE`, else `kept` in the user's cache."""
    named = os.environ.get("KEPT_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kept"
