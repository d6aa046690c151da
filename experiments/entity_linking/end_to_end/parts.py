"""What the rows of the study are made from: detectors, the encoder, re-rankers.

Stages are kept in the run folder, beside the world of `experiments.entity_linking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from entity_linking.calibration.answers import Answer
from entity_linking.calibration.other_kinds import Kind, answers_on_other_kinds
from entity_linking.dense.index import DenseIndex
from entity_linking.detection import Detector, NamesAndTagger
from entity_linking.mentions import LinkedText
from entity_linking.names import NameCandidates, NameIndex, NameLinker
from entity_linking.parts import CandidateSource, Scorer, SentenceEncoder
from entity_linking.scorers.coherence import CoherenceScorer
from entity_linking.scorers.features import PopularityScorer, PriorScorer, TypeScorer
from entity_linking.scorers.mix import default_scorers
from entity_linking.scorers.rerank_parts import RerankSettings
from entity_linking.scorers.reranker import Reranker, with_gold
from experiments.entity_linking.end_to_end.detectors import ConstantConfidence, SureWithKinds
from experiments.entity_linking.end_to_end.memo import OnceDetector, OnceScorer, OnceSource
from experiments.entity_linking.end_to_end.tagging import (
    TaggerTexts,
    read_texts,
)
from experiments.entity_linking.inputs.texts import drawn
from experiments.entity_linking.inputs.world import divided, make_documents
from experiments.entity_linking.linkers import AgeScorer, as_candidates, links_by_entity
from experiments.entity_linking.study import HELD_OUT, KINDS, Laboratory
from kept.inputs.controls.conditions import without_pairs
from kept.linking.bare import names_only
from kept.linking.matching.cross import CrossScorer
from kept.linking.matching.cross_training import CrossSettings, train_cross
from kept.linking.matching.encoder import MatchingEncoder
from kept.linking.matching.training import MatchingSettings, train_matching
from kept.linking.tagging.tagger import Tagger
from kept.linking.tagging.training import TaggerSettings, train_tagger
from kg_loaders import KnowledgeGraph

PRIOR, TRAINED = "names + prior", "trained"
COHERENCE, CONTEXT, ENCODER = "coherence", "context", "encoder"
ENCODER_TOO = "encoder and coherence"
CROSS = "cross-encoder"
RERANKERS = (TRAINED, COHERENCE, CONTEXT, ENCODER, ENCODER_TOO, CROSS)
"""Re-rankers by what they read beside what all read."""
EVERYWHERE = {f"{name} everywhere": name for name in (ENCODER, CROSS)}
"""Re-rankers that ask their dear scorers about every mention, and those that ask where unsure."""
DEAR = ("dense", "window", "cross")
"""Scorers that read the text by a host, so that few mentions are asked."""


def asking(scorer: str) -> str:
    """What marks the files of re-rankers that have dear scorers."""
    return "-asking" if scorer in (CONTEXT, ENCODER, ENCODER_TOO, CROSS, *EVERYWHERE) else ""


class Plan(BaseModel):
    """What the study adds to `experiments.entity_linking.config.Study`, whose file it names."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    world: str
    host: str = "minilm"
    n_layers: PositiveInt
    epochs: PositiveInt
    held_out: dict[str, tuple[int, int]]
    steps: dict[str, PositiveInt] = {}
    removed: tuple[float, ...] = (0.1, 0.3, 0.5)
    n_matching: dict[str, NonNegativeInt] = {}
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

    def __init__(self, laboratory: Laboratory, plan: Plan) -> None:
        self.laboratory, self.plan = laboratory, plan
        self.folder = laboratory.world_folder / f"end-to-end-{plan.n_layers}-{plan.epochs}"
        self._scorers: dict[str, Scorer] = {}
        self._detectors: dict[str, Detector] = {}
        self._other_kinds: dict[str, list[Answer]] = {}

    @cached_property
    def texts(self) -> TaggerTexts:
        laboratory = self.laboratory
        whole = {n: [each.text for each in own] for n, own in laboratory.articles.items()}
        overlap = laboratory.study.texts.overlap_words
        return read_texts(
            laboratory.root, whole, overlap=overlap, apart=self.plan.held_out, steps=self.plan.steps
        )

    @cached_property
    def tagger(self) -> Tagger:
        place = self.folder / "tagger"
        if not place.exists():
            train = [text for texts in self.texts.train.values() for text in texts]
            held_out = [text for texts in self.texts.held_out.values() for text in texts]
            settings = TaggerSettings(
                host=self.plan.host,
                n_layers=self.plan.n_layers,
                epochs=self.plan.epochs,
                seed=self.laboratory.study.seed,
            )
            announce = self.laboratory.announce
            name = ", ".join(self.texts.train)
            train_tagger(train, held_out, settings, trained_on=name, announce=announce).save(place)
        return Tagger.open(place)

    @cached_property
    def source(self) -> CandidateSource:
        return OnceSource(NameCandidates(self.laboratory.names, **self.names))

    @property
    def names(self) -> dict[str, int]:
        """How many candidates names propose."""
        return self.laboratory.study.names

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
        laboratory = self.laboratory
        graph = laboratory.world.graph
        if self.plan.bare:
            graph = names_only(graph, np.array(list(map(self.is_bare, graph.entities))))
        texts = [text for part in ("train", HELD_OUT) for text in laboratory.gold(part)]
        return unstated(graph, texts, self.plan.stated, seed=laboratory.study.seed)

    def is_bare(self, entity: str) -> bool:
        """Whether training sees nothing but the names of an entity."""
        return drawn(self.laboratory.study.seed, f"bare {entity}") < self.plan.bare

    @cached_property
    def surfaces_of_training(self) -> list[tuple[str, str, int]]:
        """The counts of the entities that training knows."""
        return [row for row in self.laboratory.world.surfaces if not self.is_bare(row[1])]

    @cached_property
    def source_of_training(self) -> CandidateSource:
        laboratory = self.laboratory
        names = NameIndex.build(laboratory.world.graph, counts=self.surfaces_of_training)
        return OnceSource(NameCandidates(names, **laboratory.study.names))

    def scorers(self, name: str, *, training: bool) -> dict[str, Scorer]:
        """What a re-ranker reads; walks take minutes, vectors of cards ten."""
        laboratory, world = self.laboratory, self.laboratory.world
        graph = self.graph_of_training if training else world.graph
        read = plain_scorers(graph, self.surfaces_of_training if training else world.surfaces)
        pieces = laboratory.study.dense.context_pieces
        if name in (COHERENCE, ENCODER_TOO):
            read["coherence"] = CoherenceScorer(graph, **laboratory.study.coherence)
        if name == CONTEXT:
            encoder: SentenceEncoder = laboratory.encoder(pieces)
            read |= laboratory.context_scorers(self.index(None, training=training), encoder)
        if name in (ENCODER, ENCODER_TOO):
            encoder = self.matching.over(laboratory.encoder(pieces))
            index = self.index(self.matching, training=training)
            read |= laboratory.context_scorers(index, encoder)
        if name == CROSS:
            read["cross"] = self.cross(graph)
        return read

    def cross(self, graph: KnowledgeGraph) -> CrossScorer:
        """The cross-encoder, trained on the texts of the encoder, over a graph."""
        place = self.folder / f"cross-{self.plan.bare:g}-{self.plan.cross_step}"
        if not place.exists():
            self.laboratory.announce("cross-encoder")
            train, held_out = self.texts_of_encoders
            train_cross(
                self.laboratory.study.dense.host,
                self.graph_of_training,
                train[:: self.plan.cross_step],
                held_out,
                CrossSettings(seed=self.laboratory.study.seed),
                cards=self.laboratory.cards,
                trained_on=", ".join(self.plan.n_matching),
                announce=self.laboratory.announce,
            ).save(place)
        return CrossScorer.open(place, graph)

    @cached_property
    def texts_of_encoders(self) -> tuple[list[LinkedText], list[LinkedText]]:
        """Texts that neither the re-ranker nor a decision reads, with candidates and gold."""
        study = self.laboratory.study
        counted = divided(self.laboratory.root, study)[2]["counts"]
        texts = make_documents(counted, self.graph_of_training, study, self.plan.n_matching)
        proposed = as_candidates(texts, self.source_of_training.candidates(texts))
        teach = with_gold(proposed, texts)
        return [text for i, text in enumerate(teach) if i % 10], teach[::10]

    @cached_property
    def matching(self) -> MatchingEncoder:
        """The encoder trained on texts that neither the re-ranker nor a decision reads."""
        place, laboratory = self.folder / f"matching-{self.plan.bare:g}", self.laboratory
        if not place.exists():
            laboratory.announce("encoder")
            study = laboratory.study
            train, held_out = self.texts_of_encoders
            train_matching(
                laboratory.encoder(study.dense.card_pieces),
                study.dense.host,
                self.graph_of_training,
                train,
                held_out,
                MatchingSettings(seed=study.seed, window=study.dense.window),
                cards=laboratory.cards,
                trained_on=", ".join(self.plan.n_matching),
                announce=laboratory.announce,
            ).save(place)
        return MatchingEncoder.open(place)

    def index(self, matching: MatchingEncoder | None, *, training: bool) -> DenseIndex:
        """The cards of every entity, by an encoder or as MiniLM has them."""
        laboratory = self.laboratory
        if matching is None and not training:
            return laboratory.dense
        how = "context" if matching is None else "matching"
        place = self.folder / f"cards-{how}{'-training' * training}-{self.plan.bare:g}"
        if not place.exists():
            laboratory.announce(f"cards, {how}{', training' * training}")
            inner = laboratory.encoder(laboratory.study.dense.card_pieces)
            encoder = inner if matching is None else matching.over(inner)
            graph = self.graph_of_training if training else laboratory.world.graph
            DenseIndex.build(graph, encoder, cards=laboratory.cards, kind="flat").save(place)
        return DenseIndex.open(place)

    def reranker(self, name: str, *, training: bool, seed: int = 0) -> Reranker:
        """The re-ranker called `name`, of `RERANKERS`, over either graph; trained over its own."""
        place = self.place_of(name, seed)
        if not place.exists():
            self.laboratory.announce(f"re-ranker, {place.name}")
            scorers, teaching = self.scorers(name, training=True), self.teaching
            model = Reranker.fit(
                scorers,
                teaching.train,
                teaching.held_out,
                settings=replace(self.rerank_settings, seed=seed),
                graph_hash=self.laboratory.world.graph.content_hash,
                expensive=[each for each in scorers if each in DEAR],
            )
            model.save(place)
            if model.asking is not None:
                self.laboratory.announce(f"re-ranker, {name}: {model.asking}")
        return Reranker.open(place, self.scorers(name, training=training))

    @cached_property
    def teaching(self) -> Kind:
        """What re-rankers learn from and what they stop by, with candidates."""
        parts = []
        for part in ("train", HELD_OUT):
            gold = self.laboratory.gold(part)
            proposed = as_candidates(gold, self.source_of_training.candidates(gold))
            parts.append(self.laboratory.answered(part, proposed))
        return Kind(parts[0], parts[1][::2])

    @property
    def rerank_settings(self) -> RerankSettings:
        """How re-rankers are trained."""
        study = self.laboratory.study
        hidden = max(study.hidden_tried)
        return RerankSettings(**study.reranker, hidden=hidden, networks=self.plan.networks)

    def place_of(self, name: str, seed: int = 0) -> Path:
        """The folder of a re-ranker."""
        plan = self.plan
        settings = f"{plan.stated:g}-{plan.bare:g}-{plan.networks}" + f"-seed-{seed}" * bool(seed)
        return self.folder / f"reranker-{name.replace(' ', '-')}-{settings}{asking(name)}"

    def other_kinds(self, name: str) -> list[Answer]:
        """What re-rankers say of facts' sentences and of articles when taught by the others alone.

        Sentences that were chosen for a fact, and ERNIE's sample of articles in lower case, whose
        links are Wikipedia's own; Open Entity's hundred are in neither.
        """
        if name not in self._other_kinds:
            kinds = {
                kind: Kind(*([t for t in part if kind_of(t.id) == kind] for part in self.teaching))
                for kind in ("facts", "articles")
            }
            read = self.scorers(name, training=True)
            answers = answers_on_other_kinds(read, kinds, self.rerank_settings)
            self._other_kinds[name] = answers
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
            gates = NameLinker(self.laboratory.names, self.laboratory.gates, **self.names)
            inner: Detector = ConstantConfidence(gates)
            if name != "gates":
                inner = (SureWithKinds if name == "kinds" else NamesAndTagger)(gates, self.tagger)
            self._detectors[name] = OnceDetector(inner)
        return self._detectors[name]


