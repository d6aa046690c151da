"""KAR: where one graph enters KnowBERT, and with which sizes (Peters et al. 2019, section 3).

The networks are in `kept.layers.entity_linker`; `kept.encoders.knowbert` puts them into a host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch
from kept.batches.host_copies import on_host
from kept.errors import BatchError, ConfigError
from kept.layers.entity_linker import EntityLinker, EntityTable, PartEntityTable
from kept.options import read_options

N_PARTS = 9
"""Rows of a table of parts of speech: none, n, v, a, r, s, MASK, NULL, unknown."""


@dataclass(frozen=True, kw_only=True)
class KAR:
    """One graph's place and sizes; raises `ConfigError` naming every faulty field.

    `layer`: the KAR follows this layer (0 is the first; None: five sixths up the host, as the
    paper's 10th of 12). `loss`: "margin" (NULL below `threshold`) or "softmax" (always an entity).
    `null` says what `threshold` does: "hard" (the paper) drops candidates below it and takes NULL
    where none remains, without a gradient to the scorer then; "soft" makes NULL one more candidate,
    whose score is the threshold. `first_score` is the candidates' mean score before training: above
    the threshold no link starts as NULL. `vectors`: "table", or "parts" for WordNet (`vector_width`
    beside a learned part of speech of `part_width`). `projection` initialises the projection back
    to the host: "pseudo-inverse", "original" (see `start_as_inverse`) or "random".
    """

    name: str = "kg"
    layer: int | None = None
    loss: str = "margin"
    margin: float = 0.2
    threshold: float = 0.0
    null: str = "hard"
    first_score: float = 0.0
    width: int = 100
    n_heads: int = 4
    n_layers: int = 1
    feed_forward: int = 400
    scorer_width: int = 100
    vectors: str = "table"
    vector_width: int = 100
    part_width: int = 25
    n_parts: int = N_PARTS
    learned_null: bool = False
    projection: str = "pseudo-inverse"
    n_entities: int = 0
    id_space_hash: str = ""
    content_hash: str = ""

    def __post_init__(self) -> None:
        choices = {
            "loss": ("margin", "softmax"),
            "null": ("hard", "soft"),
            "vectors": ("table", "parts"),
            "projection": ("pseudo-inverse", "original", "random"),
        }
        faults = [
            f"{field} {getattr(self, field)!r}: one of {', '.join(values)}"
            for field, values in choices.items()
            if getattr(self, field) not in values
        ]
        if self.width % self.n_heads:
            faults.append(f"width {self.width}: a multiple of n_heads {self.n_heads}")
        if not self.name.isidentifier():
            faults.append(f"name {self.name!r}: letters, digits and underscores")
        if faults:
            raise ConfigError(f"KAR {self.name!r}: " + "; ".join(faults))

    @property
    def n_rows(self) -> int:
        """Rows of the entity table."""
        return self.n_entities + N_SPECIAL_ROWS

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> KAR:
        """From the fields of a configuration; raises `ConfigError` naming an unknown one."""
        return read_options(cls, values, "a KAR")


def linker_of(spec: KAR, hidden: int) -> EntityLinker:
    """A new linker of these sizes beside a host of width `hidden`."""
    table: EntityTable | PartEntityTable
    if spec.vectors == "table":
        table = EntityTable(n_rows=spec.n_rows, width=spec.width)
    else:
        table = PartEntityTable(
            n_rows=spec.n_rows,
            vector_width=spec.vector_width,
            n_parts=spec.n_parts,
            part_width=spec.part_width,
            width=spec.width,
            learned_null=spec.learned_null,
        )
    return EntityLinker(
        hidden=hidden,
        width=spec.width,
        entities=table,
        n_layers=spec.n_layers,
        n_heads=spec.n_heads,
        feed_forward=spec.feed_forward,
        scorer_width=spec.scorer_width,
        threshold=spec.threshold if spec.loss == "margin" else None,
        soft=spec.null == "soft",
    )


def check_candidates(batch: KnowledgeBatch, specs: Sequence[KAR]) -> None:
    """Raise `BatchError` for mentions without candidates, of a graph without a KAR or beyond its
    table; not while compiling, since it reads values."""
    if batch.mention_spans is None or torch.compiler.is_compiling():
        return
    ids, graphs = batch.candidate_ids, batch.mention_graphs
    if ids is None or batch.candidate_priors is None:
        raise BatchError("KnowBERT reads candidate_ids and candidate_priors; build with its view")
    ids, graphs = on_host(ids), None if graphs is None else on_host(graphs)
    if graphs is not None and graphs.numel() and int(graphs.max()) >= len(specs):
        raise BatchError(f"a mention is of graph {int(graphs.max())}, there are {len(specs)} KARs")
    for index, spec in enumerate(specs):
        rows = ids if graphs is None else ids[graphs == index]
        if rows.numel() and int(rows.max()) >= spec.n_rows:
            raise BatchError(
                f"candidate row {int(rows.max())} is beyond the {spec.n_rows} rows of KAR "
                f"{spec.name!r}; the batch was made with another graph"
            )
