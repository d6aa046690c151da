"""Rows of the study: a detector, a scorer and a decision fitted on running text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from entity_linking.annotations import Excerpt
from entity_linking.calibration.acceptance import FAVOURS, Favour, Wish
from entity_linking.calibration.answers import Answer, answers
from entity_linking.calibration.fitting import EVERY_STEP, STEPS, cross_validated, f1_of, fit
from entity_linking.calibration.other_kinds import (
    KindAnswers,
    above_linked,
    adapted,
    decision_for_other_kinds,
    share_linked,
    without_curve,
)
from entity_linking.decision import Decision
from entity_linking.detection import EndToEnd
from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.names import Gates, NameLinker
from entity_linking.pipeline import Pipeline
from entity_linking.scoring.elevant import LabelledText, Mode
from experiments.entity_linking.end_to_end.parts import (
    ENCODER_TOO,
    EVERYWHERE,
    PRIOR,
    RERANKERS,
    TRAINED,
    EndToEndStudy,
    Parts,
    asking,
)
from experiments.entity_linking.end_to_end.tagging import WIKIGOLD
from experiments.entity_linking.inputs.benchmarks import CHOSEN_ON, PRONOUNS_MARKED
from experiments.entity_linking.inputs.texts import uniform_value
from experiments.entity_linking.linkers import with_links
from experiments.entity_linking.scores import Results, elevant_scores
from experiments.entity_linking.spans import as_linked, with_names
from experiments.entity_linking.stages import CASED, LinkingStages
from kept.lab.study.store import stored_once

Pronouns = Literal["", "where marked", "everywhere"]


@dataclass(frozen=True)
class Row:
    """How a row of the tables links.

    `pronouns`: whether "he", "she" and "it" are links, and where: `PRONOUNS_MARKED` by guideline.
    `reads_article`: all of an article of which an excerpt is labelled, as published linkers do.
    """

    detector: str
    scorer: str
    says_nil: bool
    pronouns: Pronouns = ""
    is_fitted: bool = True
    reads_article: bool = True

    def on(self, benchmark: str) -> tuple[Row, bool]:
        """The row as it is run there, and whether with pronouns."""
        has = self.pronouns == "everywhere"
        has |= self.pronouns == "where marked" and benchmark in PRONOUNS_MARKED
        detector = "kinds" if has and self.detector == "gates" else self.detector
        return replace(self, detector=detector), has


def _likeliest(scorer: str, detector: str = "gates", pronouns: Pronouns = "") -> Row:
    return Row(detector, scorer, says_nil=True, pronouns=pronouns, is_fitted=False)


ROWS = {
    "names + prior (before)": Row("gates", PRIOR, says_nil=False, reads_article=False),
    "trained (before)": Row("gates", TRAINED, says_nil=False, reads_article=False),
    "names + prior": Row("gates", PRIOR, says_nil=True),
    "names + prior, tagger": Row("both", PRIOR, says_nil=True),
    "trained, tagger": Row("both", TRAINED, says_nil=True),
    **{f"{scorer}, likeliest": _likeliest(scorer) for scorer in (*RERANKERS, *EVERYWHERE)},
    **{
        f"{scorer}, likeliest, pronouns": _likeliest(scorer, pronouns="where marked")
        for scorer in RERANKERS
    },
    f"{ENCODER_TOO}, likeliest, pronouns everywhere": _likeliest(
        ENCODER_TOO, pronouns="everywhere"
    ),
    f"{ENCODER_TOO}, likeliest, excerpt alone": replace(
        _likeliest(ENCODER_TOO), reads_article=False
    ),
    **{
        f"{scorer}, tagger, likeliest": _likeliest(scorer, "both")
        for scorer in (TRAINED, ENCODER_TOO)
    },
    f"{ENCODER_TOO}, tagger, likeliest, pronouns": _likeliest(ENCODER_TOO, "both", "where marked"),
}
BEST = f"{ENCODER_TOO}, likeliest, pronouns"
"""The row that reads most, behind the gates; named before it was scored."""


@dataclass(frozen=True)
class Fitted:
    """Decisions by what they favour, and the F1 of the one for F1: cross-validated where fitted."""

    decisions: dict[Favour, Decision]
    f1: float
    n_answers: int

    @property
    def decision(self) -> Decision:
        return self.decisions["f1"]


class EndToEndTrial(Parts):
    """Linkers of rows, their decisions, what they answer."""

    def __init__(self, stages: LinkingStages, plan: EndToEndStudy) -> None:
        super().__init__(stages, plan)
        self._fitted: dict[str, Fitted] = {}
        self._linked: dict[tuple[str, str], list[LinkedText]] = {}
        self._raw: dict[tuple[str, str], list[LinkedText]] = {}

    def linker(
        self, row: Row, decision: Decision, *, tuning: bool = False, pronouns: bool = False
    ) -> EndToEnd:
        """The linker of a row with that decision."""
        gates = NameLinker(self.stages.names, Gates())
        scorer = self.scorer(row.scorer, tuning=tuning)
        source = self.source_of_training if tuning else self.source
        pipeline = Pipeline(gates, source, scorer, decision)
        return EndToEnd(self.detector(row.detector), pipeline, pronouns=pronouns)

    # ---- decisions ---------------------------------------------------------
    def fitted(self, row: Row) -> Fitted:
        """The row's decision, fitted on running text that no part was trained on.

        Held-out documents say whether the entity is right where they mark a mention, Wikigold's
        held-out articles where a link can only be wrong, as no name has that span; there are about
        as many names in one as marked mentions in the other.
        """
        how = "NIL" if row.says_nil else "links alone"
        key = f"{row.detector}, {row.scorer}, {how if row.is_fitted else 'likeliest'}"
        if key not in self._fitted:
            name = f"{key}{asking(row.scorer)}".replace(", ", "-").replace(" ", "-")
            path = self.folder / "decisions" / f"{name}.json"
            self._fitted[key] = stored_once(path, Fitted, lambda: self._fit(row))
        return self._fitted[key]

    def _fit(self, row: Row) -> Fitted:
        start = Decision() if row.scorer == PRIOR else Decision(nil_score=0.0)
        linker = self.linker(row, start, tuning=True)
        seen, n_missed = self._answers(linker, hidden=0.0)
        if not row.is_fitted:
            likeliest = decision_for_other_kinds(self.other_kinds(row.scorer))
            f1 = f1_of(seen, likeliest, n_missed=n_missed)
            return Fitted(dict.fromkeys(FAVOURS, likeliest), f1, len(seen))
        steps = EVERY_STEP if row.says_nil else STEPS
        decisions = {
            favour: fit(seen, start, steps=steps, n_missed=n_missed, wish=Wish(favour))
            for favour in FAVOURS
        }
        if row.says_nil:
            unknown, _ = self._answers(linker, hidden=self.stages.study.texts.hidden)
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
        gold = self.stages.gold(CASED)
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
        detected = linker.detect([text.text for text in gold])
        spans = [list(each.scores) for each in detected]
        seed = self.stages.study.seed
        expected = [_without(text, hidden, seed) for text in gold]
        proposed = linker.propose([each.linked for each in detected])
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

    def decision_on(self, name: str, benchmark: str) -> Decision:
        """The row's decision, as sure as it should be of that benchmark's texts.

        No label of the benchmark is read: its curve is from other kinds of text, moved by the
        share of the names that are linked here. Spans of a tagger have probabilities, which no
        other kind has; their rows, and fitted ones, have one decision everywhere.
        """
        row, decision, _ = self.chosen(name)
        if row.is_fitted or row.detector == "both":
            return decision
        others = {
            each: self.answers_on(row.scorer, each) for each in CHOSEN_ON if each != benchmark
        }
        kinds = self.other_kinds(row.scorer) | {
            k: of_kind for k, of_kind in others.items() if of_kind.links
        }
        start = decision_for_other_kinds(kinds, self.stages.study.seed)
        raw = self.raw(row.scorer, benchmark)
        is_linked = any(link.entity is not None for text in raw for link in text.links)
        return adapted(start, above_linked(kinds), raw) if is_linked else start

    def raw(self, scorer: str, benchmark: str) -> list[LinkedText]:
        """Every name that is found in a benchmark's articles, by raw confidence; made once."""
        if (scorer, benchmark) not in self._raw:
            decision = without_curve(Decision(nil_score=0.0))
            row = Row("gates", scorer, says_nil=True)
            linker = self.linker(row, decision)
            texts = [article.text for article in self.stages.articles[benchmark]]
            self._raw[scorer, benchmark] = linker.decide(linker.detect(texts))
        return self._raw[scorer, benchmark]

    def answers_on(self, scorer: str, benchmark: str) -> KindAnswers:
        """A benchmark as a kind of text that re-rankers never see."""
        raw = self.raw(scorer, benchmark)
        excerpts = map(Excerpt.cut, self.stages.articles[benchmark], raw)
        seen = answers(self.stages.gold(benchmark), list(excerpts), unmarked="skip")
        links = [each for each in seen if each.scores.max() > 0]
        return KindAnswers(links, share_linked(raw) if links else 0.0)

    def linked(self, name: str, benchmark: str) -> list[LinkedText]:
        """What the row makes of a benchmark's excerpts; made once."""
        if (name, benchmark) not in self._linked:
            row, decision = self.chosen(name)[0], self.decision_on(name, benchmark)
            scorer, pronouns = row.on(benchmark)
            linker = self.linker(scorer, decision, pronouns=pronouns)
            self._linked[name, benchmark] = link_excerpts(
                linker, self.stages.articles[benchmark], whole=row.reads_article
            )
        return self._linked[name, benchmark]

    def scores(
        self, gold: Sequence[LabelledText], ours: Sequence[LinkedText], mode: Mode
    ) -> Results:
        """Return precision, recall and F1 with its interval, as ELEVANT counts."""
        return elevant_scores(self.stages.study, gold, ours, mode)


