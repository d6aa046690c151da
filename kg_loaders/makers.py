"""What makes graphs of files, data frames and networkx graphs, for the constructors of the class.

The class of graphs is below all that makes graphs, so it cannot import it: `kg_loaders` registers
`kg_loaders.opening` here, which is imported when a constructor is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_providers: list[Callable[[], Any]] = []


def register(provider: Callable[[], Any]) -> None:
    """Let `provider` import the module of the makers, in the place of any before it."""
    _providers[:] = [provider]


def makers() -> Any:
    """Return the module of the makers, with `open_graph`, `from_networkx` and so on."""
    return _providers[-1]()
