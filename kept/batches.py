"""`KnowledgeBatch`: the one input of every encoder. Tensors only; strings stop here.

Ids in `node_ids`: word-piece ids for words; for entities and relations the *row* of the model's
table: `UNKNOWN_ROW`, `PAD_ROW`, `MASK_ROW`, then graph id + `N_SPECIAL_ROWS`. K-BERT spells both
out: there they are word pieces, too. Nodes of kind `PIECE` always are.

Axis legend: batch, node, mention, candidate, target (mentions that a task asks about), sampled,
slot (of the ids of one further vocabulary at a node).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from kept.errors import BatchError

UNKNOWN_ROW, PAD_ROW, MASK_ROW, N_SPECIAL_ROWS = 0, 1, 2, 3
IGNORE = -100
NONE = -1
"""In `extra_ids`: no id of the vocabulary in this slot."""
N_KINDS = 3
PIECE = 3
"""The kind of an injected word piece, which is no word of the text: batches alone have it."""

Layout = Literal["joined", "grouped"]
_NODE_FIELDS = (
    "node_ids", "node_kinds", "positions", "segment_ids", "entity_ids", "node_labels",
    "entity_labels", "node_weights",
)  # fmt: skip
_FLOAT_FIELDS = ("node_weights", "mention_weights")
_SPAN_FIELDS = ("mention_spans", "target_spans")
_MENTION_FILLS = {
    "mention_spans": 0, "mention_graphs": -1, "mention_labels": IGNORE, "candidate_ids": PAD_ROW,
    "candidate_priors": 0, "mention_weights": 0, "target_spans": 0,
}  # fmt: skip
"""Fields of mentions and targets, `[batch mention ...]`, each with what pads it."""
_EXTRA_FILLS = {"extra_ids": NONE, "extra_labels": IGNORE}
"""Fields of further vocabularies, each with what fills an empty slot."""
_WHOLE_FIELDS = ("sampled_entities", "triples", "second_triples")
"""Fields that belong to the batch, not to a sample."""


@dataclass(frozen=True, eq=False)
class KnowledgeBatch:
    """One batch. Absent fields are None; masks are boolean with True = keep.

    `visible_mask[b, i, j]`: query node i may see node j. Padded nodes see (only) themselves.
    `entity_ids`: row of the entity aligned with a word (PAD_ROW: none), where entities are no
    nodes. `mention_spans`: node indices, end exclusive; an empty span (start = end) is padding.
    `mention_graphs`: which of several graphs a mention's candidates are rows of (-1: padding);
    absent means one graph. `mention_labels`: the gold row of a mention, UNKNOWN_ROW where it means
    none of the graph's entities (NIL), IGNORE where it is not asked.
    `node_weights`: how sure the link is that brought a node, or a word's entity, from 0 to 1 (1 for
    what needs no link); `mention_weights`: the same of each mention. Absent means 1 throughout.
    `node_labels`: the row, word-piece id or class to predict at a node, IGNORE elsewhere;
    `entity_labels`: the entity row to predict at a word, IGNORE elsewhere.
    `extra_ids`: by name of a further vocabulary (senses, polarities, parts of speech), the ids of
    each node in it, any number, `NONE` in slots that are left; `extra_labels`: the ids to predict
    there, IGNORE in slots that are left. The slots of a vocabulary are as many as its widest node.
    `pair_labels`: class of the two segments together (next sentence, sentence order).
    `target_spans`: the mentions that a task asks about, in the task's order (head, tail).
    `labels`: the task's own; `task_ids`: which of several tasks is asked, the same for all (absent:
    the first). `sampled_entities`: entity rows that a loss ranks (golds and negatives), shared by
    the batch. `triples`: triples to score, whose entities are texts; `second_triples`: those of a
    second graph.
    """

    node_ids: Int[Tensor, "batch node"]
    node_kinds: Int[Tensor, "batch node"]
    node_mask: Bool[Tensor, "batch node"]
    positions: Int[Tensor, "batch node"]
    segment_ids: Int[Tensor, "batch node"]
    visible_mask: Bool[Tensor, "batch node node"]
    entity_ids: Int[Tensor, "batch node"] | None = None
    mention_spans: Int[Tensor, "batch mention 2"] | None = None
    candidate_ids: Int[Tensor, "batch mention candidate"] | None = None
    candidate_priors: Float[Tensor, "batch mention candidate"] | None = None
    mention_graphs: Int[Tensor, "batch mention"] | None = None
    mention_labels: Int[Tensor, "batch mention"] | None = None
    node_weights: Float[Tensor, "batch node"] | None = None
    mention_weights: Float[Tensor, "batch mention"] | None = None
    node_labels: Int[Tensor, "batch node"] | None = None
    entity_labels: Int[Tensor, "batch node"] | None = None
    extra_ids: Mapping[str, Int[Tensor, "batch node _"]] | None = None
    extra_labels: Mapping[str, Int[Tensor, "batch node _"]] | None = None
    pair_labels: Int[Tensor, " batch"] | None = None
    target_spans: Int[Tensor, "batch target 2"] | None = None
    labels: Tensor | None = None
    task_ids: Int[Tensor, " batch"] | None = None
    sampled_entities: Int[Tensor, " sampled"] | None = None
    triples: TripleBatch | None = None
    second_triples: TripleBatch | None = None

    def __post_init__(self) -> None:
        _check_nodes(self)
        _check_extras(self)
        _check_mentions(self)

    def __repr__(self) -> str:
        present = [f.name for f in dataclasses.fields(self) if getattr(self, f.name) is not None]
        n_batch, n_node = self.node_ids.shape
        return f"KnowledgeBatch(batch={n_batch}, node={n_node}, fields={present})"

    def __len__(self) -> int:
        return len(self.node_ids)

    def to(self, device: torch.device | str) -> KnowledgeBatch:
        """The same batch on `device`."""
        return self._with_each(lambda value: value.to(device))

    def take(self, rows: Tensor | slice) -> KnowledgeBatch:
        """The samples at `rows`, padding included."""
        return self._with_each(lambda value: value[rows], but=_WHOLE_FIELDS)

    def _with_each(self, change: Callable[[Any], Any], but: Sequence[str] = ()) -> KnowledgeBatch:
        """The batch with `change` of every tensor and triples, except of the fields in `but`."""
        changed: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None or field.name in but:
                continue
            if field.name in _EXTRA_FILLS:
                changed[field.name] = {name: change(ids) for name, ids in value.items()}
            else:
                changed[field.name] = change(value)
        return dataclasses.replace(self, **changed)

    def pad_to(self, n_nodes: int, *, word_pad_id: int = 0) -> KnowledgeBatch:
        """The same batch with every row `n_nodes` long; added nodes see only themselves."""
        n_old = self.node_ids.shape[1]
        if n_nodes < n_old:
            raise BatchError(f"a batch of {n_old} nodes cannot be padded to {n_nodes}")
        padded = _fill([self], None, _words(n_nodes, self), word_pad_id)
        whole = {name: getattr(self, name) for name in _WHOLE_FIELDS}
        return dataclasses.replace(padded, **whole)

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
        for name in _WHOLE_FIELDS:
            if any(getattr(batch, name) is not None for batch in batches):
                raise BatchError(f"{name} belong to one batch: add them after stacking")
        if layout == "grouped":
            places, kinds = _group(batches)
            return _fill(batches, places, kinds, word_pad_id)
        n_nodes = max(batch.node_ids.shape[1] for batch in batches)
        return _fill(batches, None, _words(n_nodes, batches[0]), word_pad_id)


@dataclass(frozen=True, eq=False)
class Packed:
    """Several samples in a row. Sample i is `batch` row `rows[i]`, nodes `starts[i]:stops[i]`."""

    batch: KnowledgeBatch
    rows: tuple[int, ...]
    starts: tuple[int, ...]
    stops: tuple[int, ...]

    def unpack(self, values: Tensor) -> list[Tensor]:
        """Split `values [row node ...]` into one tensor `[node ...]` a sample, in order."""
        return [
            values[row, start:stop]
            for row, start, stop in zip(self.rows, self.starts, self.stops, strict=True)
        ]


def pack(batches: Sequence[KnowledgeBatch], n_nodes: int, *, word_pad_id: int = 0) -> Packed:
    """Put samples side by side in rows of `n_nodes`, each into the first row with room.

    Samples do not see one another; positions stay. `batches` are batches of one; task labels
    cannot be packed. A row's mentions are those of its samples, in order.
    """
    rows: list[list[KnowledgeBatch]] = []
    filled: list[int] = []
    places: list[tuple[int, int, int]] = []
    for i, batch in enumerate(batches):
        length = batch.node_ids.shape[1]
        unpacked = ("labels", "pair_labels", "task_ids", *_WHOLE_FIELDS)
        if len(batch) != 1 or any(getattr(batch, name) is not None for name in unpacked):
            raise BatchError(f"batch {i} to pack: one sample, none of {', '.join(unpacked)}")
        if length > n_nodes:
            raise BatchError(f"batch {i} has {length} nodes, a packed row {n_nodes}")
        row = next((r for r, used in enumerate(filled) if used + length <= n_nodes), len(rows))
        if row == len(rows):
            rows.append([])
            filled.append(0)
        places.append((row, filled[row], filled[row] + length))
        rows[row].append(batch)
        filled[row] += length
    if not rows:
        raise BatchError("there is nothing to pack")
    joined = [_concatenate(row) for row in rows]
    packed = _fill(joined, None, _words(n_nodes, joined[0]), word_pad_id)
    return Packed(packed, *(tuple(column) for column in zip(*places, strict=True)))


def _concatenate(samples: Sequence[KnowledgeBatch]) -> KnowledgeBatch:
    """One row that holds `samples` side by side."""
    values: dict[str, Any] = {
        name: torch.cat(_all_or_none(samples, name), dim=1)
        for name in (*_NODE_FIELDS, "node_mask")
        if getattr(samples[0], name) is not None
    }
    values["visible_mask"] = _block_diagonal([s.visible_mask[0] for s in samples])[None]
    starts = np.cumsum([0, *(sample.node_ids.shape[1] for sample in samples)])
    for name, fill in _MENTION_FILLS.items():
        if getattr(samples[0], name) is None:
            continue
        parts = _all_or_none(samples, name)
        if name in _SPAN_FIELDS:
            parts = [p + int(start) for p, start in zip(parts, starts[:-1], strict=True)]
        if parts[0].ndim == 3:
            width = max(part.shape[2] for part in parts)
            parts = [F.pad(p, (0, width - p.shape[2]), value=fill) for p in parts]
        values[name] = torch.cat(parts, dim=1)
    for name in _EXTRA_FILLS:
        if found := _extras(samples, name):
            values[name] = {extra: torch.cat(parts, dim=1) for extra, parts in found.items()}
    return KnowledgeBatch(**values)


def _block_diagonal(masks: Sequence[Tensor]) -> Tensor:
    n_nodes = sum(len(mask) for mask in masks)
    whole = torch.zeros(n_nodes, n_nodes, dtype=torch.bool, device=masks[0].device)
    start = 0
    for mask in masks:
        stop = start + len(mask)
        whole[start:stop, start:stop] = mask
        start = stop
    return whole


def _all_or_none(batches: Sequence[KnowledgeBatch], name: str) -> list[Any]:
    values = [getattr(batch, name) for batch in batches]
    missing = [i for i, value in enumerate(values) if value is None]
    if missing:
        raise BatchError(f"{name} is present in some batches and absent in batch {missing[0]}")
    return values


def _extras(batches: Sequence[KnowledgeBatch], name: str) -> dict[str, list[Tensor]]:
    """By vocabulary, the ids of every batch, with as many slots as the widest; {} without any."""
    if all(getattr(batch, name) is None for batch in batches):
        return {}
    values = _all_or_none(batches, name)
    if other := next((v for v in values if v.keys() != values[0].keys()), None):
        raise BatchError(f"{name} are of {[*values[0]]} in one batch and of {[*other]} in another")
    found = {}
    for extra in values[0]:
        parts = [value[extra] for value in values]
        width = max(part.shape[2] for part in parts)
        fill = _EXTRA_FILLS[name]
        found[extra] = [F.pad(part, (0, width - part.shape[2]), value=fill) for part in parts]
    return found


def _pad_mentions(parts: list[Tensor], fill: int) -> list[Tensor]:
    """Parts `[batch mention ...]`, all as long (and as wide) as the largest."""
    n_mentions = max(part.shape[1] for part in parts)
    if parts[0].ndim == 2:
        return [F.pad(p, (0, n_mentions - p.shape[1]), value=fill) for p in parts]
    width = max(part.shape[2] for part in parts)
    return [
        F.pad(p, (0, width - p.shape[2], 0, n_mentions - p.shape[1]), value=fill) for p in parts
    ]


def _words(n_nodes: int, batch: KnowledgeBatch) -> Tensor:
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


def _fill(
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
        parts = _all_or_none(batches, name)
        whole = torch.empty(n_batch, n_new, dtype=parts[0].dtype, device=device)
        whole[:] = fill
        values[name] = _put(whole, parts, places)
    visible = torch.eye(n_new, dtype=torch.bool, device=device).repeat(n_batch, 1, 1)
    values["visible_mask"] = _put(visible, [batch.visible_mask for batch in batches], places)
    for name in (*_MENTION_FILLS, "labels", "pair_labels", "task_ids"):
        if all(getattr(batch, name) is None for batch in batches):
            continue
        parts = _all_or_none(batches, name)
        if name in _SPAN_FIELDS and places is not None:
            parts = [_move_spans(*pair) for pair in zip(parts, places, strict=True)]
        if name in _MENTION_FILLS:
            parts = _pad_mentions(parts, _MENTION_FILLS[name])
        values[name] = torch.cat(parts)
    for name, fill in _EXTRA_FILLS.items():
        values[name] = {
            extra: _put_slots(parts, places, n_new, fill)
            for extra, parts in _extras(batches, name).items()
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
    moved = torch.stack([first, last], dim=2)
    return torch.where((spans[..., 1] > spans[..., 0])[..., None], moved, 0)


def _check_nodes(batch: KnowledgeBatch) -> None:
    n_batch, n_node = batch.node_ids.shape
    for name in (*_NODE_FIELDS, "node_mask"):
        value = getattr(batch, name)
        if value is None:
            continue
        if value.shape != (n_batch, n_node):
            raise BatchError(f"{name} has shape {tuple(value.shape)}, node_ids {(n_batch, n_node)}")
        if name in _FLOAT_FIELDS:
            _check_weights(name, value)
        elif (value.dtype == torch.bool) != (name == "node_mask") or value.is_floating_point():
            wanted = "bool" if name == "node_mask" else "an integer type"
            raise BatchError(f"{name} must be {wanted}, not {value.dtype}")
    mask = batch.visible_mask
    if mask.shape != (n_batch, n_node, n_node) or mask.dtype != torch.bool:
        raise BatchError(
            f"visible_mask must be bool {(n_batch, n_node, n_node)}, "
            f"not {mask.dtype} {tuple(mask.shape)}"
        )
    if not bool(mask.diagonal(dim1=1, dim2=2).all()):
        raise BatchError("every node must see itself: a fully masked row is NaN under SDPA")
    if not bool(batch.node_mask.all()):
        real = batch.node_mask
        seen = (mask & real[:, :, None] & ~real[:, None, :]).nonzero()
        if len(seen):
            sample, query, key = seen[0].tolist()
            raise BatchError(f"sample {sample}: node {query} sees node {key}, which is padding")


def _check_extras(batch: KnowledgeBatch) -> None:
    shape = batch.node_ids.shape
    for field in _EXTRA_FILLS:
        for name, ids in (getattr(batch, field) or {}).items():
            if ids.ndim != 3 or ids.shape[:2] != shape or ids.is_floating_point():
                raise BatchError(
                    f"{field} of {name!r} are {ids.dtype} {tuple(ids.shape)}; they must be "
                    f"integers {(*shape, 'slot')}"
                )


def _check_weights(name: str, weights: Tensor) -> None:
    if not weights.is_floating_point() or not bool(((weights >= 0) & (weights <= 1)).all()):
        raise BatchError(f"{name} must be floating point from 0 to 1, not {weights}")


def _check_mentions(batch: KnowledgeBatch) -> None:
    for name in _SPAN_FIELDS:
        if getattr(batch, name) is not None:
            _check_spans(batch, name)
    spans, ids, priors = batch.mention_spans, batch.candidate_ids, batch.candidate_priors
    for name in ("mention_graphs", "mention_labels", "mention_weights", "candidate_ids"):
        value = getattr(batch, name)
        if value is not None and (spans is None or value.shape[:2] != spans.shape[:2]):
            raise BatchError(f"{name} {tuple(value.shape)} need mention_spans of as many mentions")
    if batch.mention_weights is not None:
        _check_weights("mention_weights", batch.mention_weights)
    if priors is not None and (ids is None or priors.shape != ids.shape):
        raise BatchError(f"candidate_priors {tuple(priors.shape)} need candidate_ids of that shape")
    if batch.pair_labels is not None and batch.pair_labels.shape != (len(batch),):
        raise BatchError(f"pair_labels need shape [{len(batch)}], not {batch.pair_labels.shape}")
    if batch.sampled_entities is not None and batch.sampled_entities.ndim != 1:
        raise BatchError(f"sampled_entities need one axis, not {batch.sampled_entities.shape}")


def _check_spans(batch: KnowledgeBatch, name: str) -> None:
    n_batch, n_node = batch.node_ids.shape
    spans = getattr(batch, name)
    if spans.ndim != 3 or spans.shape[0] != n_batch or spans.shape[2] != 2:
        raise BatchError(f"{name} need shape [{n_batch} mention 2], not {spans.shape}")
    wrong = (spans[..., 0] < 0) | (spans[..., 1] < spans[..., 0]) | (spans[..., 1] > n_node)
    if bool(wrong.any()):
        sample, mention = wrong.nonzero()[0].tolist()
        raise BatchError(
            f"sample {sample}: {name} {mention} is {spans[sample, mention].tolist()}, "
            f"outside 0 <= start <= end <= {n_node}"
        )


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

    def to(self, device: torch.device | str) -> TripleBatch:
        """The same triples on `device`."""
        moved: dict[str, Any] = {
            f.name: None if value is None else value.to(device)
            for f in dataclasses.fields(self)
            for value in (getattr(self, f.name),)
        }
        return TripleBatch(**moved)
