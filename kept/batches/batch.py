"""`KnowledgeBatch`: the one input of every encoder. Tensors only; strings stop here.

Ids in `node_ids`: word-piece ids for words; for entities and relations the *row* of the model's
table: `UNKNOWN_ROW`, `PAD_ROW`, `MASK_ROW`, then graph id + `N_SPECIAL_ROWS`. In K-BERT both are
word pieces; nodes of kind `PIECE` always are.

Axis legend: batch, node, mention, candidate, target (mentions that a task is about), sampled, slot
(of the ids of one further vocabulary at a node), entity and edge (of a text's subgraph).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from kept.batches.checks import SPAN_FIELDS, check
from kept.batches.host_copies import moved
from kept.batches.visibility import Visibility, derived
from kept.errors import BatchError

UNKNOWN_ROW, PAD_ROW, MASK_ROW, N_SPECIAL_ROWS = 0, 1, 2, 3
IGNORE = -100
NONE = -1
"""In `extra_ids`: no id in this slot."""
N_KINDS = 3
PIECE = 3
"""The kind of an injected word piece, which is not a word of the text: batches alone have it."""

Layout = Literal["joined", "grouped"]
MENTION_FILLS = {
    "mention_spans": 0, "mention_graphs": -1, "mention_labels": IGNORE, "mention_classes": IGNORE,
    "candidate_ids": PAD_ROW,
    "candidate_priors": 0, "mention_weights": 0, "target_spans": 0,
}  # fmt: skip
"""Fields of mentions and targets, `[batch mention ...]`, each with what pads it."""
SUBGRAPH_FILLS = {
    "subgraph_ids": PAD_ROW, "subgraph_roles": NONE, "subgraph_scores": 0, "subgraph_edges": NONE,
}  # fmt: skip
"""Fields of a text's subgraph, `[batch entity ...]` or `[batch edge 3]`, each with what pads it."""
EXTRA_FILLS = {"extra_ids": NONE, "extra_labels": IGNORE}
"""Fields of further vocabularies, each with what fills an empty slot."""
TASK_FIELDS = ("labels", "teacher_logits", "pair_labels", "task_ids", "window_ids")
"""Fields of a sample as a whole."""
WHOLE_FIELDS = ("sampled_entities", "sampled_shares", "triples", "second_triples")
"""Fields that belong to the batch, not to a sample."""


class Role(IntEnum):
    """What an entity of a text's subgraph is to the text.

    The numbers enter tensors. A text alone is a question; a second text is an answer.
    """

    QUESTION = 0
    ANSWER = 1
    OTHER = 2


