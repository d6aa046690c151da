"""What a build will take, from a sample of its files: memory, disk and processor time.

The start of each file is read as a build reads it. Triples, texts and bytes of names go on as they
began; entities do where a file of texts names each once, and are else estimated from how often the
sample repeats itself (Chao 1984, "Nonparametric Estimation of the Number of Classes in a
Population", Scandinavian Journal of Statistics 11). Disk follows from the folder's layout, time
from the sample's own seconds, memory from `MEMORY`, which was fitted on builds of made graphs
(`benchmarks/graphs/large_graph.py` prints what it was off by).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.assembly import Columns
from kg_loaders.build import Source
from kg_loaders.counting import counted
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.reading.blocks import TripleBlock
from kg_loaders.store import KnowledgeGraph

SAMPLE_BYTES = 24 << 20
"""Read of each file."""
LARGE_BYTES = 256 << 20
"""From this size of all files on a build tells its forecast."""
MEMORY = {"base": 1.6e8, "triple": 73.0, "entity": 89.0, "text": 139.0, "text_byte": 1.46}
"""Bytes at the peak: of a process that has nothing yet, and of each thing that is read."""
SORTED = 0.3
"""A file whose triples have the head of the one before so often is in order of heads."""


@dataclass(frozen=True)
class Forecast:
    """What a build will hold and take; `seconds` are of one processor."""

    n_triples: int
    n_entities: int
    n_texts: int
    memory_bytes: int
    disk_bytes: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"about {counted(self.n_triples, 'triples', ',')}, "
            f"{counted(self.n_entities, 'entities', ',')} and {self.n_texts:,} "
            f"texts: {self.memory_bytes / 1e9:.1f} GB of memory, {self.disk_bytes / 1e9:.1f} GB on "
            f"the disk, {self.seconds / 60:.1f} minutes of processor time"
        )


@dataclass
class _Sample:
    """What the start of one file holds, and how many times that the file is."""

    graph: KnowledgeGraph
    n_triples: int
    times: float
    is_sorted: bool
    reading: float
    finishing: float

    @property
    def n_texts(self) -> int:
        return len(self.graph.entity_texts)

    @property
    def name_bytes(self) -> float:
        """Of an identifier, in the mean."""
        return _bytes(self.graph.entities.array) / max(self.graph.n_entities, 1)

    def n_entities(self) -> float:
        """In the whole file."""
        if self.n_texts or not self.n_triples:
            return self.graph.n_entities * self.times
        heads, tails = self.graph.triples[:, 0], self.graph.triples[:, 2]
        if self.is_sorted:  # heads go on as they began, tails come from all over
            return max(len(np.unique(heads)) * self.times, _all_of(tails))
        return min(_all_of(np.concatenate([heads, tails])), self.graph.n_entities * self.times)


def _all_of(sample: NDArray[np.int32]) -> float:
    """How many there are of which these were drawn (Chao's lower bound)."""
    counts = np.bincount(sample)
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return int((counts > 0).sum()) + once * (once - 1) / (2 * (twice + 1))


def forecast(
    sources: Iterable[Source | Path | str], *, sample_bytes: int = SAMPLE_BYTES
) -> Forecast:
    """Forecast what `kg_loaders.load` of these sources will take.

    Texts of several files are taken to be about the same entities. Lines that a build would reject
    are passed over. Raises `SourceError` where a file cannot be read.
    """
    named = [s if isinstance(s, Source) else Source(Path(s)) for s in sources]
    samples = [_sampled(source, sample_bytes) for source in named]
    n_triples = sum(s.n_triples * s.times for s in samples)
    n_texts = sum(s.n_texts * s.times for s in samples)
    text_bytes = sum(_bytes(s.graph.entity_texts.values) * s.times for s in samples)
    n_entities = max((s.n_entities() for s in samples), default=0.0)
    name_bytes = max((s.name_bytes for s in samples), default=0.0)
    disk = (
        16 * n_triples
        + (8 * 3 + 8 + name_bytes) * n_entities
        + (1 + 2 + 4 + 8) * n_texts
        + text_bytes
    )
    memory = (
        MEMORY["base"] + MEMORY["triple"] * n_triples + MEMORY["entity"] * n_entities
        + MEMORY["text"] * n_texts + MEMORY["text_byte"] * text_bytes
    )  # fmt: skip
    return Forecast(
        round(n_triples), round(n_entities), round(n_texts), round(memory), round(disk),
        sum(_seconds(s) for s in samples) + disk / WRITTEN_A_SECOND,
    )  # fmt: skip


WRITTEN_A_SECOND = 4e8
"""Bytes that are hashed and written in a second of processor time."""


def _seconds(sample: _Sample) -> float:
    """Reading grows with the file, sorting a little faster."""
    n = max(sample.n_triples + sample.n_texts, 2)
    return sample.times * (
        sample.reading + sample.finishing * math.log(n * sample.times) / math.log(n)
    )


def _sampled(source: Source, n_bytes: int) -> _Sample:
    """The start of a file as a graph; of one that fits all of it."""
    size, read = size_of(source.path), [0]
    report = DamageReport(DamagePolicy.SKIP)
    report.progress = lambda n: read.__setitem__(0, n)
    columns, n_same = Columns(), 0
    marks = [(0, time.process_time())]  # bytes and seconds at each part that is read
    for item in source.read_in_blocks(report):
        columns.add([item])
        if isinstance(item, TripleBlock):
            n_same += int((item.ends[1:, 0] == item.ends[:-1, 0]).sum())
        if read[0] > marks[-1][0]:
            marks.append((read[0], time.process_time()))
        if read[0] >= n_bytes:
            break
    else:
        read[0] = size
    marks.append((read[0], time.process_time()))
    reading, n_records = _warm(marks), columns.n_records
    start = time.process_time()
    graph = KnowledgeGraph(**columns.fields(languages=()))
    n_triples = max(n_records - len(graph.entity_texts) - len(graph.relation_texts), 0)
    return _Sample(
        graph,
        n_triples,
        times=max(size / max(read[0], 1), 1.0),
        is_sorted=n_same > SORTED * n_triples,
        reading=reading,
        finishing=time.process_time() - start,
    )


def _warm(marks: Sequence[tuple[int, float]]) -> float:
    """Seconds of reading all bytes of `marks`, at the rate of those behind the first part: it also
    loads what is used for the first time.

    >>> _warm([(0, 0.0), (10, 9.0), (20, 10.0), (30, 11.0)])
    3.0
    """
    (n_first, start), (n_bytes, ended) = marks[1 if len(marks) > 3 else 0], marks[-1]
    return (ended - start) * n_bytes / max(n_bytes - n_first, 1)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size if path.exists() else 0


def free_memory() -> int | None:
    """Bytes that a process may take before others suffer; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        values = dict(line.split(":", 1) for line in lines)
        return int(values["MemAvailable"].split()[0]) * 1024
    except (OSError, LookupError, ValueError):
        return None


def _bytes(values: pa.LargeStringArray) -> int:
    """Of the strings themselves."""
    return int(pc.sum(pc.binary_length(values)).as_py() or 0)
