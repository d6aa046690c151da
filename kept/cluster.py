"""Work over the machines of a Ray cluster, by Ray Data: parts in order, each in the result once.

A result is given when its part is whole. A part whose worker died is done again by another, so that
nothing is lost or doubled, and results are those of one process wherever the work is a function of
the part. Needs the extra `ray`.
"""

from __future__ import annotations

import logging
import pickle
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from kept.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:  # each worker imports this module, and of those below what its work needs
    from entity_linking.mentions import LinkedText
    from kept.graphs.builder import BuilderConfig
    from kept.graphs.graph import WordKnowledgeGraph
    from kg_loaders import KnowledgeGraph

Part = TypeVar("Part")
Result = TypeVar("Result")
LOCAL = "local"
"""The cluster that is this machine alone, started for the work and ended after it."""
PARTS_AT_ONCE = 4096
"""Parts that Ray holds at once; workers are made anew for the next ones."""
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
    stream = iter(parts)
    with _connected(cluster, n_workers) as data:
        while some := list(islice(stream, PARTS_AT_ONCE)):
            rows = [{"part": pickle.dumps(part)} for part in some]
            worked = data.from_items(rows, override_num_blocks=len(rows)).map_batches(
                _Worker, fn_constructor_args=(make,), concurrency=n_workers, batch_size=1
            )
            for row in worked.iter_rows():
                result = pickle.loads(row["result"])
                if isinstance(result, _Failed):
                    raise result.error
                yield result


@dataclass(frozen=True)
class _Failed:
    error: Exception


class _Worker:
    """One process of the cluster: the function, made once, and what calls it."""

    def __init__(self, make: Callable[[], Callable[[Any], Any]]) -> None:
        self._make = make
        self._work: Callable[[Any], Any] | None = None

    def __call__(self, rows: dict[str, Any]) -> dict[str, list[bytes]]:
        return {"result": [pickle.dumps(self._done(part)) for part in rows["part"]]}

    def _done(self, part: bytes) -> Any:
        """The result, or the error: Ray would wrap it in one of its own, and try again."""
        try:
            if self._work is None:
                self._work = self._make()
            return self._work(pickle.loads(part))
        except Exception as error:  # noqa: BLE001  # raised by `over_workers`
            return _Failed(error)


@contextmanager
def _connected(cluster: str, n_workers: int) -> Iterator[Any]:
    """`ray.data` of the cluster, in order and silent; what is connected here is left again."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtraError("a cluster needs Ray: pip install 'kept[ray]'") from error
    is_ours = not ray.is_initialized()
    if is_ours:
        where = {"num_cpus": n_workers} if cluster == LOCAL else {"address": cluster}
        try:
            ray.init(**where, include_dashboard=False, log_to_driver=False, logging_level="error")
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"no Ray cluster answers at {cluster!r} ({error}); give {LOCAL!r}, or start one "
                "with `ray start --head`"
            ) from error
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    context = ray.data.DataContext.get_current()
    before = context.execution_options.preserve_order, context.enable_progress_bars
    context.execution_options.preserve_order, context.enable_progress_bars = True, False
    try:
        yield ray.data
    finally:
        context.execution_options.preserve_order, context.enable_progress_bars = before
        if is_ours:
            ray.shutdown()


def _require_answer(address: str) -> None:
    """Raise `OSError` where nobody listens: Ray would end the whole program."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


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
