"""The batch stream: the samples of batch number n, for any number of processes or workers.

Batch n is a function of (data, seed, n), so a resumed run starts at any n and workers only
compute batches ahead of time.
"""

from __future__ import annotations

import multiprocessing
import resource
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.context import BaseContext
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from kept.batches import KnowledgeBatch
from kept.batches.shares import Share, TrainingBatch, share_of
from kept.errors import ConfigError
from kept.randomness import generator
from kept.training.config import TrainConfig

_Batch = TypeVar("_Batch")


class PretrainingData(Protocol):
    """What the loop trains on. Must pickle cheaply: workers are other processes.

    All randomness comes from `generator(seed, ..., epoch, index)`.
    """

    @property
    def fingerprint(self) -> str:
        """Changes when any sample could; a resumed run must meet the same one."""
        ...

    def __len__(self) -> int: ...

    def sample(self, index: int, *, epoch: int, seed: int) -> KnowledgeBatch:
        """Sample `index` as it is in `epoch`, a batch of one."""
        ...

    def collate(
        self, samples: Sequence[KnowledgeBatch], *, epoch: int, seed: int, step: int
    ) -> KnowledgeBatch:
        """One padded batch with its negatives; `step` is the batch's number."""
        ...


@runtime_checkable
class HasSampleBatches(Protocol):
    """Data that make several samples at once faster than one by one; they are the same."""

    def samples(self, indices: Sequence[int], *, epoch: int, seed: int) -> list[KnowledgeBatch]:
        """`PretrainingData.sample` of each index."""
        ...


@runtime_checkable
class HasNodeCounts(Protocol):
    """Data with an upper bound of each sample's nodes."""

    def n_nodes(self, index: int) -> int:
        """An upper bound that holds in every epoch."""
        ...


@runtime_checkable
class Stratified(Protocol):
    """Data of several kinds that share no batch, in given proportions."""

    def strata(self, *, epoch: int, seed: int) -> list[NDArray[np.int64]]:
        """Samples of an epoch, kind by kind, each in its order; with or without repetition."""
        ...


@runtime_checkable
class Alternating(Protocol):
    """Data whose batches are of several tasks in turn, so that no batch has every loss."""

    @property
    def period(self) -> int:
        """The period, in batches, of the tasks."""
        ...


@runtime_checkable
class Numbered(Protocol):
    """Data whose batches are in an order of their own, and which share each out themselves.

    Batch n is a function of them, the seed and n alone.
    """

    @property
    def fingerprint(self) -> str:
        """As of `PretrainingData`."""
        ...

    @property
    def per_epoch(self) -> int:
        """Batches of one epoch."""
        ...

    def share(self, number: int, *, seed: int, rank: int, n: int) -> Share[TrainingBatch]:
        """The part of process `rank` of `n` in batch `number`; all parts hold each sample once."""
        ...


class Stream(Protocol):
    """Batches by number, endless, for any number of processes."""

    @property
    def period(self) -> int:
        """The number of batches after which every loss has come."""
        ...

    def epoch_of(self, number: int) -> int:
        """The epoch of batch `number`."""
        ...

    def n_batches(self, epoch: int) -> int:
        """Batches of one epoch."""
        ...

    def share(self, number: int, rank: int, n: int) -> Share[TrainingBatch]:
        """The part of process `rank` of `n` in batch `number`."""
        ...


Data = PretrainingData | Numbered


def stream_of(data: Data, config: TrainConfig) -> Stream:
    """The batches of `data` in the sizes of `config`; `Numbered` data have sizes of their own.

    Raises `ConfigError` for workers of `Numbered` data, which need not pickle, and for an order by
    length of data that do not know their lengths, or are `Numbered`.
    """
    if isinstance(data, Numbered):
        if config.order != "shuffled":
            raise ConfigError(
                f"order {config.order}: {type(data).__name__} makes batches in its own order; "
                "leave it out"
            )
        if config.workers:
            raise ConfigError(
                f"workers {config.workers}: batches of {type(data).__name__} are made by the "
                "process that trains; take 0"
            )
        return NumberedStream(data, config.seed)
    return BatchStream(
        data,
        seed=config.seed,
        batch_size=config.batch_size,
        node_budget=config.node_budget,
        by_length=config.order == "by_length",
    )


