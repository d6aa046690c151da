"""Work that lets go of Python's lock (sorting, hashing, writing), by several threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def together(*calls: Callable[[], Any], n_threads: int) -> list[Any]:
    """Return what each call returns, up to `n_threads` of them at once; the longest come first.

    With one thread they are made here, in order. Raises what the first one that fails raises.

    >>> together(lambda: 1, lambda: 2, n_threads=2)
    [1, 2]
    """
    if n_threads == 1:
        return [call() for call in calls]
    with ThreadPoolExecutor(n_threads) as pool:
        futures = [pool.submit(call) for call in calls]
        return [future.result() for future in futures]
