"""Files that appear when they are whole."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Written beside, then renamed, so that a killed process leaves no half file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
