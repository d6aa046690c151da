"""An extension of griffe: examples in docstrings get fences, so that pages show them as code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"(?:^>>> .*\n?)(?:^(?!\s*$).*\n?)*", re.MULTILINE)


class Fenced(Extension):
    """Fences every run of lines that begins with `>>>` and ends at a blank line."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for every object of a module once it is read."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(
                lambda found: f"```python\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )
