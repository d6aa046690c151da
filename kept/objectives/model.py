"""`KnowledgeForPreTraining`: any encoder under any mix of objectives. The table is at the top."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor, nn

from kept.batches import KnowledgeBatch
from kept.encoders import encoder_of, read_config
from kept.encoders.base import KnowledgeConfig, KnowledgeEncoder, KnowledgeModel
from kept.errors import CheckpointError, ConfigError
from kept.layers.rows import RowTable
from kept.objectives.base import Objective, Preparation
from kept.objectives.dependency_heads import (
    DependencyHeads,
    DependencyHeadsOptions,
    DependencyHeadsPreparation,
)
from kept.objectives.entity_denoising import (
    EntityDenoising,
    EntityDenoisingOptions,
    EntityDenoisingPreparation,
)
from kept.objectives.entity_linking import (
    EntityLinking,
    EntityLinkingOptions,
    EntityLinkingPreparation,
)
from kept.objectives.knowledge_embedding import (
    FirstKnowledgeEmbedding,
    FirstPreparation,
    KnowledgeEmbeddingOptions,
    SecondKnowledgeEmbedding,
    SecondPreparation,
)
from kept.objectives.lexical.relations import (
    LexicalOptions,
    LexicalPreparation,
    LexicalRelations,
)
from kept.objectives.lexical.senses import Senses, SensesOptions, SensesPreparation
from kept.objectives.lexical.sentiment import (
    Sentiment,
    SentimentOptions,
    SentimentPreparation,
)
from kept.objectives.masked_entities import (
    MaskedEntities,
    MaskedEntitiesOptions,
    MaskedEntitiesPreparation,
)
from kept.objectives.masked_nodes import (
    MaskedNodes,
    MaskedNodesOptions,
    MaskedNodesPreparation,
)
from kept.objectives.masked_words import (
    MaskedWords,
    MaskedWordsOptions,
    MaskedWordsPreparation,
)
from kept.objectives.mentions.stated import (
    StatedWords,
    StatedWordsOptions,
    StatedWordsPreparation,
)
from kept.objectives.mentions.truth import (
    MentionTruth,
    MentionTruthOptions,
    MentionTruthPreparation,
)
from kept.objectives.relation_pairs import (
    RelationPairs,
    RelationPairsOptions,
    RelationPairsPreparation,
)
from kept.objectives.replaced_words import (
    ReplacedWords,
    ReplacedWordsOptions,
    ReplacedWordsPreparation,
)
from kept.objectives.text_pairs import (
    NextSentence,
    NextSentencePreparation,
    SentenceOrder,
    SentenceOrderPreparation,
    TextPairOptions,
)
from kept.options import read_options
from kept.outputs import KnowledgeOutput
from kept.suggestions import no_such
from kg_loaders import KnowledgeGraph


@dataclass(frozen=True)
class ObjectiveKind:
    """The three parts of an objective, and what it predicts, in words for pages."""

    options: type[Any]
    module: type[Objective]
    preparation: type[Preparation]
    asks: str

    def read(self, name: str, values: Mapping[str, Any]) -> Any:
        """The options dataclass; raises `ConfigError` naming an unknown field."""
        return read_options(self.options, values, f"objective {name}")


OBJECTIVES: dict[str, ObjectiveKind] = {
    "mlm": ObjectiveKind(MaskedWordsOptions, MaskedWords, MaskedWordsPreparation, "masked words"),
    "replaced_words": ObjectiveKind(
        ReplacedWordsOptions,
        ReplacedWords,
        ReplacedWordsPreparation,
        "masked words, and then which words are not the text's own",
    ),
    "stated_words": ObjectiveKind(
        StatedWordsOptions,
        StatedWords,
        StatedWordsPreparation,
        "a masked mention that a fact of another, nameless one states",
    ),
    "nsp": ObjectiveKind(
        TextPairOptions,
        NextSentence,
        NextSentencePreparation,
        "whether the second text follows the first",
    ),
    "sop": ObjectiveKind(
        TextPairOptions, SentenceOrder, SentenceOrderPreparation, "which of two texts comes first"
    ),
    "masked_nodes": ObjectiveKind(
        MaskedNodesOptions,
        MaskedNodes,
        MaskedNodesPreparation,
        "masked words, entities and relations",
    ),
    "masked_entities": ObjectiveKind(
        MaskedEntitiesOptions,
        MaskedEntities,
        MaskedEntitiesPreparation,
        "masked entities behind the words",
    ),
    "dea": ObjectiveKind(
        EntityDenoisingOptions, EntityDenoising, EntityDenoisingPreparation, "which entity was here"
    ),
    "el": ObjectiveKind(
        EntityLinkingOptions, EntityLinking, EntityLinkingPreparation, "which candidate is meant"
    ),
    "ke": ObjectiveKind(
        KnowledgeEmbeddingOptions,
        FirstKnowledgeEmbedding,
        FirstPreparation,
        "true triples ranked above corrupted ones, by descriptions",
    ),
    "ke2": ObjectiveKind(
        KnowledgeEmbeddingOptions,
        SecondKnowledgeEmbedding,
        SecondPreparation,
        "the same of a second graph",
    ),
    "relation_pairs": ObjectiveKind(
        RelationPairsOptions,
        RelationPairs,
        RelationPairsPreparation,
        "which relation joins two mentions",
    ),
    "lexical": ObjectiveKind(
        LexicalOptions, LexicalRelations, LexicalPreparation, "which terms a lexicon joins"
    ),
    "senses": ObjectiveKind(
        SensesOptions,
        Senses,
        SensesPreparation,
        "allowed senses of masked words, which it chooses itself",
    ),
    "sentiment": ObjectiveKind(
        SentimentOptions,
        Sentiment,
        SentimentPreparation,
        "labels of masked words, which it chooses itself, and a text's rating",
    ),
    "mention_truth": ObjectiveKind(
        MentionTruthOptions, MentionTruth, MentionTruthPreparation, "which mentions are true"
    ),
    "dependency_heads": ObjectiveKind(
        DependencyHeadsOptions, DependencyHeads, DependencyHeadsPreparation, "the head of each word"
    ),
}


def objective_kind(name: str) -> ObjectiveKind:
    """The objective called `name`; raises `ConfigError` listing all names."""
    if name not in OBJECTIVES:
        raise no_such("objective", name, sorted(OBJECTIVES))
    return OBJECTIVES[name]


class KnowledgeForPreTraining(KnowledgeModel):
    """An encoder and its objectives, as `config.objectives` names them.

    `forward` returns the encoder's output with the losses of every objective whose labels the batch
    has; weights between losses belong to training.
    """

    def __init__(self, config: KnowledgeConfig, *, encoder: KnowledgeEncoder | None = None) -> None:
        super().__init__(config)
        self.encoder = encoder = encoder_of(self.config, encoder)
        self.objectives = nn.ModuleDict()
        for name, values in config.objectives.items():
            kind = objective_kind(name)
            self.objectives[name] = kind.module.for_encoder(encoder, kind.read(name, values))
        joint = {
            name: part for name, part in self.objectives.items() if isinstance(part, Objective)
        }
        for part in joint.values():
            part.join(joint)
        self.post_init()
        self.freeze()

    @classmethod
    def of(
        cls, encoder: KnowledgeEncoder, objectives: Mapping[str, Mapping[str, Any]]
    ) -> KnowledgeForPreTraining:
        """`encoder` with new heads for `objectives` (name to options that differ from defaults)."""
        encoder.config.objectives = {
            name: dataclasses.asdict(objective_kind(name).read(name, values))
            for name, values in objectives.items()
        }
        model = cls(encoder.config, encoder=encoder)
        model.to(encoder.host.dtype)
        return model

    @classmethod
    def from_pretrained(cls, name_or_path: Any, *args: Any, **options: Any) -> Self:
        """As `KnowledgeModel.from_pretrained`; the encoder's class is read from the folder."""
        config = options.setdefault("config", read_config(name_or_path))
        if not config.objectives:
            raise CheckpointError(f"{name_or_path} holds an encoder without objectives")
        return super().from_pretrained(name_or_path, *args, **options)

    def row_tables(self) -> tuple[RowTable, ...]:
        """Those of the encoder and of the objectives."""
        of_encoder = [table.inside("encoder") for table in self.encoder.row_tables()]
        parts = ((n, p) for n, p in self.objectives.items() if isinstance(p, Objective))
        heads = [t.inside(f"objectives.{name}") for name, part in parts for t in part.row_tables()]
        return (*of_encoder, *heads)

    def follow(self, graph: KnowledgeGraph) -> None:
        """As the encoder, whose configuration is this one's."""
        for name, part in self.objectives.items():
            assert isinstance(part, Objective)
            values = self.config.objectives[name]
            if part.row_tables() and values.get("n_relations") is not None:
                values["n_relations"] = graph.n_relations
        self.encoder.follow(graph)

    def freeze(self) -> None:
        self.encoder.freeze()

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """The encoder's output with `losses`."""
        output: KnowledgeOutput = self.encoder(batch)
        losses: dict[str, Tensor] = dict(output.losses)
        for name, objective in self.objectives.items():
            named = objective(output, batch, self.encoder)
            repeated = sorted(losses.keys() & named.keys())
            if repeated:
                raise ConfigError(f"objective {name} repeats the losses {repeated}")
            losses |= named
        return dataclasses.replace(output, losses=losses)
