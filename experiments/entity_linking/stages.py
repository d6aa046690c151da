"""Stages of the experiment, each kept in the run folder, so that a killed run goes on.

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
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

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
from entity_linking.scorers.features import PriorScorer
from entity_linking.scorers.mix import Mix
from entity_linking.scorers.rerank_parts import RerankSettings
from entity_linking.scorers.reranker import Reranker, with_gold
from entity_linking.scoring.elevant import LabelledText, read_labelled
from experiments.entity_linking.config import LinkingStudy
from experiments.entity_linking.inputs.benchmarks import (
    FILES,
    PARTLY_MARKED,
    SuppliedCandidates,
    read_articles,
)
from experiments.entity_linking.inputs.world import PARTS, LinkingData, open_world
from experiments.entity_linking.linkers import (
    LowerCasedNames,
    Pool,
    forced,
    hide,
    plain_scorers,
    read_surface_counts,
    scored,
    with_candidates,
)
from experiments.entity_linking.spans import (
    FULLY_MARKED,
    WIKIGOLD,
    compared,
    detect,
    gates_of,
    lower_words,
    read_names,
    with_names,
)
from experiments.entity_linking.vectors import RememberedEncoder
from kept.lab.study.store import stored_once
from kept.linking.sentences import HostSentenceEncoder
from kg_loaders.damage import DamageReport

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
Announce = Callable[[str], None]


class Saved(Protocol):
    """What is kept in a folder."""

    def save(self, path: Path) -> object: ...


class LinkingStages:
    """Everything that rows are made from, made when first asked for."""

    def __init__(self, root: Path, study: LinkingStudy, folder: Path, announce: Announce) -> None:
        self.root, self.study, self.folder, self.announce = root, study, folder, announce
        texts = digest(study.texts.model_dump(exclude={"hidden"}), study.seed)
        self.world_folder = folder / f"world-{texts}"
        settings = digest(study.model_dump(exclude={"published", "gates"}))
        self.run_folder = folder / f"run-{settings}"

    def saved(self, path: Path, name: str, make: Callable[[], Saved]) -> Path:
        """Return the folder of a part, which is made and saved where it is not there."""
        if not path.exists():
            self.announce(name)
            make().save(path)
        return path

    def texts(self, path: Path, make: Callable[[], Sequence[LinkedText]]) -> list[LinkedText]:
        """Return the texts of a file, which are made and written where it is not there."""
        if not path.exists():
            self.announce(f"{path.parent.name}/{path.stem}")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_jsonl(make(), path, force=True)
        return list(read_jsonl(path, DamageReport()))

    @cached_property
    def world(self) -> LinkingData:
        return open_world(self.root, self.study, self.world_folder, self.announce)

    @cached_property
    def names(self) -> NameIndex:
        def build() -> NameIndex:
            return NameIndex.build(self.world.graph, counts=self.world.surfaces)

        return NameIndex.open(self.saved(self.world_folder / "names", "name index", build))

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

        def build() -> DenseIndex:
            encoder = self.encoder(plan.card_pieces)
            return DenseIndex.build(self.world.graph, encoder, cards=self.cards, kind="flat")

        path = self.world_folder / f"dense-{digest(plan.cards, plan.host, plan.card_pieces)}"
        return DenseIndex.open(self.saved(path, "card vectors", build))

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

        def scores() -> dict[str, Any]:
            self.announce("gates")
            texts = {name: read_names(self.root / file) for name, file in FULLY_MARKED.items()}
            return compared(self.names, self.study.gates, texts, self.common_words)

        path = self.world_folder / f"gates-{digest(self.study.gates)}.json"
        return stored_once(path, dict[str, Any], scores)

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

    @property
    def pools(self) -> Path:
        """The folder of candidates."""
        plan = digest(self.study.dense.model_dump(), self.study.names)
        return self.world_folder / f"pools-{plan}"

    def pool(self, name: str) -> list[LinkedText]:
        """Return candidates of a part's or a benchmark's marked mentions."""
        return self.texts(
            self.pools / f"{name}.jsonl", lambda: with_candidates(self.gold(name), self.source)
        )

    def free_pool(self, name: str) -> list[LinkedText]:
        """Return the mentions found in a benchmark's texts, with candidates."""

        def make() -> list[LinkedText]:
            return with_candidates(detect(self.names, self.gates, self.gold(name)), self.source)

        return self.texts(self.pools / f"{name}.free-{digest(self.study.linker)}.jsonl", make)

    def gold(self, name: str) -> list[LinkedText]:
        """The texts of a part or a benchmark with their gold links."""
        if name in PARTS:
            return list(self.world.documents[name])
        if name == CASED:
            judged = self.world.documents[HELD_OUT][1::2]
            return [text for text in judged if not text.id.startswith("ernie")]
        if name == WIKIGOLD:
            most = sum(len(text.links) for text in self.gold(CASED))
            return with_names(read_names(self.root / FULLY_MARKED[WIKIGOLD]), most)
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
            **plain_scorers(graph, self.world.surfaces),
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
        def best() -> Reranker:
            train, held_out = (self.answered(name, self.pool(name)) for name in PARTS)
            models = [self._fit(hidden, train, held_out) for hidden in self.study.hidden_tried]
            return max(models, key=lambda model: model.accuracy(held_out[::2]))

        path = self.saved(self.run_folder / "reranker", "re-ranker", best)
        return Reranker.open(path, self.scorers)

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
        """Return marked mentions with the row's best candidates; of a part or a benchmark."""
        return self.texts(self._scored(row, name), lambda: self._row(row, name))

    def free_row(self, row: str, name: str) -> list[LinkedText]:
        """Return the mentions that the linker found itself, in a benchmark."""
        return self.texts(self._scored(row, f"{name}.free"), lambda: self._free_row(row, name))

    def _scored(self, row: str, name: str) -> Path:
        return self.run_folder / "scored" / row.replace(" ", "-") / f"{name}.jsonl"

    def _row(self, row: str, name: str) -> Sequence[LinkedText]:
        most, gold = self.study.n_candidates, self.gold(name)
        if row == BASELINE:
            return forced(with_candidates(gold, LowerCasedNames(read_surface_counts(self.root))))
        if row == DICTIONARY:
            return self._exact("insensitive").disambiguate(gold)
        if row in (SUPPLIED, SUPPLIED_TRAINED):
            source = SuppliedCandidates(self.root / "el" / "candidates_elevant.jsonl.gz")
            scorer = PriorScorer() if row == SUPPLIED else self.scorer(row)
            return scored(with_candidates(gold, source), scorer, most)
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
    """Return a short hash of settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:10]
