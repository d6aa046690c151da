"""`Tagger`: where the names of a text are, with how sure it is of each.

Tags are BIO (Ramshaw and Marcus 1995) with a kind. The best sequence is found by dynamic
programming that lets I follow only B or I of its kind. A span's score is the probability that the
tagger gives it alone, kinds summed up:

    p(span) = sum over kinds k of  p(B-k at its first word)  prod p(I-k within)  (1 - p(I-k after))

so that spans of others, such as names of a graph, are scored too.

Axis legend: text, word, tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch.nn.functional import softmax
from transformers import PreTrainedTokenizerBase

from entity_linking.detection import Span
from entity_linking.errors import LinkIndexError
from kept.errors import ConfigError
from kept.hosts import load_host, load_tokenizer
from kept.linking.first_layers import embeddings_hash
from kept.linking.tagging.network import TaggerNetwork, batch_of
from kept.linking.tagging.pieces import Chunk, chunks_of
from kg_loaders.disk.columns import replaced
from kg_loaders.disk.seals import FolderFormat, open_sealed, seal
from kg_loaders.disk.writing import whole_folder

WEIGHTS = "weights.safetensors"
CHUNKS_PER_BATCH = 32
TAGGER = FolderFormat(
    kind="kept tagger",
    version=1,
    what="a tagger",
    remedy="train the tagger again: kept link train-tagger",
    make="train one: kept link train-tagger",
    mark=WEIGHTS,
    error=LinkIndexError,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggerRecord:
    """What a tagger was made from and how it went; stands in its manifest.

    `host_hash` is that of the host's embeddings, which are read from the host again.
    """

    host: str
    host_hash: str
    n_layers: int
    kinds: tuple[str, ...]
    trained_on: str
    n_texts: int
    n_spans: int
    n_epochs: int
    seed: int
    held_out_f1: float


@dataclass(frozen=True, slots=True, eq=False)
class TaggedWords:
    """The words of one text: `starts`, `ends` `[word]`, probabilities `[word tag]`; its kinds."""

    kinds: tuple[str, ...]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    probabilities: Floats

    @property
    def spans(self) -> list[Span]:
        """The spans of the best sequence of tags, in order."""
        spans = []
        for first, last, kind in _spans(best_tags(self.probabilities)):
            start, end = int(self.starts[first]), int(self.ends[last])
            spans.append(Span(start, end, self.kinds[kind], self.score(start, end)))
        return spans

    def score(self, start: int, end: int) -> float:
        """p(span) of the module; 0 where it does not begin and end with words."""
        first = int(np.searchsorted(self.starts, start))
        last = int(np.searchsorted(self.ends, end))
        whole = first <= last < len(self.ends) and self.starts[first] == start
        if not whole or self.ends[last] != end:
            return 0.0
        begins, inside = self.probabilities[:, 1::2], self.probabilities[:, 2::2]
        total = begins[first] * inside[first + 1 : last + 1].prod(axis=0)
        if last + 1 < len(self.ends):
            total = total * (1 - inside[last + 1])
        return float(total.sum())


class Tagger:
    """Finds names; `train_tagger` makes one, `Tagger.open` reads it."""

    def __init__(
        self, network: TaggerNetwork, tokenizer: PreTrainedTokenizerBase, record: TaggerRecord
    ) -> None:
        self._network, self._tokenizer, self.record = network.eval(), tokenizer, record

    def __repr__(self) -> str:
        about = self.record
        return f"Tagger({about.host}, {about.n_layers} layers, {', '.join(about.kinds)})"

    @property
    def kinds(self) -> tuple[str, ...]:
        return self.record.kinds

    @torch.inference_mode()
    def tag(self, texts: Sequence[str]) -> list[TaggedWords]:
        """As `SpanTagger`: what the network says of each word."""
        chunks = chunks_of(texts, self._tokenizer, most=self._network.most_pieces)
        order = sorted(range(len(chunks)), key=lambda i: len(chunks[i].pieces))
        rows: dict[int, Floats] = {}
        for at in range(0, len(order), CHUNKS_PER_BATCH):
            some = order[at : at + CHUNKS_PER_BATCH]
            for i, indices in zip(some, self._run([chunks[i] for i in some]), strict=True):
                rows[i] = indices
        by_text: list[list[int]] = [[] for _ in texts]
        for i, chunk in enumerate(chunks):
            by_text[chunk.text].append(i)
        return [
            self._joined([chunks[i] for i in indices], [rows[i] for i in indices])
            for indices in by_text
        ]

    def _run(self, chunks: Sequence[Chunk]) -> list[Floats]:
        special = self._tokenizer
        batch = batch_of(
            chunks,
            first=special.cls_token_id,
            last=special.sep_token_id,
            padding=special.pad_token_id,
        )
        shares = softmax(self._network(*batch).double(), dim=-1).numpy()
        return [row[1 + np.array(chunk.firsts)] for row, chunk in zip(shares, chunks, strict=True)]

    def _joined(self, chunks: Sequence[Chunk], rows: Sequence[Floats]) -> TaggedWords:
        n_tags = 1 + 2 * len(self.record.kinds)
        return TaggedWords(
            self.kinds,
            np.array([s for chunk in chunks for s in chunk.starts], np.int64),
            np.array([e for chunk in chunks for e in chunk.ends], np.int64),
            np.concatenate([np.zeros((0, n_tags)), *rows]),
        )

    # ---- disk --------------------------------------------------------------
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the folder, all or nothing; weights in half precision. Raises `WriteError`."""
        weights = {n: value.half().contiguous() for n, value in self._network.trained().items()}
        with whole_folder(path, **replaced(TAGGER), force=force) as part:
            (part / WEIGHTS).write_bytes(save(weights))
            seal(part, TAGGER, msgspec.to_builtins(self.record), [WEIGHTS])

    @classmethod
    def open(cls, path: str | Path) -> Tagger:
        """Open a folder written by `save`; `LinkIndexError` when it is damaged."""
        folder = Path(path)
        sealed = open_sealed(folder, TAGGER)
        sealed.require_files([WEIGHTS])
        record = sealed.about(TaggerRecord)
        try:
            network = new_network(record.host, record.n_layers, record.kinds)
            network.load_trained(load((folder / WEIGHTS).read_bytes()))
        except (SafetensorError, RuntimeError, ConfigError) as error:
            raise LinkIndexError(f"{folder} does not hold its tagger: {error}") from error
        if record.host_hash != embeddings_hash(network.host):
            raise LinkIndexError(
                f"{folder} was trained over other embeddings than {record.host} has now; "
                f"{TAGGER.remedy}"
            )
        sealed.remember()
        return cls(network, load_tokenizer(record.host), record)


