"""`kept serve`: linking, graphs, vectors, probing and completion over HTTP (the extra `serve`)."""

from __future__ import annotations

from importlib.util import find_spec

from kept.errors import MissingExtraError


def require_extra() -> None:
    """Raise `MissingExtraError` where a package of the extra is not installed."""
    gone = [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if gone:
        raise MissingExtraError(f"kept serve needs {', '.join(gone)}: pip install 'kept[serve]'")
