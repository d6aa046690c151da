"""Text: SimKGC on word pieces that were made beforehand, and what its controls read.

The encoders and their contrast are those of `kept.kge.simkgc`. No name of a neighbour follows a
short description, and nothing is re-ranked by neighbourhood: of an entity its name and its
description are read, and no fact.

Axis legend: entity, text, token, batch, candidate, width.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel

from experiments.unseen_entities.steps import take_steps
from experiments.unseen_entities.worlds import SCALE, WORDS, Pieces, SplitGraph
from kept.evaluation.ranking import Direction
from kept.kge.simkgc.networks import BiEncoder, contrast
from kept.kge.simkgc.texts import Tokens
from kept.randomness import generator, torch_draws, torch_seed

PAD, CLS, SEP = range(3)
"""Rows of the pack's word table."""
ENCODED = 1024
CONTROLS = ("another", "shuffled", "cut", "words")


@dataclass(frozen=True)
class TextSettings:
    """How SimKGC is trained; a step asks `batch_size` triples and inverses."""

    steps: int
    batch_size: int
    learning_rate: float = 5e-5
    warmup: int = 20
    margin: float = 0.02
    n_tokens: int = 50


def open_host(folder: Path) -> Any:
    """Return the host of a pack, in float32."""
    config = json.loads((folder / "host.json").read_text(encoding="utf-8"))
    with np.load(folder / "host.npz") as stored:
        weights = {name: torch.from_numpy(stored[name]).float() for name in stored.files}
    weights[WORDS] = weights[WORDS] * weights.pop(SCALE)
    host = AutoModel.from_config(AutoConfig.for_model(**config))
    missing, unknown = host.load_state_dict(weights, strict=False)
    wrong = [name for name in [*missing, *unknown] if not name.endswith("_ids")]
    if [name for name in wrong if not name.startswith("pooler.")]:
        raise ValueError(f"{folder}/host.npz holds other weights: {wrong}")
    return host


@dataclass(frozen=True, eq=False)
class PieceTable:
    """Texts as padded word pieces on a device, `ids [text token]`, `lengths [text]`."""

    ids: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, pieces: Pieces, device: Any) -> PieceTable:
        """Return the texts of a pack."""
        ids, lengths = (torch.from_numpy(array).to(device) for array in pieces.padded())
        return cls(ids, lengths)

    def entities(self, rows: Tensor, n_tokens: int) -> Tokens:
        """Return each text between the marks of its begin and end."""
        return self._assembled(rows, None, None, n_tokens)

    def questions(self, rows: Tensor, others: PieceTable, seconds: Tensor, n_tokens: int) -> Tokens:
        """Return each text, then that of `others`; the first is cut where both are too long."""
        return self._assembled(rows, others, seconds, n_tokens)

    def _assembled(
        self, rows: Tensor, others: PieceTable | None, seconds: Tensor | None, n_tokens: int
    ) -> Tokens:
        second = torch.zeros_like(rows)
        if others is not None and seconds is not None:
            second = others.lengths[seconds]
        n_marks = 2 if others is None else 3
        first = torch.minimum(self.lengths[rows], n_tokens - n_marks - second)
        total = first + second + n_marks
        position = torch.arange(int(total.max()), device=rows.device)[None]
        first, total = first[:, None], total[:, None]
        texts = self.ids[rows].gather(1, (position - 1).clamp(0, self.ids.shape[1] - 1).expand(
            len(rows), -1))  # fmt: skip
        ids = torch.where(position == 0, CLS, texts)
        if others is not None and seconds is not None:
            behind = (position - first - 2).clamp(0, others.ids.shape[1] - 1)
            ids = torch.where(position > first, others.ids[seconds].gather(1, behind), ids)
        ids = torch.where((position == first + 1) | (position == total - 1), SEP, ids)
        mask = position < total
        ids = torch.where(mask, ids, PAD)
        types = ((position > first + 1) & mask).long()
        return Tokens(ids, types, mask)


# ---- training ------------------------------------------------------------------------------------
def _precision(device: Any) -> AbstractContextManager[Any]:
    """bfloat16 on a GPU, float32 on a CPU."""
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda")


def train_text(
    folder: Path, world: SplitGraph, settings: TextSettings, seed: int, device: Any
) -> tuple[BiEncoder, list[float]]:
    """Return SimKGC trained on the training triples and their inverses, and its losses."""
    with torch_draws(seed, "initial weights", "simkgc"):
        model = BiEncoder(open_host(folder)).to(device)
    texts = PieceTable.of(world.texts["true"], device)
    relations = PieceTable.of(world.relation_texts, device)
    train = torch.from_numpy(world.train).to(device)
    head, relation, tail = train.unbind(1)
    rows = torch.cat([train, torch.stack([tail, relation + world.n_relations, head], 1)])
    keys = _keys(rows[:, 0], rows[:, 1], rows[:, 2], world).sort().values
    draws = torch.Generator(device).manual_seed(torch_seed(seed, "text batches"))
    torch.manual_seed(torch_seed(seed, "dropout"))

    def rate(step: int) -> float:
        left = (settings.steps - step) / max(1, settings.steps - settings.warmup)
        return settings.learning_rate * min((step + 1) / settings.warmup, left)

    losses = take_steps(
        model,
        torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=1e-4), rows,
        lambda batch: _loss(model, texts, relations, batch, keys, world, settings, device),
        n_steps=settings.steps, batch_size=settings.batch_size, clip_norm=10.0, draws=draws,
        rate=rate,
    )  # fmt: skip
    return model, losses