@dataclass(frozen=True, eq=False)
class KnowledgeBatch:
    """One batch, checked when it is made. Absent fields are None; masks are boolean, True = keep.

    Results of `to`, `take` and `replace` are not checked again, except the new values of `replace`.

    `visibility`: who sees whom. Padded nodes see (only) themselves. `entity_ids`: row of the entity
    aligned with a word (PAD_ROW: none), where entities are not nodes. `mention_spans`: node
    indices, end exclusive; an empty span (start = end) is padding. `mention_graphs`: which of
    several graphs a mention's candidates are rows of (-1: padding); absent means one graph.
    `mention_labels`: the gold row of a mention, UNKNOWN_ROW where it means none of the graph's
    entities (NIL), IGNORE where it is not predicted. `mention_classes`: another label of a mention
    (whether it is the true one), IGNORE where it is not predicted. `node_weights`: confidence of
    the link behind a node, or a word's entity, from 0 to 1 (1 for nodes without a link);
    `mention_weights`: the same per mention. Absent means 1 throughout. `node_labels`: the row,
    word-piece id or class to predict at a node, IGNORE elsewhere; `entity_labels`: the entity row
    to predict at a word, IGNORE elsewhere. `extra_ids`: by name of a further vocabulary (senses,
    polarities, parts of speech), the ids of each node in it, any number, `NONE` in slots that are
    left; `extra_labels`: the ids to predict there, IGNORE in slots that are left. The slots of a
    vocabulary are as many as its widest node. `subgraph_ids`: entity rows of the part of the graph
    that is read with a text, each once, PAD_ROW at the end of shorter ones; `subgraph_roles`: what
    each is to the text (`Role`), `subgraph_scores`: its relevance to the text less the text's own,
    higher for more relevant; `subgraph_edges`: place of the head, relation id and place of the tail
    of every triple among them, -1 in rows that are left.
    `pair_labels`: class of the two segments together (next sentence, sentence order).
    `target_spans`: the mentions that a task is about, in the task's order (head, tail). `labels`:
    the task's own; `teacher_logits`: a teacher's, rows of NaN where it gave none; `task_ids`: which
    of several tasks the batch belongs to, the same for all (absent: the first); `window_ids`: the
    number of a row among the windows of its text, from 0, which follow each other (absent: each row
    is a text). `sampled_entities`:
    entity rows that a loss ranks (golds and negatives), shared by the batch; `sampled_shares`: the
    log of the chance that each was among the negatives, infinite for golds that were not.
    `triples`: triples to score, whose entities are texts; `second_triples`: those of a second
    graph.
    """

    node_ids: Int[Tensor, "batch node"]
    node_kinds: Int[Tensor, "batch node"]
    node_mask: Bool[Tensor, "batch node"]
    positions: Int[Tensor, "batch node"]
    segment_ids: Int[Tensor, "batch node"]
    visibility: Visibility
    entity_ids: Int[Tensor, "batch node"] | None = None
    mention_spans: Int[Tensor, "batch mention 2"] | None = None
    candidate_ids: Int[Tensor, "batch mention candidate"] | None = None
    candidate_priors: Float[Tensor, "batch mention candidate"] | None = None
    mention_graphs: Int[Tensor, "batch mention"] | None = None
    mention_labels: Int[Tensor, "batch mention"] | None = None
    mention_classes: Int[Tensor, "batch mention"] | None = None
    node_weights: Float[Tensor, "batch node"] | None = None
    mention_weights: Float[Tensor, "batch mention"] | None = None
    node_labels: Int[Tensor, "batch node"] | None = None
    entity_labels: Int[Tensor, "batch node"] | None = None
    extra_ids: Mapping[str, Int[Tensor, "batch node _"]] | None = None
    extra_labels: Mapping[str, Int[Tensor, "batch node _"]] | None = None
    subgraph_ids: Int[Tensor, "batch entity"] | None = None
    subgraph_roles: Int[Tensor, "batch entity"] | None = None
    subgraph_scores: Float[Tensor, "batch entity"] | None = None
    subgraph_edges: Int[Tensor, "batch edge 3"] | None = None
    pair_labels: Int[Tensor, " batch"] | None = None
    target_spans: Int[Tensor, "batch target 2"] | None = None
    labels: Tensor | None = None
    teacher_logits: Float[Tensor, "batch class"] | None = None
    task_ids: Int[Tensor, " batch"] | None = None
    window_ids: Int[Tensor, " batch"] | None = None
    sampled_entities: Int[Tensor, " sampled"] | None = None
    sampled_shares: Float[Tensor, " sampled"] | None = None
    triples: TripleBatch | None = None
    second_triples: TripleBatch | None = None

    def __post_init__(self) -> None:
        check(vars(self), vars(self))

    def __repr__(self) -> str:
        present = [f.name for f in dataclasses.fields(self) if getattr(self, f.name) is not None]
        n_batch, n_node = self.node_ids.shape
        return f"KnowledgeBatch(batch={n_batch}, node={n_node}, fields={present})"

    def __len__(self) -> int:
        return len(self.node_ids)

    def to(self, device: torch.device | str) -> KnowledgeBatch:
        """The same batch on `device`."""
        return _with_each(self, lambda value: _to(value, device))

    def pin_memory(self) -> KnowledgeBatch:
        """The same in memory that a GPU can copy from by itself."""
        return _with_each(self, lambda value: value.pin_memory())

    def take(self, rows: Tensor | slice) -> KnowledgeBatch:
        """The samples at `rows`, padding included."""
        return _with_each(self, lambda value: value[rows], but=WHOLE_FIELDS)

    def replace(self, **fields: Any) -> KnowledgeBatch:
        """The same batch with other `fields`, which are checked; raises `BatchError` as new."""
        if unknown := sorted(fields.keys() - vars(self).keys()):
            raise BatchError(f"a batch has no field {unknown[0]!r}")
        whole = vars(self) | fields
        resized = whole["node_ids"].shape != self.node_ids.shape
        check(whole, whole if resized else fields)
        return derived(KnowledgeBatch, whole)

    def same_as(self, other: KnowledgeBatch, *, but: Collection[str] = ()) -> bool:
        """Whether both hold the same in all fields, those named in `but` aside."""
        return all(
            _same(value, getattr(other, name))
            for name, value in vars(self).items()
            if name not in but
        )

    def pad_to(self, n_nodes: int, *, word_pad_id: int = 0) -> KnowledgeBatch:
        """The same batch with every row `n_nodes` long; added nodes see only themselves."""
        n_old = self.node_ids.shape[1]
        if n_nodes < n_old:
            raise BatchError(f"a batch of {n_old} nodes cannot be padded to {n_nodes}")
        padded = fill_rows([self], None, words(n_nodes, self), word_pad_id)
        whole = {name: getattr(self, name) for name in WHOLE_FIELDS}
        return padded.replace(**whole)

    @staticmethod
    def stack(
        batches: Sequence[KnowledgeBatch], *, layout: Layout = "joined", word_pad_id: int = 0
    ) -> KnowledgeBatch:
        """Samples of all `batches` in one, padded to the longest.

        Layout "joined" pads at the end of a row. "grouped" gives words, entities and relations each
        a range of their own, padded to its longest (for entities and relations at least 1), as the
        original CoLAKE does; a padded node has the kind of its range. Pads are PAD_ROW in entity
        and relation ranges and `word_pad_id` elsewhere, with position and segment 0.
        """
        if not batches:
            raise BatchError("there is nothing to stack")
        for name in WHOLE_FIELDS:
            if any(getattr(batch, name) is not None for batch in batches):
                raise BatchError(f"{name} belong to one batch: add them after stacking")
        if layout == "grouped":
            places, kinds = _group(batches)
            return fill_rows(batches, places, kinds, word_pad_id)
        n_nodes = max(batch.node_ids.shape[1] for batch in batches)
        return fill_rows(batches, None, words(n_nodes, batches[0]), word_pad_id)