def link_excerpts(
    linker: EndToEnd, articles: Sequence[Excerpt], *, whole: bool = True
) -> list[LinkedText]:
    """What a linker that reads the articles whole, or the excerpts alone, makes of the excerpts."""
    read = articles if whole else list(map(alone, articles))
    linked = linker.link([article.text for article in read])
    return [article.cut(text) for article, text in zip(read, linked, strict=True)]


def disambiguate_excerpts(
    linker: EndToEnd, articles: Sequence[Excerpt], texts: Sequence[LinkedText]
) -> list[LinkedText]:
    """Links of the given mentions of the excerpts; around them the linker finds its own."""
    detected = linker.detect([article.text for article in articles])
    placed = [
        article.placed(text, detected_text.linked)
        for article, text, detected_text in zip(articles, texts, detected, strict=True)
    ]
    linked = linker.disambiguate(placed)
    return [article.cut(text) for article, text in zip(articles, linked, strict=True)]


def alone(article: Excerpt) -> Excerpt:
    """The excerpt as an article of its own."""
    return Excerpt(article.excerpt, 0, len(article.excerpt), article.id)


def _without(text: LinkedText, share: float, seed: int) -> LinkedText:
    """Gold in which a share of the mentions is NIL."""

    def is_hidden(link: Link) -> bool:
        key = f"{link.mention} {text.text}"
        return link.entity is not None and uniform_value(seed, key) < share

    nil = (Link(k.mention, (), None, 1.0) if is_hidden(k) else k for k in text.links)
    return with_links(text, nil)


def _forgotten(text: LinkedText, hidden: Mapping[Mention, str | None]) -> LinkedText:
    """The mentions that became NIL lose their entity from the candidates."""
    links = []
    for link in text.links:
        if link.mention in hidden:
            others = (c for c in link.candidates if c.entity != hidden[link.mention])
            link = replace(link, candidates=tuple(others))
        links.append(link)
    return with_links(text, links)
