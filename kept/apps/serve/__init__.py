"""`kept serve`: a graph, its linker and models over HTTP (the extra `serve`), or as tools of the
Model Context Protocol (the extra `mcp`)."""

from __future__ import annotations

from importlib.util import find_spec

from kept.errors import MissingExtraError

PACKAGES = {"serve": ("fastapi", "uvicorn", "prometheus_client"), "mcp": ("mcp",)}
"""What each extra installs."""


def require_extra(extra: str = "serve") -> None:
    """Raise `MissingExtraError` where a package of the extra is not installed."""
    gone = [name for name in PACKAGES[extra] if find_spec(name) is None]
    if gone:
        raise MissingExtraError(f"kept serve needs {', '.join(gone)}: pip install 'kept[{extra}]'")