def all_or_none(batches: Sequence[KnowledgeBatch], name: str) -> list[Any]:
    values = [getattr(batch, name) for batch in batches]
    missing = [i for i, value in enumerate(values) if value is None]
    if missing:
        raise BatchError(f"{name} is present in some batches and absent in batch {missing[0]}")
    return values


def extras_of(batches: Sequence[KnowledgeBatch], name: str) -> dict[str, list[Tensor]]:
    """By vocabulary, the ids of every batch, with as many slots as the widest; {} without any."""
    if all(getattr(batch, name) is None for batch in batches):
        return {}
    values = all_or_none(batches, name)
    if other := next((v for v in values if v.keys() != values[0].keys()), None):
        raise BatchError(f"{name} are of {[*values[0]]} in one batch and of {[*other]} in another")
    extras = {}
    for extra in values[0]:
        parts = [value[extra] for value in values]
        width = max(part.shape[2] for part in parts)
        fill = EXTRA_FILLS[name]
        extras[extra] = [F.pad(part, (0, width - part.shape[2]), value=fill) for part in parts]
    return extras


def _pad_mentions(parts: list[Tensor], fill: int) -> list[Tensor]:
    """Parts `[batch mention ...]`, all as long (and as wide) as the largest."""
    n_mentions = max(part.shape[1] for part in parts)
    if parts[0].ndim == 2:
        return [F.pad(p, (0, n_mentions - p.shape[1]), value=fill) for p in parts]
    width = max(part.shape[2] for part in parts)
    return [
        F.pad(p, (0, width - p.shape[2], 0, n_mentions - p.shape[1]), value=fill) for p in parts
    ]


