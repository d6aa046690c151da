"""Files that appear when they are whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_whole(path: Path, text: str) -> None:
    """Written beside, then renamed, so that a killed process leaves no half file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def write_json(path: Path, values: Any) -> None:
    """`write_whole` of indented JSON."""
    write_whole(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")
