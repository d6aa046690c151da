"""What the rows of the study are made from: detectors, the encoder, re-rankers.

Stages are kept in the run folder, beside the world of `experiments.entity_linking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from entity_linking.calibration.other_kinds import Kind, KindAnswers, answers_on_other_kinds
from entity_linking.dense.index import DenseIndex
from entity_linking.detection import Detector, NamesAndTagger
from entity_linking.mentions import LinkedText
from entity_linking.names import NameCandidates, NameIndex, NameLinker
from entity_linking.parts import CandidateSource, Scorer, SentenceEncoder
from entity_linking.scorers.coherence import CoherenceScorer
from entity_linking.scorers.features import PriorScorer
from entity_linking.scorers.rerank_parts import RerankSettings
from entity_linking.scorers.reranker import Reranker, with_gold
from experiments.entity_linking.end_to_end.detectors import SureMentions
from experiments.entity_linking.end_to_end.memo import OnceDetector, OnceScorer, OnceSource
from experiments.entity_linking.end_to_end.tagging import (
    TaggerTexts,
    read_texts,
)
from experiments.entity_linking.inputs.texts import uniform_value
from experiments.entity_linking.inputs.world import divided, make_documents
from experiments.entity_linking.linkers import plain_scorers, with_candidates
from experiments.entity_linking.stages import HELD_OUT, LinkingStages
from kept.inputs.controls.conditions import without_pairs
from kept.linking.bare import names_only
from kept.linking.matching.cross import CrossScorer
from kept.linking.matching.cross_training import CrossSettings, train_cross
from kept.linking.matching.encoder import MatchingEncoder
from kept.linking.matching.training import MatchingSettings, train_matching
from kept.linking.tagging.tagger import Tagger
from kept.linking.tagging.training import TaggerSettings, train_tagger
from kept.training.config import RunConfig
from kg_loaders import KnowledgeGraph

PRIOR, TRAINED = "names + prior", "trained"
COHERENCE, CONTEXT, ENCODER = "coherence", "context", "encoder"
ENCODER_TOO = "encoder and coherence"
CROSS = "cross-encoder"
RERANKERS = (TRAINED, COHERENCE, CONTEXT, ENCODER, ENCODER_TOO, CROSS)
"""Re-rankers by what they read beside what all read."""
EVERYWHERE = {f"{name} everywhere": name for name in (ENCODER, CROSS)}
"""Re-rankers whose expensive scorers read every mention, and those that read unsure ones alone."""
EXPENSIVE = ("dense", "window", "cross")
"""Scorers that read the text by a host, so that they score few mentions."""


def asking(scorer: str) -> str:
    """What marks the files of re-rankers that have expensive scorers."""
    return "-asking" if scorer in (CONTEXT, ENCODER, ENCODER_TOO, CROSS, *EVERYWHERE) else ""


class EndToEndStudy(RunConfig):
    """What the study adds to `LinkingStudy`, whose file it names."""

    world: str
    host: str = "minilm"
    n_layers: PositiveInt
    epochs: PositiveInt
    held_out: dict[str, tuple[int, int]]
    steps: dict[str, PositiveInt] = Field(default_factory=dict)
    removed: tuple[float, ...] = (0.1, 0.3, 0.5)
    n_matching: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """Documents that train the encoder, by source, of the texts that surfaces are counted in."""
    cross_step: PositiveInt = 1
    """Every so manieth of them trains the cross-encoder too, which is slower."""
    stated: float = 0.0
    """Share of what training and tuning texts state that the graph beside them does not know."""
    networks: PositiveInt = 1
    """That a re-ranker asks together."""
    bare: float = 0.0
    """Share of the entities of which that graph knows nothing but names, and no text a count."""


class Parts:
    """Everything that rows are made from, made when first asked for."""

    def __init__(self, stages: LinkingStages, plan: EndToEndStudy) -> None:
        self.stages, self.plan = stages, plan
        self.folder = stages.world_folder / f"end-to-end-{plan.n_layers}-{plan.epochs}"
        self._scorers: dict[str, Scorer] = {}
        self._detectors: dict[str, Detector] = {}
        self._other_kinds: dict[str, dict[str, KindAnswers]] = {}

    @cached_property
    def texts(self) -> TaggerTexts:
        stages = self.stages
        whole = {
            n: [each.text for each in of_benchmark] for n, of_benchmark in stages.articles.items()
        }
        overlap = stages.study.texts.overlap_words
        return read_texts(
            stages.root, whole, overlap=overlap, apart=self.plan.held_out, steps=self.plan.steps
        )

    @cached_property
    def tagger(self) -> Tagger:
        def train() -> Tagger:
            parts = (self.texts.train.values(), self.texts.held_out.values())
            train, held_out = (list(chain.from_iterable(part)) for part in parts)
            settings = TaggerSettings(
                host=self.plan.host, n_layers=self.plan.n_layers, epochs=self.plan.epochs,
                seed=self.stages.study.seed,
            )  # fmt: skip
            name, announce = ", ".join(self.texts.train), self.stages.announce
            return train_tagger(train, held_out, settings, trained_on=name, announce=announce)

        return Tagger.open(self.stages.saved(self.folder / "tagger", "tagger", train))

    @cached_property
    def source(self) -> CandidateSource:
        return OnceSource(NameCandidates(self.stages.names, **self.names))

    @property
    def names(self) -> dict[str, Any]:
        """How many candidates names propose."""
        return self.stages.study.names

    @cached_property
    def graph_of_training(self) -> KnowledgeGraph:
        """The graph as it is beside text that it was not made from.

        Without a share of the triples that join two entities of one text: training texts were
        chosen, sentence by sentence, because a triple joins two of their entities (T-REx, FewRel),
        which is so of few pairs elsewhere; beside the whole graph a re-ranker learns that what no
        neighbour supports is NIL. And without all but the names of a share of the entities: what
        those texts mention has facts, descriptions and counts, and what nothing is known of there
        is nearly always a namesake.
        """
        stages = self.stages
        graph = stages.world.graph
        if self.plan.bare:
            graph = names_only(graph, np.array(list(map(self.is_bare, graph.entities))))
        texts = [text for part in ("train", HELD_OUT) for text in stages.gold(part)]
        return unstated(graph, texts, self.plan.stated, seed=stages.study.seed)

    def is_bare(self, entity: str) -> bool:
        """Whether training sees nothing but the names of an entity."""
        return uniform_value(self.stages.study.seed, f"bare {entity}") < self.plan.bare

    @cached_property
    def surfaces_of_training(self) -> list[tuple[str, str, int]]:
        """The counts of the entities that training knows."""
        return [row for row in self.stages.world.surfaces if not self.is_bare(row[1])]

    @cached_property
    def source_of_training(self) -> CandidateSource:
        stages = self.stages
        names = NameIndex.build(stages.world.graph, counts=self.surfaces_of_training)
        return OnceSource(NameCandidates(names, **stages.study.names))

    def scorers(self, name: str, *, training: bool) -> dict[str, Scorer]:
        """What a re-ranker reads; walks take minutes, vectors of cards ten."""
        stages, world = self.stages, self.stages.world
        graph = self.graph_of_training if training else world.graph
        read = plain_scorers(graph, self.surfaces_of_training if training else world.surfaces)
        pieces = stages.study.dense.context_pieces
        if name in (COHERENCE, ENCODER_TOO):
            read["coherence"] = CoherenceScorer(graph, **stages.study.coherence)
        if name == CONTEXT:
            encoder: SentenceEncoder = stages.encoder(pieces)
            read |= stages.context_scorers(self.index(None, training=training), encoder)
        if name in (ENCODER, ENCODER_TOO):
            encoder = self.matching.over(stages.encoder(pieces))
            index = self.index(self.matching, training=training)
            read |= stages.context_scorers(index, encoder)
        if name == CROSS:
            read["cross"] = self.cross(graph)
        return read

    def cross(self, graph: KnowledgeGraph) -> CrossScorer:
        """The cross-encoder, trained on the texts of the encoder, over a graph."""

        def train() -> CrossScorer:
            train, held_out = self.texts_of_encoders
            study = self.stages.study
            return train_cross(
                study.dense.host, self.graph_of_training, train[:: self.plan.cross_step], held_out,
                CrossSettings(seed=study.seed), cards=self.stages.cards,
                trained_on=", ".join(self.plan.n_matching), announce=self.stages.announce,
            )  # fmt: skip

        path = self.folder / f"cross-{self.plan.bare:g}-{self.plan.cross_step}"
        return CrossScorer.open(self.stages.saved(path, "cross-encoder", train), graph)

    @cached_property
    def texts_of_encoders(self) -> tuple[list[LinkedText], list[LinkedText]]:
        """Texts that neither the re-ranker nor a decision reads, with candidates and gold."""
        study = self.stages.study
        counted = divided(self.stages.root, study)[2]["counts"]
        texts = make_documents(counted, self.graph_of_training, study, self.plan.n_matching)
        annotated = with_gold(with_candidates(texts, self.source_of_training), texts)
        return [text for i, text in enumerate(annotated) if i % 10], annotated[::10]

    @cached_property
    def matching(self) -> MatchingEncoder:
        """The encoder trained on texts that neither the re-ranker nor a decision reads."""

        def train() -> MatchingEncoder:
            study, stages = self.stages.study, self.stages
            return train_matching(
                stages.encoder(study.dense.card_pieces), study.dense.host, self.graph_of_training,
                *self.texts_of_encoders,
                MatchingSettings(seed=study.seed, window=study.dense.window), cards=stages.cards,
                trained_on=", ".join(self.plan.n_matching), announce=stages.announce,
            )  # fmt: skip

        path = self.folder / f"matching-{self.plan.bare:g}"
        return MatchingEncoder.open(self.stages.saved(path, "encoder", train))

    def index(self, matching: MatchingEncoder | None, *, training: bool) -> DenseIndex:
        """The cards of every entity, by an encoder or as MiniLM has them."""
        stages = self.stages
        if matching is None and not training:
            return stages.dense
        how = ("context" if matching is None else "matching") + "-training" * training

        def build() -> DenseIndex:
            inner = stages.encoder(stages.study.dense.card_pieces)
            encoder = inner if matching is None else matching.over(inner)
            graph = self.graph_of_training if training else stages.world.graph
            return DenseIndex.build(graph, encoder, cards=stages.cards, kind="flat")

        path = self.folder / f"cards-{how}-{self.plan.bare:g}"
        return DenseIndex.open(stages.saved(path, f"cards, {how}", build))

    def reranker(self, name: str, *, training: bool, seed: int = 0) -> Reranker:
        """The re-ranker called `name`, of `RERANKERS`, over either graph; trained over its own."""

        def fit() -> Reranker:
            scorers, teaching = self.scorers(name, training=True), self.teaching
            model = Reranker.fit(
                scorers, teaching.train, teaching.held_out,
                settings=replace(self.rerank_settings, seed=seed),
                graph_hash=self.stages.world.graph.content_hash,
                expensive=[each for each in scorers if each in EXPENSIVE],
            )  # fmt: skip
            if model.asking is not None:
                self.stages.announce(f"re-ranker, {name}: {model.asking}")
            return model

        path = self.path_of(name, seed)
        path = self.stages.saved(path, f"re-ranker, {path.name}", fit)
        return Reranker.open(path, self.scorers(name, training=training))

    @cached_property
    def teaching(self) -> Kind:
        """What re-rankers learn from and what they stop by, with candidates."""
        train, held_out = (
            self.stages.answered(
                part, with_candidates(self.stages.gold(part), self.source_of_training)
            )
            for part in ("train", HELD_OUT)
        )
        return Kind(train, held_out[::2])

    @property
    def rerank_settings(self) -> RerankSettings:
        """How re-rankers are trained."""
        study = self.stages.study
        hidden = max(study.hidden_tried)
        return RerankSettings(**study.reranker, hidden=hidden, networks=self.plan.networks)

    def path_of(self, name: str, seed: int = 0) -> Path:
        """The folder of a re-ranker."""
        plan = self.plan
        settings = f"{plan.stated:g}-{plan.bare:g}-{plan.networks}" + f"-seed-{seed}" * bool(seed)
        return self.folder / f"reranker-{name.replace(' ', '-')}-{settings}{asking(name)}"

    def other_kinds(self, name: str) -> dict[str, KindAnswers]:
        """What re-rankers answer about one kind of text when trained on the other kind alone.

        Sentences that were chosen for a fact, and ERNIE's sample of articles in lower case, whose
        links are Wikipedia's own; Open Entity's hundred are in neither.
        """
        if name not in self._other_kinds:
            kinds = {
                kind: Kind(*([t for t in part if kind_of(t.id) == kind] for part in self.teaching))
                for kind in ("facts", "articles")
            }
            read = self.scorers(name, training=True)
            self._other_kinds[name] = answers_on_other_kinds(read, kinds, self.rerank_settings)
        return self._other_kinds[name]

    def scorer(self, name: str, *, tuning: bool = False) -> Scorer:
        """What a row chooses by; on tuning text over the graph of training."""
        key = f"{name}, tuning" if tuning and name != PRIOR else name
        if key not in self._scorers:
            self._scorers[key] = OnceScorer(self._scorer(name, tuning))
        return self._scorers[key]

    def use(self, name: str, scorer: Scorer) -> None:
        """Let rows choose by a scorer under a name of its own."""
        self._scorers[name] = scorer

    def _scorer(self, name: str, tuning: bool) -> Scorer:
        if name == PRIOR:
            return PriorScorer()
        if name in EVERYWHERE:
            return self.reranker(EVERYWHERE[name], training=tuning).everywhere()
        return self.reranker(name, training=tuning)

    def detector(self, name: str) -> Detector:
        """What finds a row's mentions."""
        if name not in self._detectors:
            gates = NameLinker(self.stages.names, self.stages.gates, **self.names)
            inner: Detector = SureMentions(gates)
            if name != "gates":
                inner = (SureMentions if name == "kinds" else NamesAndTagger)(gates, self.tagger)
            self._detectors[name] = OnceDetector(inner)
        return self._detectors[name]


def kind_of(document: str) -> str:
    """The kind of text that a training document is."""
    for start, kind in (("ernie-", "articles"), ("open-entity-", "another linker's")):
        if document.startswith(start):
            return kind
    return "facts"


def unstated(
    graph: KnowledgeGraph, texts: Sequence[LinkedText], share: float, *, seed: int
) -> KnowledgeGraph:
    """The graph without triples between a share of the pairs of entities that one text mentions."""
    pairs = sorted(
        {
            pair
            for text in texts
            for pair in combinations(sorted({k.entity for k in text.links if k.entity}), 2)
            if uniform_value(seed, f"stated {pair}") < share
        }
    )
    ids = graph.entities.ids([entity for pair in pairs for entity in pair]).reshape(-1, 2)
    return without_pairs(graph, ids[(ids >= 0).all(axis=1)].astype(np.int32))


def world_file(plan: EndToEndStudy, config: Path) -> Path:
    """Where the settings of the world stand, beside the plan's own file."""
    return config.parent / plan.world
