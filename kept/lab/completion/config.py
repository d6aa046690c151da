"""The configuration of a word-knowledge completion: one YAML file, and the titles of its rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from entity_linking.annotations.relations import RelationExample
from kept.evaluation.published import Published
from kept.graphs.builder import BuilderConfig
from kept.kgc.rankers import CoLAKERun
from kept.kgc.split import CompletionSplit, split_examples
from kept.kge import FORMULAS
from kept.lab.study.design import Design
from kept.methods import BASELINE, title
from kept.randomness import generator
from kept.training.config import TrainConfig
from kg_loaders import KnowledgeGraph

COLAKE, HIDDEN, DKRL = "colake", "colake-hidden", "dkrl"
"""Rows; of the hidden ones what CoLAKE, trained with true facts, is shown differs at test only."""
TITLES = {
    BASELINE: "most frequent relation", DKRL: "DKRL",
    HIDDEN: f"{title(COLAKE)} trained with true facts",
}  # fmt: skip


class CompletionConfig(Design):
    """A comparison as `kept.lab.study` reads it (`Plan`), evaluated by MRR on the setting `asked`.

    `recipes`: by triple scorer or "dkrl", fields that differ. `seeds` are those from `seed` on, of
    every row.
    """

    name: str = "completion"
    host: str = "minilm"
    seed: NonNegativeInt = 0
    seeds: PositiveInt = 1
    n_valid: NonNegativeInt = 0
    n_transductive: PositiveInt
    n_inductive: PositiveInt
    max_sentences_per_fact: PositiveInt | None = None
    builder: dict[str, Any] = Field(default_factory=dict)
    masking: dict[str, Any] = Field(default_factory=dict)
    n_negatives: PositiveInt = 8
    training: TrainConfig
    scorers: tuple[str, ...] = ("transe", "distmult", "complex", "rotate")
    recipes: dict[str, dict[str, Any]] = Field(default_factory=dict)
    asked: Literal["transductive", "inductive"] = "transductive"
    published: tuple[Published, ...] = ()
    differs: str = ""
    notes: tuple[str, ...] = ()
    metric: ClassVar[str] = "mrr"
    primary: ClassVar[None] = None

    @property
    def colake(self) -> CoLAKERun:
        """The part that all CoLAKE runs share, of the first seed."""
        return CoLAKERun(
            host=self.host,
            builder=BuilderConfig(**self.builder),
            masking=self.masking,
            training=self.training,
            n_negatives=self.n_negatives,
        )

    def colake_of(self, seed: int) -> CoLAKERun:
        """The same with the training's seed moved by `seed`."""
        update = {"seed": self.training.seed + seed}
        return dataclasses.replace(self.colake, training=self.training.model_copy(update=update))

    def split(
        self,
        examples: Iterable[RelationExample],
        graph: KnowledgeGraph,
        inductive_heads: Sequence[str],
    ) -> CompletionSplit:
        """The split of `examples`; of `inductive_heads` some are held out."""
        return split_examples(
            list(examples),
            graph,
            n_valid=self.n_valid,
            n_transductive=self.n_transductive,
            n_inductive=self.n_inductive,
            inductive_heads=inductive_heads,
            generator=generator(self.seed, "split"),
            max_sentences_per_fact=self.max_sentences_per_fact,
        )

    def title(self, name: str) -> str:
        """What tables call row `name`."""
        return TITLES.get(name) or (FORMULAS[name].__name__ if name in FORMULAS else title(name))