def kind_of(document: str) -> str:
    """The kind of text that a training document is."""
    for start, kind in (("ernie-", "articles"), ("open-entity-", "another linker's")):
        if document.startswith(start):
            return kind
    return "facts"


def plain_scorers(
    graph: KnowledgeGraph, surfaces: Sequence[tuple[str, str, int]]
) -> dict[str, Scorer]:
    """What every re-ranker reads: no walks and no vectors."""
    return {
        **default_scorers(graph),
        "links": PopularityScorer(graph, links_by_entity(surfaces)),
        "age": AgeScorer(),
        "type": TypeScorer(graph, [kind for kind in KINDS if kind in graph.relations]),
    }


def unstated(
    graph: KnowledgeGraph, texts: Sequence[LinkedText], share: float, *, seed: int
) -> KnowledgeGraph:
    """The graph without triples between a share of the pairs of entities that one text mentions."""
    pairs = sorted(
        {
            pair
            for text in texts
            for pair in combinations(sorted({k.entity for k in text.links if k.entity}), 2)
            if drawn(seed, f"stated {pair}") < share
        }
    )
    ids = graph.entities.ids([entity for pair in pairs for entity in pair]).reshape(-1, 2)
    return without_pairs(graph, ids[(ids >= 0).all(axis=1)].astype(np.int32))


def world_file(plan: Plan, config: Path) -> Path:
    """Where the settings of the world stand, beside the plan's own file."""
    return config.parent / plan.world
