"""The rows of the experiment and what each is trained with, from the same weights.

The host has no head over words, so pre-training adds one (and trains the host with it) on the text:
row `host`. Every other row begins with those weights and reads the same batches for as many
further steps: `none` with masked words alone, each method with its own objectives, on a graph
without the probed facts and on one with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import NonNegativeInt, PositiveInt

from experiments.lama.data import KNOWLEDGE, Knowledge
from experiments.pretraining.trial import MethodPlan
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig
from kept.lab.study.origins import fingerprint_of
from kept.methods import Method, method
from kept.objectives.masked_nodes import MaskedNodes
from kept.objectives.masked_words import MaskedWords
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.config import RunConfig, TrainConfig

HOST, TEXT_ONLY = "host", "none"
MLM: Mapping[str, Mapping[str, Any]] = {"mlm": {}}


class LamaStudy(RunConfig):
    """The whole experiment: sizes of the probe, the stage that all rows share, and their own.

    `facts_per_relation` are probed, in every row the same; `paraphrased` and `altered` of them in a
    relation are also asked in other words, negated and misprimed. `head` is the pre-training of the
    host, with a seed of its own, so that the rows, trained by `training`, read other batches than
    it did.
    """

    host: str = "minilm"
    seed: NonNegativeInt = 0
    facts_per_relation: PositiveInt
    paraphrased: PositiveInt
    altered: PositiveInt
    n_texts: PositiveInt
    builder: BuilderConfig
    head: TrainConfig
    training: TrainConfig
    methods: dict[str, MethodPlan]

    @property
    def rows(self) -> list[Row]:
        """Every row, in order."""
        names = [name for name in self.methods if name != TEXT_ONLY]
        with_graph = [Row(name, knowledge) for name in names for knowledge in KNOWLEDGE]
        return [Row(HOST), Row(TEXT_ONLY), *with_graph]

    def row(self, name: str) -> Row:
        """The row called `name`; raises `ConfigError` listing all."""
        rows = {row.name: row for row in self.rows}
        if name not in rows:
            raise ConfigError(f"there is no row {name!r}; there are {', '.join(rows)}")
        return rows[name]

    def training_of(self, row: Row) -> TrainConfig:
        """How a row is trained."""
        if row.method == HOST:
            return self.head
        changes = self.plan(row).training | {"seed": self.seed}
        return TrainConfig.model_validate(self.training.model_dump() | changes)

    def settings_of(self, row: Row) -> str:
        """Fingerprint of what a trained row depends on, the host's pre-training included."""
        shared = {"host", "seed", "facts_per_relation", "n_texts", "builder", "head"}
        first = self.model_dump(mode="json", include=shared)
        if row.method == HOST:
            return fingerprint_of(first)
        plans = (
            self.training_of(row).model_dump(mode="json"),
            self.plan(row).model_dump(mode="json"),
        )
        return fingerprint_of(first, row.name, *plans)

    def probe_settings_of(self, row: Row) -> str:
        """Fingerprint of what the answers of a row depend on."""
        return fingerprint_of(self.settings_of(row), self.paraphrased, self.altered)

    def plan(self, row: Row) -> MethodPlan:
        """Return what differs for a row's method."""
        return self.methods.get(row.method, MethodPlan())

    def objectives(self, row: Row) -> Mapping[str, Mapping[str, Any]]:
        """Return the method's, and masked words where none of them has a head over words."""
        objectives = self.plan(row).objectives or row.kind.objectives
        return objectives if objectives.keys() & {"mlm", "masked_nodes"} else {**objectives, **MLM}


@dataclass(frozen=True, slots=True)
class Row:
    """A method and the graph it is trained with; the host and text alone have none."""

    method: str
    knowledge: Knowledge | None = None

    @property
    def name(self) -> str:
        """Its folder's name."""
        return self.method if self.knowledge is None else f"{self.method}-{self.knowledge}"

    @property
    def kind(self) -> Method:
        """Its line in the table of methods."""
        return method(TEXT_ONLY if self.method == HOST else self.method)

    @property
    def reads_graph(self) -> bool:
        """Whether its method reads a graph when it answers."""
        return self.kind.view.reads_graph

    def graph_setting(self) -> Knowledge:
        """Which graph it is built with; the rows without knowledge make no use of it."""
        return self.knowledge or "held_out"


def copy_head(source: KnowledgeForPreTraining, target: KnowledgeForPreTraining) -> None:
    """Give `target`'s head over words the weights of `source`'s; raises `ConfigError` without."""
    head = source.objectives["mlm"]
    assert isinstance(head, MaskedWords)
    copied = False
    with torch.no_grad():
        for objective in target.objectives.values():
            if isinstance(objective, MaskedWords):
                objective.load_state_dict(head.state_dict())
                copied = True
            elif isinstance(objective, MaskedNodes):
                objective.word_transform.load_state_dict(head.transform.state_dict())
                objective.word_bias.copy_(head.bias)
                copied = True
    if not copied:
        raise ConfigError(f"{list(target.objectives)} have no head over words; add mlm")
