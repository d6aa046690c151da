"""Where kept writes what it prepares once on a machine: `KEPT_CACHE`, else the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

from kg_loaders.errors import WriteError

REMEDY = "name a folder that can be written as KEPT_CACHE"


def cache_folder() -> Path:
    """Return the folder of what kept prepares: `KEPT_CACHE`, else `kept` in the user's cache.

    Raises `WriteError` for a user without a home folder, as a container may have it.
    """
    named = os.environ.get("KEPT_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        raise WriteError(f"there is no home folder to prepare models in; {REMEDY}")
    return Path(base) / "kept"