def new_network(host: str, n_layers: int, kinds: Sequence[str]) -> TaggerNetwork:
    """The untrained network over the first layers of a host."""
    return TaggerNetwork(load_host(host), n_layers=n_layers, n_tags=1 + 2 * len(kinds))


def best_tags(probabilities: Floats) -> list[int]:
    """The likeliest sequence in which I-k (2k + 2) follows B-k (2k + 1) or itself; O is 0."""
    n, n_tags = probabilities.shape
    if not n:
        return []
    scores = np.log(np.maximum(probabilities, 1e-12))
    begins, inside = np.arange(1, n_tags, 2), np.arange(2, n_tags, 2)
    best = scores[0].copy()
    best[inside] = -np.inf
    back = np.zeros((n, n_tags), np.int64)
    for i in range(1, n):
        any_before = int(np.argmax(best))
        back[i] = any_before
        now = best[any_before] + scores[i]
        stays = best[inside] > best[begins]
        before = np.where(stays, inside, begins)
        now[inside] = best[before] + scores[i, inside]
        back[i, inside] = before
        best = now
    tags = [int(np.argmax(best))]
    for i in range(n - 1, 0, -1):
        tags.append(int(back[i, tags[-1]]))
    return tags[::-1]


def _spans(tags: Sequence[int]) -> list[tuple[int, int, int]]:
    """First word, last word and kind."""
    spans: list[tuple[int, int, int]] = []
    for i, tag in enumerate(tags):
        if tag % 2 == 1:
            spans.append((i, i, (tag - 1) // 2))
        elif tag:
            spans[-1] = (spans[-1][0], i, spans[-1][2])
    return spans
