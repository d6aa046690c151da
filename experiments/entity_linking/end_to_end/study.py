"""Rows of the study: a detector, a scorer and a decision fitted on running text.

Stages are kept in the run folder: the world of `experiments.entity_linking`, the tagger, the
re-ranker. No vectors of cards are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import msgspec
from pydantic import BaseModel, ConfigDict, PositiveInt

from entity_linking.calibration.acceptance import FAVOURS, Favour, Wish
from entity_linking.calibration.answers import Answer, answers
from entity_linking.calibration.fitting import EVERY_STEP, STEPS, cross_validated, f1_of, fit
from entity_linking.decision import LIKELIEST, Decision
from entity_linking.detection import Detector, EndToEnd, Found, NamesAndTagger, SpanTagger
from entity_linking.mentions import Link, LinkedText, Linker, Mention
from entity_linking.names import Gates, NameCandidates, NameLinker
from entity_linking.parts import CandidateSource, Scorer
from entity_linking.pipeline import Pipeline
from entity_linking.scorers.coherence import CoherenceScorer
from entity_linking.scorers.features import PopularityScorer, PriorScorer, TypeScorer
from entity_linking.scorers.mix import default_scorers
from entity_linking.scorers.rerank_parts import RerankSettings
from entity_linking.scorers.reranker import Reranker
from experiments.entity_linking.end_to_end.memo import OnceDetector, OnceScorer, OnceSource
from experiments.entity_linking.end_to_end.tagging import (
    WIKIGOLD,
    TaggerTexts,
    as_linked,
    read_texts,
)
from experiments.entity_linking.inputs.texts import drawn
from experiments.entity_linking.linkers import AgeScorer, as_candidates, links_by_entity
from experiments.entity_linking.spans import with_names
from experiments.entity_linking.study import CASED, HELD_OUT, KINDS, Laboratory
from kept.linking.tagging.tagger import Tagger
from kept.linking.tagging.training import TaggerSettings, train_tagger
from kg_loaders.disk.writing import write_text

PRIOR, TRAINED = "names + prior", "trained"
COHERENCE, CONTEXT = "coherence", "context"
RERANKERS = (TRAINED, COHERENCE, CONTEXT)
"""Each reads what the one before reads, and more."""


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


class Sure:
    """A `Detector`: the mentions of a linker, each with probability 1."""

    def __init__(self, linker: Linker) -> None:
        self._linker = linker

    def detect(self, texts: Sequence[str]) -> list[Found]:
        """As `Detector`."""
        return [
            Found(linked, (1.0,) * len(linked.links), ("",) * len(linked.links))
            for linked in self._linker.link(texts)
        ]


class SureWithKinds:
    """A `Detector`: the mentions of a linker, each with probability 1 and the kind of a tagger."""

    def __init__(self, linker: Linker, tagger: SpanTagger) -> None:
        self._linker, self._tagger = linker, tagger

    def detect(self, texts: Sequence[str]) -> list[Found]:
        """As `Detector`."""
        found = []
        for linked, tagged in zip(self._linker.link(texts), self._tagger.tag(texts), strict=True):
            kinds = {(span.start, span.end): span.kind for span in tagged.spans}
            places = ((link.mention.start, link.mention.end) for link in linked.links)
            own = tuple(kinds.get(place, "") for place in places)
            found.append(Found(linked, (1.0,) * len(own), own))
        return found


@dataclass(frozen=True)
class Row:
    """How a row of the tables links."""

    detector: str
    scorer: str
    says_nil: bool
    pronouns: bool = False
    is_fitted: bool = True


ROWS = {
    "names + prior (before)": Row("gates", PRIOR, says_nil=False),
    "trained (before)": Row("gates", TRAINED, says_nil=False),
    "trained, NIL an answer": Row("gates", TRAINED, says_nil=True),
    "names + prior, tagger": Row("both", PRIOR, says_nil=True),
    "trained, tagger": Row("both", TRAINED, says_nil=True),
    **{
        f"{scorer}{', tagger' if finds == 'both' else ''}, likeliest{', pronouns' * pronouns}": Row(
            "kinds" if pronouns and finds == "gates" else finds,
            scorer,
            says_nil=True,
            pronouns=pronouns,
            is_fitted=False,
        )
        for finds in ("gates", "both")
        for scorer in RERANKERS
        for pronouns in (False, True)
    },
}
BEST = "context, tagger, likeliest, pronouns"
"""The best by F1 on the tuning text, which has no say on pronouns."""


@dataclass(frozen=True)
class Fitted:
    """Decisions by what they favour, and the F1 of the one for F1: cross-validated where fitted."""

    decisions: dict[Favour, Decision]
    f1: float
    n_answers: int

    @property
    def decision(self) -> Decision:
        return self.decisions["f1"]


class Bench:
    """Everything that rows are made from, made when first asked for."""

    def __init__(self, laboratory: Laboratory, plan: Plan) -> None:
        self.laboratory, self.plan = laboratory, plan
        self.folder = laboratory.world_folder / f"end-to-end-{plan.n_layers}-{plan.epochs}"
        self._fitted: dict[str, Fitted] = {}
        self._scorers: dict[str, Scorer] = {}
        self._detectors: dict[str, Detector] = {}

    # ---- parts -------------------------------------------------------------
    @cached_property
    def texts(self) -> TaggerTexts:
        laboratory = self.laboratory
        gold = {name: laboratory.gold(name) for name in laboratory.world.benchmarks}
        overlap = laboratory.study.texts.overlap_words
        return read_texts(
            laboratory.root, gold, overlap=overlap, apart=self.plan.held_out, steps=self.plan.steps
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
        return OnceSource(NameCandidates(self.laboratory.names, **self.laboratory.study.names))

    def scorers(self, name: str) -> dict[str, Scorer]:
        """What a re-ranker reads; walks take minutes, vectors of cards ten."""
        graph, world = self.laboratory.world.graph, self.laboratory.world
        read: dict[str, Scorer] = {
            **default_scorers(graph),
            "links": PopularityScorer(graph, links_by_entity(world.surfaces)),
            "age": AgeScorer(),
            "type": TypeScorer(graph, [kind for kind in KINDS if kind in graph.relations]),
        }
        if name != TRAINED:
            read["coherence"] = CoherenceScorer(graph, **self.laboratory.study.coherence)
        if name == CONTEXT:
            read |= self.laboratory.context_scorers()
        return read

    def reranker(self, name: str) -> Reranker:
        """The re-ranker called `name`, of `RERANKERS`."""
        place, scorers = self.folder / f"reranker-{name}", self.scorers(name)
        if not place.exists():
            self.laboratory.announce(f"re-ranker, {name}")
            parts = []
            for part in ("train", HELD_OUT):
                gold = self.laboratory.gold(part)
                proposed = as_candidates(gold, self.source.candidates(gold))
                parts.append(self.laboratory.answered(part, proposed))
            hidden = max(self.laboratory.study.hidden_tried)
            settings = RerankSettings(**self.laboratory.study.reranker, hidden=hidden)
            graph_hash = self.laboratory.world.graph.content_hash
            model = Reranker.fit(
                scorers, parts[0], parts[1][::2], settings=settings, graph_hash=graph_hash
            )
            model.save(place)
        return Reranker.open(place, scorers)

    def scorer(self, name: str) -> Scorer:
        """What a row chooses by."""
        if name not in self._scorers:
            inner = PriorScorer() if name == PRIOR else self.reranker(name)
            self._scorers[name] = OnceScorer(inner)
        return self._scorers[name]

    def detector(self, name: str) -> Detector:
        """What finds a row's mentions."""
        if name not in self._detectors:
            gates = NameLinker(self.laboratory.names, self.laboratory.gates)
            inner: Detector = Sure(gates)
            if name != "gates":
                inner = (SureWithKinds if name == "kinds" else NamesAndTagger)(gates, self.tagger)
            self._detectors[name] = OnceDetector(inner)
        return self._detectors[name]

    def linker(self, row: Row, decision: Decision) -> EndToEnd:
        """The linker of a row with that decision."""
        gates = NameLinker(self.laboratory.names, Gates())
        pipeline = Pipeline(gates, self.source, self.scorer(row.scorer), decision)
        return EndToEnd(self.detector(row.detector), pipeline, pronouns=row.pronouns)

    # ---- decisions ---------------------------------------------------------
    def fitted(self, row: Row) -> Fitted:
        """The row's decision, fitted on running text that no part was trained on.

        Held-out documents say whether the entity is right where they mark a mention, Wikigold's
        held-out articles where a link can only be wrong, as no name has that span; there are about
        as many names in one as marked mentions in the other.
        """
        detector = "gates" if row.detector == "kinds" else row.detector
        how = "NIL" if row.says_nil else "links alone"
        key = f"{detector}, {row.scorer}, {how if row.is_fitted else 'likeliest'}"
        if key not in self._fitted:
            path = self.folder / "decisions" / f"{key.replace(', ', '-').replace(' ', '-')}.json"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                fitted = self._fit(replace(row, detector=detector, pronouns=False))
                write_text(path, msgspec.json.encode(fitted).decode(), force=True)
            self._fitted[key] = msgspec.json.decode(path.read_bytes(), type=Fitted)
        return self._fitted[key]

    def _fit(self, row: Row) -> Fitted:
        start = Decision() if row.scorer == PRIOR else Decision(nil_score=0.0)
        linker = self.linker(row, start)
        seen, n_missed = self._answers(linker, hidden=0.0)
        if not row.is_fitted:
            likeliest = fit(seen, replace(start, nil_from=LIKELIEST), steps=("curve",))
            f1 = f1_of(seen, likeliest, n_missed=n_missed)
            return Fitted(dict.fromkeys(FAVOURS, likeliest), f1, len(seen))
        steps = EVERY_STEP if row.says_nil else STEPS
        decisions = {
            favour: fit(seen, start, steps=steps, n_missed=n_missed, wish=Wish(favour))
            for favour in FAVOURS
        }
        if row.says_nil:
            unknown, _ = self._answers(linker, hidden=self.laboratory.study.texts.hidden)
            decisions = {
                favour: fit(unknown, decision, steps=("nil_from",), n_missed=n_missed)
                for favour, decision in decisions.items()
            }
        f1 = cross_validated(seen, start, steps=steps, n_missed=n_missed).f1
        return Fitted(decisions, f1, len(seen))

    def _answers(self, linker: EndToEnd, *, hidden: float) -> tuple[list[Answer], int]:
        """Answers on the tuning text, of whose entities a share is hidden from the linker.

        So there are names that the graph does not have, as in anyone's text; NIL is fitted there.
        """
        gold = self.laboratory.gold(CASED)
        n_names = sum(len(text.links) for text in gold)
        marked = with_names(as_linked(self.texts.held_out[WIKIGOLD]), n_names)
        seen = self._judged(linker, gold, unmarked=False, hidden=hidden)
        n_entities = sum(link.entity is not None for text in gold for link in text.links)
        n_missed = max(n_entities - sum(each.has_entity for each in seen), 0)
        spare = [
            replace(each, text=each.text + len(gold))
            for each in self._judged(linker, marked, unmarked=True, hidden=0.0)
        ]
        return [*seen, *spare], n_missed

    def _judged(
        self, linker: EndToEnd, gold: Sequence[LinkedText], *, unmarked: bool, hidden: float
    ) -> list[Answer]:
        found = linker.detect([text.text for text in gold])
        spans = [list(each.scores) for each in found]
        seed = self.laboratory.study.seed
        expected = [_without(text, hidden, seed) for text in gold]
        proposed = linker.propose([each.linked for each in found])
        left = [
            {k.mention: k.entity for k, now in zip(text.links, rest.links, strict=True) if k != now}
            for text, rest in zip(gold, expected, strict=True)
        ]
        linked = linker.pipeline.decide(list(map(_forgotten, proposed, left)), spans)
        if not unmarked:
            return answers(expected, linked, unmarked="skip", spans=spans)
        seen = answers(expected, linked, unmarked="nil", spans=spans)
        return [each for each in seen if not each.is_marked]

    # ---- answers -----------------------------------------------------------
    def chosen(self, name: str) -> tuple[Row, Decision, bool]:
        """The row called `name` with its decision, or names + prior where these do better.

        Better is by the cross-validated F1 on the tuning text; True where the row falls back.
        """
        row = ROWS[name]
        plain = replace(row, scorer=PRIOR, is_fitted=True)
        if self.fitted(row).f1 >= self.fitted(plain).f1:
            return row, self.fitted(row).decision, False
        return plain, self.fitted(plain).decision, True

    def linked(self, name: str, texts: Sequence[LinkedText]) -> list[LinkedText]:
        """What the row makes of texts; the links they bear are not read."""
        row, decision, _ = self.chosen(name)
        linked = self.linker(row, decision).link([text.text for text in texts])
        return [replace(ours, id=text.id) for ours, text in zip(linked, texts, strict=True)]


def _without(text: LinkedText, share: float, seed: int) -> LinkedText:
    """Gold in which a share of the mentions is NIL."""
    return replace(
        text,
        links=tuple(
            Link(k.mention, (), None, 1.0)
            if k.entity is not None and drawn(seed, f"{k.mention} {text.text}") < share
            else k
            for k in text.links
        ),
    )


def _forgotten(text: LinkedText, left: Mapping[Mention, str | None]) -> LinkedText:
    """The mentions that became NIL lose their entity from the candidates."""
    return replace(
        text,
        links=tuple(
            replace(k, candidates=tuple(c for c in k.candidates if c.entity != left[k.mention]))
            if k.mention in left
            else k
            for k in text.links
        ),
    )


def without_refused(texts: Sequence[LinkedText]) -> list[LinkedText]:
    """The links alone, nothing that is NIL."""

    def linked(link: Link) -> bool:
        return link.entity is not None

    return [replace(text, links=tuple(filter(linked, text.links))) for text in texts]


def world_file(plan: Plan, config: Path) -> Path:
    """Where the settings of the world stand, beside the plan's own file."""
    return config.parent / plan.world