class NumberedStream:
    """The batches of `Numbered` data."""

    period = 1

    def __init__(self, data: Numbered, seed: int) -> None:
        self._data, self._seed = data, seed

    def epoch_of(self, number: int) -> int:
        """See `Stream`."""
        return number // self._data.per_epoch

    def n_batches(self, epoch: int) -> int:
        """The same for every epoch."""
        return self._data.per_epoch

    def share(self, number: int, rank: int, n: int) -> Share[TrainingBatch]:
        """See `Stream`."""
        return self._data.share(number, seed=self._seed, rank=rank, n=n)


BUCKET = 16
"""Batches whose samples are sorted together by length: enough for batches with almost no padding,
and few enough that a batch has other samples in the next epoch."""


class BatchStream(Dataset[KnowledgeBatch]):
    """Batches by number, endless; each epoch is one permutation by (seed, epoch).

    `Stratified` data have batches of one kind each, in an order by (seed, epoch).

    Give `batch_size` (samples; the last batch of an epoch may be smaller) or `node_budget` (padded
    nodes per batch, needs `HasNodeCounts` data), not both. `by_length`, for `HasNodeCounts` data:
    in the permutation the samples of `BUCKET` batches at a time are sorted by their node counts,
    and the batches of the epoch are then in an order by (seed, epoch).
    """

    def __init__(
        self,
        data: PretrainingData,
        *,
        seed: int,
        batch_size: int | None = None,
        node_budget: int | None = None,
        by_length: bool = False,
    ) -> None:
        if (batch_size is None) == (node_budget is None):
            raise ConfigError("give batch_size or node_budget, exactly one")
        if len(data) == 0:
            raise ConfigError("the training data hold no sample")
        self._data, self._seed = data, seed
        self.period = data.period if isinstance(data, Alternating) else 1
        self._batch_size, self._node_budget = batch_size, node_budget
        self._by_length = by_length
        self._n_nodes: NDArray[np.int64] | None = None
        if node_budget is not None or by_length:
            self._n_nodes = _node_counts(data, node_budget)
        self._n_batches: list[int] = []
        self._current: tuple[int, list[NDArray[np.int64]]] = (-1, [])

    def __getitem__(self, number: int) -> KnowledgeBatch:
        return self.with_sizes(number)[0]

    def with_sizes(self, number: int) -> tuple[KnowledgeBatch, list[int]]:
        """Batch `number`, and how many rows each of its samples has."""
        epoch, indices = self.locate(number)
        samples = self._samples(indices.tolist(), epoch)
        batch = self._data.collate(samples, epoch=epoch, seed=self._seed, step=number)
        return batch, [len(sample) for sample in samples]

    def _samples(self, indices: list[int], epoch: int) -> list[KnowledgeBatch]:
        if isinstance(self._data, HasSampleBatches):
            return self._data.samples(indices, epoch=epoch, seed=self._seed)
        return [self._data.sample(i, epoch=epoch, seed=self._seed) for i in indices]

    def share(self, number: int, rank: int, n: int) -> Share[TrainingBatch]:
        """The whole batch is made, and a part of it kept: what its samples have in common, such as
        negatives, is drawn for all of them, so that the number of processes changes nothing."""
        if n == 1:
            return Share(self[number])
        return share_of(*self.with_sizes(number), rank, n)

    def epoch_of(self, number: int) -> int:
        """The epoch of batch `number`."""
        return self.locate(number)[0]

    def locate(self, number: int) -> tuple[int, NDArray[np.int64]]:
        """`(epoch, sample indices)` of batch `number`."""
        epoch = 0
        while number >= self.n_batches(epoch):
            number -= self.n_batches(epoch)
            epoch += 1
        return epoch, self._epoch(epoch)[number]

    def n_batches(self, epoch: int) -> int:
        """Batches of one epoch; under a node budget it varies with the permutation."""
        if self._batch_size is not None and not isinstance(self._data, Stratified):
            return -(-len(self._data) // self._batch_size)
        while len(self._n_batches) <= epoch:
            self._n_batches.append(len(self._epoch(len(self._n_batches))))
        return self._n_batches[epoch]

    def _epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        if self._current[0] != epoch:
            draws = generator(self._seed, "order", epoch)
            if isinstance(self._data, Stratified):
                orders = self._data.strata(epoch=epoch, seed=self._seed)
            else:
                orders = [draws.permutation(len(self._data))]
            batches = [batch for order in orders for batch in self._split(order)]
            if self._by_length or isinstance(self._data, Stratified):
                batches = [batches[i] for i in draws.permutation(len(batches))]
            self._current = (epoch, batches)
        return self._current[1]

    def _split(self, order: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the samples of `order` as batches."""
        if self._by_length:
            order = self._sorted_in_buckets(order)
        return np.split(order, self._cuts(order))

    def _sorted_in_buckets(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `order` with the samples of every `BUCKET` batches sorted by length."""
        assert self._n_nodes is not None
        size = self._batch_size or (self._node_budget or 0) / self._n_nodes.mean()
        n_samples = max(round(BUCKET * size), 1)
        buckets = np.split(order, range(n_samples, len(order), n_samples))
        return np.concatenate([b[np.argsort(self._n_nodes[b], kind="stable")] for b in buckets])

    def _cuts(self, order: NDArray[np.int64]) -> list[int]:
        if self._batch_size is not None:
            return list(range(self._batch_size, len(order), self._batch_size))
        assert self._n_nodes is not None
        cuts, start, longest = [], 0, 0
        for row, n in enumerate(self._n_nodes[order].tolist()):
            longest = max(longest, n)
            if longest * (row - start + 1) > (self._node_budget or 0):
                cuts.append(row)
                start, longest = row, n
        return cuts


def _node_counts(data: PretrainingData, node_budget: int | None) -> NDArray[np.int64]:
    if not isinstance(data, HasNodeCounts):
        wants, remedy = "node_budget", "give batch_size"
        if node_budget is None:
            wants, remedy = "order by_length", "give order shuffled"
        raise ConfigError(
            f"{wants} needs data that know their node counts; {type(data).__name__} does not, "
            f"{remedy}"
        )
    counts = np.array([data.n_nodes(i) for i in range(len(data))], np.int64)
    worst = int(counts.argmax())
    if node_budget is not None and counts[worst] > node_budget:
        raise ConfigError(
            f"node_budget {node_budget} cannot hold sample {worst}, which may have "
            f"{counts[worst]} nodes; raise the budget or lower the builder's max_nodes"
        )
    return counts


def n_steps_of(config: TrainConfig, stream: Stream) -> int:
    """Return the steps of a whole run; raises `ConfigError` for a longer warm-up."""
    if config.steps is not None:
        return config.steps
    n_batches = sum(stream.n_batches(epoch) for epoch in range(config.epochs or 0))
    n_steps = -(-n_batches // config.accumulate)
    if config.warmup_steps > n_steps:
        raise ConfigError(
            f"warmup_steps {config.warmup_steps}: a warm-up is at most as long as the run, and "
            f"{config.epochs} epochs are {n_steps} steps; give fewer, or train longer"
        )
    return n_steps


class Shares(Dataset[Share[TrainingBatch]]):
    """The share of one of `n` processes in every batch of a stream."""

    def __init__(self, stream: Stream, *, rank: int, n: int) -> None:
        self._stream, self._rank, self._n = stream, rank, n

    def __getitem__(self, number: int) -> Share[TrainingBatch]:
        return self._stream.share(number, self._rank, self._n)


def read_batches(
    stream: Dataset[_Batch], first: int, last: int, *, workers: int, prefetch: int,
    pin: bool = False,
) -> Iterator[_Batch]:  # fmt: skip
    """Batches `first` to `last` (exclusive) in order, computed ahead by workers.

    `pin`: in memory that a GPU can copy from by itself, while it computes.
    """
    if workers:
        _allow_many_files()
    loader = DataLoader(
        stream,
        batch_size=None,
        sampler=range(first, last),
        num_workers=workers,
        pin_memory=pin,
        multiprocessing_context=_worker_context() if workers else None,
        prefetch_factor=prefetch if workers else None,
        worker_init_fn=_leave_interrupts_to_the_parent,
        collate_fn=_as_it_is,  # without batch_size it gets one item
        generator=torch.Generator(),  # else the loader draws from the global one
    )
    return iter(loader)


def _worker_context() -> BaseContext:
    """Workers that are forked from a process which has imported what they need, and nothing else.

    They start at once, where each would import torch by itself; threads and a GPU of the process
    that trains are not theirs. Where a system cannot do that they are spawned.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["kept.training.pretraining.data"])
    return context


def _allow_many_files() -> None:
    """Raise the limit of open files to what the system allows: each tensor of a worker is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _as_it_is(batch: Any) -> Any:
    return batch


def _leave_interrupts_to_the_parent(_worker: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
