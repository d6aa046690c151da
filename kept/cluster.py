"""Work over the machines of a Ray cluster: parts in order, each in the result once.

A result is given when its part is whole. A part whose worker died is done again by another, so that
nothing is lost or doubled, and results are those of one process wherever the work is a function of
the part. Needs the extra `ray`.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from kept.errors import ConfigError, MissingExtraError
from kept.telemetry import without_telemetry

if TYPE_CHECKING:  # each worker imports this module, and of those below what its work needs
    from entity_linking.mentions import LinkedText
    from kept.graphs.builder import BuilderConfig
    from kept.graphs.graph import WordKnowledgeGraph
    from kg_loaders import KnowledgeGraph

Part = TypeVar("Part")
Result = TypeVar("Result")
LOCAL = "local"
"""The cluster that is this machine alone, started for the work and ended after it."""
PARTS_AHEAD = 4
"""Parts in flight for each worker: enough that none waits, few enough to bound the memory."""
TEXTS_A_PART = 256


def over_workers(
    make: Callable[[], Callable[[Part], Result]],
    parts: Iterable[Part],
    *,
    cluster: str,
    n_workers: int,
) -> Iterator[Result]:
    """Yield what each part becomes, in the order of `parts`.

    Each of `n_workers` processes calls `make` once, for a function of a part. `cluster` is
    `LOCAL`, `auto` (the cluster that this machine is part of) or the address of one. `make`, parts
    and results are pickled. An error of the function is raised here, as it is; raises
    `MissingExtraError` without Ray and `ConfigError` where no cluster answers.
    """
    with _connected(cluster, n_workers) as ray:
        # of a machine that dies, the worker is started again on another, and its parts are repeated
        actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(_Worker)
        workers = [actor.remote(pickle.dumps(make)) for _ in range(n_workers)]
        waiting: deque[Any] = deque()
        for number, part in enumerate(parts):
            waiting.append(workers[number % n_workers].work.remote(pickle.dumps(part)))
            if len(waiting) >= PARTS_AHEAD * n_workers:
                yield _opened(ray.get(waiting.popleft()))
        while waiting:
            yield _opened(ray.get(waiting.popleft()))


def _opened(data: bytes) -> Any:
    """A result as it was pickled; raises the error of the work."""
    result = pickle.loads(data)
    if isinstance(result, _Failed):
        raise result.error
    return result


@dataclass(frozen=True)
class _Failed:
    error: Exception


class _Worker:
    """One process of the cluster: the function, made once, and what calls it."""

    def __init__(self, make: bytes) -> None:
        self._make = make
        self._work: Callable[[Any], Any] | None = None

    def work(self, part: bytes) -> bytes:
        """The result of a part, pickled."""
        return pickle.dumps(self._done(part))

    def _done(self, part: bytes) -> Any:
        """The result, or the error: Ray would wrap it in one of its own, and try again."""
        try:
            if self._work is None:
                self._work = pickle.loads(self._make)()
            return self._work(pickle.loads(part))
        except Exception as error:  # noqa: BLE001  # raised by `over_workers`
            return _Failed(error)


@contextmanager
def _connected(cluster: str, n_workers: int) -> Iterator[Any]:
    """Ray, connected to the cluster and silent; what is connected here is left again."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("a cluster needs Ray: pip install 'kept[ray]'") from error
    is_ours = not ray.is_initialized()
    if is_ours:
        where = {"num_cpus": n_workers} if cluster == LOCAL else {"address": cluster}
        try:
            silent: Any = {"include_dashboard": False, "log_to_driver": False}
            with without_telemetry():
                ray.init(**where, **silent, logging_level="error")
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"no Ray cluster answers at {cluster!r} ({error}); give {LOCAL!r}, or start one "
                "with `ray start --head`"
            ) from error
    try:
        yield ray
    finally:
        if is_ours:
            ray.shutdown()


# ---- graphs --------------------------------------------------------------------------------------
def build_over_workers(
    texts: Iterable[LinkedText],
    tokenizer: Any,
    graph: KnowledgeGraph,
    *,
    seed: int,
    epoch: int = 0,
    config: BuilderConfig | None = None,
    cluster: str,
    n_workers: int,
) -> Iterator[WordKnowledgeGraph]:
    """`build_many` over a cluster: the same graphs, in order.

    Raises `ConfigError` unless `graph` lies in a folder, which all machines must be able to read.
    """
    if graph.folder is None:
        raise ConfigError(f"{graph} is in memory alone; save it where all machines can read it")
    stream = enumerate(texts)
    parts = iter(lambda: list(islice(stream, TEXTS_A_PART)), [])
    make = partial(_builder, str(graph.folder), tokenizer, seed, epoch, config)
    for graphs in over_workers(make, parts, cluster=cluster, n_workers=n_workers):
        yield from graphs


def _builder(
    folder: str, tokenizer: Any, seed: int, epoch: int, config: BuilderConfig | None
) -> Callable[[list[tuple[int, LinkedText]]], list[WordKnowledgeGraph]]:
    from kept.graphs.builder import build_many
    from kg_loaders import KnowledgeGraph

    graph = KnowledgeGraph.open(folder)

    def built(part: list[tuple[int, LinkedText]]) -> list[WordKnowledgeGraph]:
        samples, texts = zip(*part, strict=True)
        return build_many(
            texts, tokenizer, graph, seed=seed, epoch=epoch, samples=samples, config=config
        )

    return built