def words(n_nodes: int, batch: KnowledgeBatch) -> Tensor:
    """Kinds `[node]` of a row that is padded as words."""
    return torch.zeros(n_nodes, dtype=batch.node_kinds.dtype, device=batch.node_kinds.device)


def _group(batches: Sequence[KnowledgeBatch]) -> tuple[list[Tensor], Tensor]:
    """Places `[batch node]` of all nodes, and kinds `[node]`, when each kind has a range."""
    counts = []
    for batch in batches:
        if not bool(batch.node_mask.all()):
            raise BatchError("only unpadded batches can be grouped; stack the single samples")
        counts.append(torch.stack([(batch.node_kinds == k).sum(1) for k in range(N_KINDS)]))
    device = batches[0].node_kinds.device
    least = torch.tensor([0, 1, 1], device=device)
    widths = torch.cat(counts, dim=1).max(dim=1).values.clamp(min=least)
    starts = torch.cumsum(widths, 0) - widths
    places = []
    for batch in batches:
        rank = torch.stack([(batch.node_kinds == k).cumsum(1) - 1 for k in range(N_KINDS)])
        kinds = batch.node_kinds.long()
        places.append(starts[kinds] + rank.gather(0, kinds[None])[0])
    return places, torch.repeat_interleave(torch.arange(N_KINDS, device=device), widths)


def fill_rows(
    batches: Sequence[KnowledgeBatch],
    places: Sequence[Tensor] | None,
    kinds: Tensor,
    word_pad_id: int,
) -> KnowledgeBatch:
    """All samples in rows of pads of `kinds [node]`, each node at its place (None: as it is)."""
    n_batch, n_new, device = sum(map(len, batches)), len(kinds), kinds.device
    fills: dict[str, Tensor | int | bool] = {
        "node_ids": torch.where(kinds == 0, word_pad_id, PAD_ROW), "node_kinds": kinds,
        "positions": 0, "segment_ids": 0, "entity_ids": PAD_ROW, "node_labels": IGNORE,
        "entity_labels": IGNORE, "node_weights": 1, "node_mask": False,
    }  # fmt: skip
    values: dict[str, Any] = {}
    for name, fill in fills.items():
        if all(getattr(batch, name) is None for batch in batches):
            continue
        parts = all_or_none(batches, name)
        whole = torch.empty(n_batch, n_new, dtype=parts[0].dtype, device=device)
        whole[:] = fill
        values[name] = _put(whole, parts, places)
    visible = torch.eye(n_new, dtype=torch.bool, device=device).repeat(n_batch, 1, 1)
    visible = _put(visible, [batch.visibility.mask for batch in batches], places)
    values["visibility"] = Visibility(visible)
    padded = MENTION_FILLS | SUBGRAPH_FILLS
    for name in (*padded, *TASK_FIELDS):
        if all(getattr(batch, name) is None for batch in batches):
            continue
        parts = all_or_none(batches, name)
        if name in SPAN_FIELDS and places is not None:
            parts = [_move_spans(*pair) for pair in zip(parts, places, strict=True)]
        if name in padded:
            parts = _pad_mentions(parts, padded[name])
        values[name] = torch.cat(parts)
    for name, fill in EXTRA_FILLS.items():
        values[name] = {
            extra: _put_slots(parts, places, n_new, fill)
            for extra, parts in extras_of(batches, name).items()
        } or None
    return KnowledgeBatch(**values)


def _put_slots(
    parts: Sequence[Tensor], places: Sequence[Tensor] | None, n_nodes: int, fill: int
) -> Tensor:
    """`parts` (`[batch node slot]`) below one another in rows of `n_nodes`, each at its place."""
    rows = []
    for i, part in enumerate(parts):
        n_batch, n_old, n_slots = part.shape
        if places is None:
            rows.append(F.pad(part, (0, 0, 0, n_nodes - n_old), value=fill))
            continue
        whole = part.new_full((n_batch, n_nodes, n_slots), fill)
        rows.append(whole.scatter_(1, places[i][:, :, None].expand_as(part), part))
    return torch.cat(rows)