def _keys(head: Tensor, relation: Tensor, tail: Tensor, world: SplitGraph) -> Tensor:
    return (head * (2 * world.n_relations) + relation) * world.n_entities + tail


def _is_known(keys: Tensor, wanted: Tensor) -> Tensor:
    index = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return keys[index] == wanted


def _loss(
    model: BiEncoder, texts: PieceTable, relations: PieceTable, batch: Tensor, keys: Tensor,
    world: SplitGraph, settings: TextSettings, device: Any,
) -> Tensor:  # fmt: skip
    """Both directions of the contrast, with in-batch and self negatives; each text once."""
    head, relation, tail = batch.unbind(1)
    distinct, inverse = torch.cat([tail, head]).unique(return_inverse=True)  # type: ignore[no-untyped-call]
    pairs, pair_rows = (head * 2 * world.n_relations + relation).unique(return_inverse=True)  # type: ignore[no-untyped-call]
    first, kind = pairs // (2 * world.n_relations), pairs % (2 * world.n_relations)
    with _precision(device):
        questions = model.encode_questions(
            texts.questions(first, relations, kind, settings.n_tokens)
        )
        entities = model.encode_entities(texts.entities(distinct, settings.n_tokens))
    questions, entities = questions.float()[pair_rows], entities.float()[inverse]
    answers, entity_rows = entities[: len(batch)], entities[len(batch) :]
    known = _is_known(keys, _keys(head[:, None], relation[:, None], tail[None], world))
    mask = ~known | torch.eye(len(batch), dtype=torch.bool, device=device)
    head_mask = ~_is_known(keys, _keys(head, relation, head, world))
    contrasts = contrast(
        questions, answers, model.log_scale, mask, margin=settings.margin, heads=entity_rows,
        head_mask=head_mask,
    )  # fmt: skip
    forwards, backwards = contrasts.losses()
    return forwards + backwards


# ---- scores --------------------------------------------------------------------------------------
def control_rows(world: SplitGraph, kind: str, part_group: int) -> np.ndarray:
    """Return whose text each entity has under a control `[entity]`.

    "another": every held-out entity of the part has the text of another one. "shuffled": the texts
    of all entities are shuffled. Else each its own: "cut", without the names of an entity's
    neighbours, and "words", with the words of each description in a random order, are other texts.
    """
    rows = np.arange(world.n_entities)
    draws = generator(world.split, "texts", kind, part_group)
    if kind == "another":
        of_part = draws.permutation(np.flatnonzero(world.group == part_group))
        rows[of_part] = np.roll(of_part, 1)
    return draws.permutation(rows) if kind == "shuffled" else rows


class TextReader:
    """A trained encoder with the texts of a kind, each encoded once."""

    def __init__(
        self, model: BiEncoder, world: SplitGraph, kind: str, settings: TextSettings, device: Any
    ) -> None:
        self.model, self.settings, self.device = model, settings, device
        self.texts = PieceTable.of(world.texts[kind], device)
        self.relations = PieceTable.of(world.relation_texts, device)
        self.n_relations = world.n_relations
        self.entities = self.encoded(torch.arange(world.n_entities, device=device), None)

    @torch.no_grad()
    def encoded(self, rows: Tensor, kinds: Tensor | None) -> Tensor:
        """Vectors of entities, or of questions where there are `kinds`; short texts first."""
        order = self.texts.lengths[rows].argsort(stable=True)
        parts = []
        for chunk in order.split(ENCODED):  # type: ignore[no-untyped-call]
            n = self.settings.n_tokens
            with _precision(self.device):
                if kinds is None:
                    vectors = self.model.encode_entities(self.texts.entities(rows[chunk], n))
                else:
                    tokens = self.texts.questions(rows[chunk], self.relations, kinds[chunk], n)
                    vectors = self.model.encode_questions(tokens)
            parts.append(vectors.float())
        return torch.cat(parts)[order.argsort()]


class TextScorer:
    """Cosines of questions and entities, as `kept.evaluation.ranking` asks for them.

    `rows [entity]`: whose text each entity has.
    """

    def __init__(self, reader: TextReader, rows: np.ndarray) -> None:
        self.reader = reader
        self.rows = torch.from_numpy(rows).to(reader.device)
        self.entities = reader.entities[self.rows]

    @torch.no_grad()
    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        """`[batch candidate]`."""
        head, relation, tail = triples.to(self.reader.device).unbind(1)
        n = self.reader.n_relations
        if direction == "head":
            head, relation = tail, relation + n
        pairs, inverse = (self.rows[head] * 2 * n + relation).unique(return_inverse=True)  # type: ignore[no-untyped-call]
        questions = self.reader.encoded(pairs // (2 * n), pairs % (2 * n))
        return (questions @ self.entities.T)[inverse]
