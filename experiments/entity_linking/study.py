"""The stages of the experiment, each kept in the run folder, so that a killed run goes on.

world-HASH/   graph, counts, training and held-out documents   (texts, seed)
  names/      name index
  dense/      card vectors of every entity                     (dense plan, in its own HASH)
  pools/      candidates of every text                         (dense plan, names; gates if free)
run-HASH/     everything below, one folder per configuration     (all settings)
  reranker/   trained weights
  scored/     for each row and text the best candidates with their scores
vectors/      vectors of texts by their hash, whatever the settings
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from entity_linking.annotations import Excerpt, read_jsonl, write_jsonl
from entity_linking.decision import Decision
from entity_linking.dense.cards import CardOptions
from entity_linking.dense.context import ContextScorer, DenseCandidates
from entity_linking.dense.index import DenseIndex
from entity_linking.dictionary import DictionaryLinker
from entity_linking.mentions import LinkedText
from entity_linking.names import Gates, NameCandidates, NameIndex
from entity_linking.names.priors import LABELS_FIRST
from entity_linking.names.rules.case import Case
from entity_linking.parts import CandidateSource, Scorer, SentenceEncoder
from entity_linking.scorers.coherence import CoherenceScorer
from entity_linking.scorers.features import PopularityScorer, PriorScorer, TypeScorer
from entity_linking.scorers.mix import Mix, default_scorers
from entity_linking.scorers.rerank_parts import RerankSettings
from entity_linking.scorers.reranker import Reranker, with_gold
from entity_linking.scoring.elevant import LabelledText, read_labelled
from experiments.entity_linking import baseline
from experiments.entity_linking.config import Study
from experiments.entity_linking.inputs.benchmarks import (
    FILES,
    PARTLY_MARKED,
    SuppliedCandidates,
    read_articles,
)
from experiments.entity_linking.inputs.world import PARTS, World, open_world
from experiments.entity_linking.linkers import (
    AgeScorer,
    Pool,
    as_candidates,
    hide,
    links_by_entity,
    scored,
)
from experiments.entity_linking.spans import (
    FULLY_MARKED,
    WIKIGOLD,
    compared,
    detect,
    gates_of,
    lower_words,
    read_marked,
    with_names,
)
from experiments.entity_linking.vectors import RememberedEncoder
from kept.linking.sentences import HostSentenceEncoder
from kg_loaders.damage import DamageReport
from kg_loaders.disk.writing import write_text

BASELINE, DICTIONARY = "lower-cased dictionary", "DictionaryLinker"
TRAINED, SUPPLIED = "trained", "supplied candidates, votes"
SUPPLIED_TRAINED = "supplied candidates, trained"
POOLED = ("names + prior", "dense", "coherence", "mix", TRAINED)
ROWS = (BASELINE, DICTIONARY, *POOLED, SUPPLIED, SUPPLIED_TRAINED)
DETECTS = (DICTIONARY, *POOLED)
HELD_OUT = "held_out"
CASED = "held_out_cased"
"""The half of the held-out documents that decisions are fitted on, without the lower-cased ones."""
COMMON_FROM = 2
KINDS = ("P31", "P106")
"""Relations whose tails say what kind of thing the head is."""

Announce = Callable[[str], None]


@dataclass(frozen=True)
class Stage:
    """Texts kept in a file: read if it is there, made and written else."""

    folder: Path
    announce: Announce

    def texts(self, name: str, make: Callable[[], Sequence[LinkedText]]) -> list[LinkedText]:
        """The texts called `name`."""
        path = self.folder / f"{name}.jsonl"
        if not path.exists():
            self.announce(f"{self.folder.name}/{name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_jsonl(make(), path, force=True)
        return list(read_jsonl(path, DamageReport()))


class Laboratory:
    """Everything that rows are made from, made when first asked for."""

    def __init__(self, root: Path, study: Study, folder: Path, announce: Announce) -> None:
        self.root, self.study, self.folder, self.announce = root, study, folder, announce
        texts = digest(study.texts.model_dump(exclude={"hidden"}), study.seed)
        self.world_folder = folder / f"world-{texts}"
        settings = digest(study.model_dump(exclude={"published", "gates"}))
        self.run_folder = folder / f"run-{settings}"

    @cached_property
    def world(self) -> World:
        return open_world(self.root, self.study, self.world_folder, self.announce)

    @cached_property
    def names(self) -> NameIndex:
        place = self.world_folder / "names"
        if not place.exists():
            self.announce("name index")
            NameIndex.build(self.world.graph, counts=self.world.surfaces).save(place)
        return NameIndex.open(place)

    @cached_property
    def cards(self) -> CardOptions:
        return CardOptions(**self.study.dense.cards)

    def encoder(self, pieces: int) -> SentenceEncoder:
        """The sentence encoder, its vectors kept."""
        inner = HostSentenceEncoder(self.study.dense.host, max_length=pieces)
        return RememberedEncoder(inner, self.folder / f"vectors-{pieces}", announce=self.announce)

    @cached_property
    def dense(self) -> DenseIndex:
        plan = self.study.dense
        place = self.world_folder / f"dense-{digest(plan.cards, plan.host, plan.card_pieces)}"
        if not place.exists():
            self.announce("card vectors")
            encoder = self.encoder(plan.card_pieces)
            index = DenseIndex.build(self.world.graph, encoder, cards=self.cards, kind="flat")
            index.save(place)
        return DenseIndex.open(place)

    @cached_property
    def common_words(self) -> frozenset[str]:
        """Words that the training documents write in lower case; the lower-cased ones left out."""
        cased = [t.text for t in self.world.documents["train"] if not t.id.startswith("ernie")]
        return lower_words(cased, COMMON_FROM)

    @cached_property
    def gates(self) -> Gates:
        return gates_of(self.study.linker, self.common_words)

    def gate_scores(self) -> dict[str, Any]:
        """Every setting of the gates on the sets whose names are all marked."""
        settings = digest(self.study.gates)
        place = self.world_folder / f"gates-{settings}.json"
        if not place.exists():
            self.announce("gates")
            texts = {name: read_marked(self.root, name) for name in FULLY_MARKED}
            computed = compared(self.names, self.study.gates, texts, self.common_words)
            write_text(place, json.dumps(computed), force=True)
        stored: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        return stored

    # ---- candidates --------------------------------------------------------
    @cached_property
    def source(self) -> CandidateSource:
        """The pool: names, and the cards nearest to the context."""
        encoder = self.encoder(self.study.dense.context_pieces)
        plan = self.study.dense
        near = DenseCandidates(
            self.dense, encoder, max_candidates=plan.n_nearest, window=plan.window
        )
        return Pool(NameCandidates(self.names, **self.study.names), near)

    @cached_property
    def pools(self) -> Stage:
        plan = digest(self.study.dense.model_dump(), self.study.names)
        return Stage(self.world_folder / f"pools-{plan}", self.announce)

    def pool(self, name: str) -> list[LinkedText]:
        """Candidates of a part's or a benchmark's marked mentions."""

        def make() -> list[LinkedText]:
            texts = self.gold(name)
            return as_candidates(texts, self.source.candidates(texts))

        return self.pools.texts(name, make)

    def free_pool(self, name: str) -> list[LinkedText]:
        """Mentions found in a benchmark's texts, with candidates."""

        def make() -> list[LinkedText]:
            texts = detect(self.names, self.gates, self.gold(name))
            return as_candidates(texts, self.source.candidates(texts))

        return self.pools.texts(f"{name}.free-{digest(self.study.linker)}", make)

    def gold(self, name: str) -> list[LinkedText]:
        """The texts of a part or a benchmark with their gold links."""
        if name in PARTS:
            return list(self.world.documents[name])
        if name == CASED:
            judged = self.world.documents[HELD_OUT][1::2]
            return [text for text in judged if not text.id.startswith("ernie")]
        if name == WIKIGOLD:
            most = sum(len(text.links) for text in self.gold(CASED))
            return with_names(read_marked(self.root, WIKIGOLD), most)
        return [text.linked for text in self.world.benchmarks[name]]

    @cached_property
    def articles(self) -> dict[str, tuple[Excerpt, ...]]:
        """What linkers may read of each benchmark's documents: all of them."""
        return read_articles(self.root)

    def labelled(self, name: str) -> list[LabelledText]:
        """The texts of a benchmark with ELEVANT's labels, optional and nested ones among them."""
        return list(read_labelled(self.root / "el" / FILES[name], DamageReport()))

    def answered(self, name: str, proposed: Sequence[LinkedText]) -> list[LinkedText]:
        """Candidates and gold together, gold hidden from some."""
        together = with_gold(proposed, self.gold(name))
        return hide(together, self.study.texts.hidden, seed=self.study.seed)

    # ---- scorers -----------------------------------------------------------
    @cached_property
    def scorers(self) -> dict[str, Scorer]:
        """What the mix and the re-ranker read."""
        graph = self.world.graph
        return {
            **default_scorers(graph),
            "links": PopularityScorer(graph, links_by_entity(self.world.surfaces)),
            "age": AgeScorer(),
            "type": TypeScorer(graph, [name for name in KINDS if name in graph.relations]),
            **self.context_scorers(self.dense, self.encoder(self.study.dense.context_pieces)),
            "coherence": CoherenceScorer(graph, **self.study.coherence),
        }

    def context_scorers(self, index: DenseIndex, encoder: SentenceEncoder) -> dict[str, Scorer]:
        """What compares cards with the mention in its context, and with the context alone."""
        window = self.study.dense.window
        return {
            "dense": ContextScorer(index, encoder, window=window),
            "window": ContextScorer(index, encoder, window=window, surface_share=0.0),
        }

    @cached_property
    def reranker(self) -> Reranker:
        place = self.run_folder / "reranker"
        if not place.exists():
            parts = [self.answered(name, self.pool(name)) for name in PARTS]
            fitted = [self._fit(hidden, *parts) for hidden in self.study.hidden_tried]
            max(fitted, key=lambda model: model.accuracy(parts[1][::2])).save(place)
        return Reranker.open(place, self.scorers)

    def _fit(
        self, hidden: int, train: Sequence[LinkedText], held_out: Sequence[LinkedText]
    ) -> Reranker:
        settings = RerankSettings(**self.study.reranker, hidden=hidden)
        graph_hash = self.world.graph.content_hash
        stops_by = held_out[::2]
        model = Reranker.fit(
            self.scorers, train, stops_by, settings=settings, graph_hash=graph_hash
        )
        accuracy = model.accuracy(stops_by)
        self.announce(f"re-ranker, {hidden} hidden: held-out accuracy {accuracy:.4f}")
        return model

    def scorer(self, row: str) -> Scorer:
        """How a row of the pool chooses."""
        if row == "names + prior":
            return PriorScorer()
        if row == "mix":
            weights = self.study.mix
            parts = {name: (self.scorers[name], weight) for name, weight in weights.items()}
            return Mix(parts, normalisation=self.study.normalisation)
        if row in (TRAINED, SUPPLIED_TRAINED):
            return self.reranker
        return self.scorers[row]

    # ---- rows --------------------------------------------------------------
    def row(self, row: str, name: str) -> list[LinkedText]:
        """Marked mentions with the row's best candidates; `name` is a part or a benchmark."""
        stage = Stage(self.run_folder / "scored" / row.replace(" ", "-"), self.announce)
        return stage.texts(name, lambda: self._row(row, name))

    def free_row(self, row: str, name: str) -> list[LinkedText]:
        """Mentions that the linker found itself, in a benchmark."""
        stage = Stage(self.run_folder / "scored" / row.replace(" ", "-"), self.announce)
        return stage.texts(f"{name}.free", lambda: self._free_row(row, name))

    def _row(self, row: str, name: str) -> Sequence[LinkedText]:
        most, gold = self.study.n_candidates, self.gold(name)
        if row == BASELINE:
            return baseline.disambiguate(gold, baseline.read_lowered(self.root))
        if row == DICTIONARY:
            return self._exact("insensitive").disambiguate(gold)
        if row in (SUPPLIED, SUPPLIED_TRAINED):
            source = SuppliedCandidates(self.root / "el" / "candidates_elevant.jsonl.gz")
            proposed = as_candidates(gold, source.candidates(gold))
            scorer = PriorScorer() if row == SUPPLIED else self.scorer(row)
            return scored(proposed, scorer, most)
        return scored(self.pool(name), self.scorer(row), most)

    def _exact(self, case: Case) -> DictionaryLinker:
        """Names as they are written alone, a label before aliases."""
        most = self.study.n_candidates
        return DictionaryLinker(
            self.world.graph, case=case, max_candidates=most, exact=True, formula=LABELS_FIRST
        )

    def _free_row(self, row: str, name: str) -> Sequence[LinkedText]:
        if row == DICTIONARY:
            return self._exact("smart").link([text.text for text in self.gold(name)])
        return scored(self.free_pool(name), self.scorer(row), self.study.n_candidates)


def start(row: str) -> Decision:
    """What calibration begins with: the re-ranker's NIL stands at 0."""
    return Decision(nil_score=0.0) if row == TRAINED else Decision()


def benchmark_names(row: str, *, free: bool) -> list[str]:
    """Where a row is run: mentions are found only where all of them are marked."""
    if not free:
        return list(FILES)
    return [name for name in FILES if name not in PARTLY_MARKED] if row in DETECTS else []


def digest(*settings: object) -> str:
    """A short hash of settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:10]