def _put(whole: Tensor, parts: Sequence[Tensor], places: Sequence[Tensor] | None) -> Tensor:
    """Write `parts` (`[batch node]` or `[batch node node]`) below one another into `whole`."""
    row = 0
    for i, part in enumerate(parts):
        rows, n = whole[row : row + len(part)], part.shape[1]
        if places is None:
            rows[(slice(None), *[slice(n)] * (part.ndim - 1))] = part
        elif part.ndim == 2:
            rows.scatter_(1, places[i], part)
        else:
            sample = torch.arange(len(part), device=part.device)[:, None, None]
            rows[sample, places[i][:, :, None], places[i][:, None, :]] = part
        row += len(part)
    return whole


def _move_spans(spans: Tensor, places: Tensor) -> Tensor:
    """Spans at the new places of their nodes; empty spans stay (0, 0)."""
    if not spans.shape[1]:
        return spans
    first = places.gather(1, spans[..., 0].clamp(max=places.shape[1] - 1))
    last = places.gather(1, (spans[..., 1] - 1).clamp(min=0)) + 1
    new_spans = torch.stack([first, last], dim=2)
    return torch.where((spans[..., 1] > spans[..., 0])[..., None], new_spans, 0)


@dataclass(frozen=True, eq=False)
class TripleBatch:
    """Triples as indices of rows of `texts`, a batch of descriptions; each text is encoded once.

    `relations` are rows of a relation table (graph id + `N_SPECIAL_ROWS`). Negative heads and tails
    replace the head and the tail of their triple. `head_partners[t]` is the text that stands for
    the head when the tail (or its negatives) is scored, `tail_partners[t]` the one that stands for
    the tail; absent means `heads` and `tails` (KEPLER-Cond puts the relation's description there).
    `relation_texts`: texts of the relations (KEPLER-Rel), instead of the table.
    """

    texts: KnowledgeBatch
    heads: Int[Tensor, " triple"]
    relations: Int[Tensor, " triple"]
    tails: Int[Tensor, " triple"]
    negative_heads: Int[Tensor, "triple negative"]
    negative_tails: Int[Tensor, "triple negative"]
    head_partners: Int[Tensor, " triple"] | None = None
    tail_partners: Int[Tensor, " triple"] | None = None
    relation_texts: Int[Tensor, " triple"] | None = None

    def __post_init__(self) -> None:
        n_triples, n_texts = len(self.heads), len(self.texts)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "texts" or value is None:
                continue
            if len(value) != n_triples:
                raise BatchError(f"{field.name} has {len(value)} rows for {n_triples} triples")
            if field.name != "relations" and value.numel() and int(value.max()) >= n_texts:
                raise BatchError(f"{field.name} names text {int(value.max())} of {n_texts}")

    def __len__(self) -> int:
        return len(self.heads)

    def pin_memory(self) -> TripleBatch:
        """See `KnowledgeBatch.pin_memory`."""
        return _with_each(self, lambda value: value.pin_memory())

    def to(self, device: torch.device | str) -> TripleBatch:
        """The same triples on `device`."""
        return _with_each(self, lambda value: _to(value, device))


def _same(one: Any, other: Any) -> bool:
    """Whether two fields hold the same."""
    if type(one) is not type(other) or one is None:
        return one is other
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return all(_same(value, getattr(other, name)) for name, value in vars(one).items())


Fields = TypeVar("Fields", KnowledgeBatch, TripleBatch)


def _to(value: Any, device: torch.device | str) -> Any:
    return moved(value, device) if isinstance(value, Tensor) else value.to(device)


def _with_each(fields: Fields, change: Callable[[Any], Any], but: Collection[str] = ()) -> Fields:
    """The same with `change` of every tensor that it holds, except of the fields in `but`."""
    changed = {
        name: value if value is None or name in but
        else {extra: change(ids) for extra, ids in value.items()} if name in EXTRA_FILLS
        else change(value)
        for name, value in vars(fields).items()
    }  # fmt: skip
    return derived(type(fields), changed)
