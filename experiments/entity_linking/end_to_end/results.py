"""Scores of every row, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from entity_linking.calibration.acceptance import Wish
from entity_linking.calibration.fitting import EVERY_STEP, fit
from entity_linking.calibration.reliability import calibration_score
from entity_linking.decision import Decision
from entity_linking.mentions import LinkedText
from entity_linking.names import Gates, NameLinker
from entity_linking.pipeline import Pipeline
from entity_linking.randomness import generator
from entity_linking.scoring import score_links
from entity_linking.scoring.elevant import LabelledText, Mode, count_elevant
from entity_linking.scoring.intervals import ratio_interval
from experiments.entity_linking.causes import link_causes
from experiments.entity_linking.end_to_end.study import (
    BEST,
    ROWS,
    TRAINED,
    Bench,
    Row,
    without_refused,
)
from experiments.entity_linking.end_to_end.tagging import TESTED, as_linked
from experiments.entity_linking.inputs.benchmarks import FILES
from experiments.entity_linking.inputs.texts import drawn
from experiments.entity_linking.linkers import forced
from kept.linking.tagging.marked import read_marked

Told = dict[str, Any]
GOLD_SPANS = "gold spans, as the best row links"
FAVOURED: tuple[Wish, ...] = (Wish("precision"), Wish("f1"), Wish("recall"))


def score_all(bench: Bench) -> Told:
    """Everything the tables say."""
    say = bench.laboratory.announce
    detection = detection_scores(bench)
    say("detection")
    rows = {name: {b: elevant_scores(bench, name, b) for b in FILES} for name in ROWS}
    say("rows")
    return {
        "tagger": msgspec.to_builtins(bench.tagger.record),
        "left out": bench.texts.left_out,
        "detection": detection,
        "tuning": tuning(bench),
        "rows": rows,
        "oracle": {b: oracle(bench, b) for b in FILES},
        "favoured": {w.favour: {b: favoured(bench, w, b) for b in FILES} for w in FAVOURED},
        "causes": {name: {b: causes(bench, name, b) for b in FILES} for name in ROWS},
        "gold spans": {b: on_gold_spans(bench, b) for b in FILES},
        "calibration": calibration(bench),
        "open world": {
            f"{share:g}": {b: open_world(bench, share, b) for b in FILES}
            for share in (0.0, *bench.plan.removed)
        },
    }


# ---- detection ---------------------------------------------------------------
def detection_scores(bench: Bench) -> Told:
    """Precision, recall and F1 of spans, by set and detector."""
    laboratory = bench.laboratory
    root = laboratory.root
    sets = {
        **{f"{name}, held out": as_linked(texts) for name, texts in bench.texts.held_out.items()},
        **{name: as_linked(read_marked(root / file)) for name, file in TESTED.items()},
    }
    scores: Told = {}
    for name, gold in sets.items():
        found = _detected(bench, [text.text for text in gold])
        wanted = [_spans(text) for text in gold]
        scores[name] = {d: _span_scores(wanted, spans, wanted) for d, spans in found.items()}
    for name in FILES:
        labelled = laboratory.labelled(name)
        found = _detected(bench, [text.text for text in labelled])
        needed = [
            {k.span for k in t.labels if not k.is_optional and k.parent is None} for t in labelled
        ]
        known = [{k.span for k in t.labels} for t in labelled]
        scores[name] = {d: _span_scores(needed, spans, known) for d, spans in found.items()}
    return scores


Spans = set[tuple[int, int]]


def _detected(bench: Bench, texts: Sequence[str]) -> dict[str, list[Spans]]:
    names, gates = bench.laboratory.names, bench.laboratory.gates
    linked = bench.linked(BEST.removesuffix(", pronouns"), [LinkedText(t, ()) for t in texts])
    return {
        "names": [_spans(text) for text in NameLinker(names).link(texts)],
        "names, gates": [_spans(text) for text in NameLinker(names, gates).link(texts)],
        "tagger": [{(s.start, s.end) for s in t.spans} for t in bench.tagger.tag(texts)],
        "both, by the links' confidence": [_spans(text) for text in linked],
    }


def _spans(text: LinkedText) -> Spans:
    return {(link.mention.start, link.mention.end) for link in text.links}


def _span_scores(gold: list[Spans], found: list[Spans], known: list[Spans]) -> Told:
    """`known` spans that are not `gold` are no errors (optional and nested labels)."""
    right = sum(len(g & f) for g, f in zip(gold, found, strict=True))
    n_found = sum(len(f - (k - g)) for g, f, k in zip(gold, found, known, strict=True))
    n_gold = sum(map(len, gold))
    return {
        "precision": right / max(n_found, 1),
        "recall": right / max(n_gold, 1),
        "F1": 2 * right / max(n_found + n_gold, 1),
    }


# ---- end to end ----------------------------------------------------------------
def elevant_scores(bench: Bench, row: str, name: str) -> Told:
    """ELEVANT's required and ignored modes, and GERBIL's in-KB F1, with intervals."""
    gold = bench.laboratory.labelled(name)
    texts = bench.laboratory.gold(name)
    ours = bench.linked(row, texts)
    in_kb = score_links(texts, without_refused(ours), known=None)
    return {
        "required": counted(bench, gold, ours, "required"),
        "required, links alone": counted(bench, gold, without_refused(ours), "required"),
        "ignored": counted(bench, gold, ours, "ignored"),
        "in-KB": in_kb.f1,
    }


def counted(
    bench: Bench, gold: Sequence[LabelledText], ours: Sequence[LinkedText], mode: Mode
) -> Told:
    """Precision, recall and F1 with its interval over texts."""
    counts: NDArray[np.float64] = count_elevant(gold, ours, mode=mode).astype(np.float64)
    n_gold, n_found, n_right = counts.sum(axis=0).tolist()
    study = bench.laboratory.study
    between = ratio_interval(
        2 * counts[:, 2], counts[:, 0] + counts[:, 1],
        generator=generator(study.seed, "link scores"), n_resamples=study.n_resamples,
    )  # fmt: skip
    return {
        "precision": n_right / max(n_found, 1),
        "recall": n_right / max(n_gold, 1),
        **msgspec.to_builtins(between),
    }


def oracle(bench: Bench, name: str) -> Told:
    """The best row's choice where every required span is given, nothing refused but NIL."""
    gold = bench.laboratory.labelled(name)
    row, decision, _ = bench.chosen(BEST)
    given = [
        LinkedText(
            text.text,
            bench_links({k.span for k in text.labels if not k.is_optional}),
            text.id,
        )
        for text in gold
    ]
    ours = bench.linker(row, replace(decision, nil_below=0.0)).disambiguate(given)
    return counted(bench, gold, ours, "required")


def bench_links(spans: Spans) -> tuple[Any, ...]:
    """Bare links at spans, in order."""
    from entity_linking.annotations import gold_link

    return tuple(gold_link(start, end, None) for start, end in sorted(spans))


def favoured(bench: Bench, wish: Wish, name: str) -> Told:
    """Precision, recall and F1 of the links alone where the threshold favours one of them."""
    row, _, _ = bench.chosen(BEST)
    fitted = bench.fitted(row)
    start = Decision(nil_score=0.0) if row.scorer == TRAINED else Decision()
    decision = fit(fitted.seen, start, steps=EVERY_STEP, n_missed=fitted.n_missed, wish=wish)
    texts = bench.laboratory.gold(name)
    linked = bench.linker(row, decision).link([text.text for text in texts])
    ours = [replace(each, id=text.id) for each, text in zip(linked, texts, strict=True)]
    gold = bench.laboratory.labelled(name)
    return counted(bench, gold, without_refused(ours), "ignored")


def causes(bench: Bench, row: str, name: str) -> Told:
    """What goes wrong, each error once."""
    gold = bench.laboratory.gold(name)
    return dict(link_causes(gold, bench.linked(row, gold)))


def tuning(bench: Bench) -> Told:
    """Cross-validated F1 on the tuning text, the decision, and whether the row falls back."""
    told: Told = {}
    for name, row in ROWS.items():
        fitted, (_, decision, falls_back) = bench.fitted(row), bench.chosen(name)
        told[name] = {
            "F1": fitted.f1,
            "answers": len(fitted.seen),
            "falls back": falls_back,
            "NIL below": decision.nil_below,
            "NIL from": decision.nil_from,
        }
    return told


# ---- gold spans, calibration, open world -----------------------------------------
def on_gold_spans(bench: Bench, name: str) -> Told:
    """Accuracy where nothing is refused, by names + prior and by the re-ranker."""
    gold = bench.laboratory.gold(name)
    told: Told = {}
    for label, scorer in (("names + prior", "names + prior"), ("trained", TRAINED)):
        linker = bench.linker(Row("gates", scorer, says_nil=False), Decision())
        ours = forced(linker.disambiguate(gold))
        pairs = [
            (right.entity, answer.entity)
            for expected, answered in zip(gold, ours, strict=True)
            for right, answer in zip(expected.links, answered.links, strict=True)
            if right.entity is not None
        ]
        told[label] = sum(a == b for a, b in pairs) / len(pairs)
    candidates = bench.source.candidates(gold)
    places = [
        any(c.entity == link.entity for c in own[:30])
        for text, proposals in zip(gold, candidates, strict=True)
        for link, own in zip(text.links, proposals, strict=True)
        if link.entity is not None
    ]
    told["recall@30 of names"] = sum(places) / len(places)
    return told


def calibration(bench: Bench) -> Told:
    """How far the confidence of links keeps its promise where benchmarks are marked in full."""
    told: Told = {}
    for row in ROWS:
        sure: list[float] = []
        right: list[bool] = []
        for name in FILES:
            if name == "rss-500":
                continue
            gold = bench.laboratory.gold(name)
            for expected, ours in zip(gold, bench.linked(row, gold), strict=True):
                meant = {(k.mention, k.entity) for k in expected.links}
                links = [k for k in ours.links if k.entity is not None]
                sure += [k.confidence for k in links]
                right += [(k.mention, k.entity) in meant for k in links]
        score = calibration_score(np.array(sure), np.array(right, np.bool_))
        told[row] = {"links": len(sure), **msgspec.to_builtins(score)}
    return told


class _Without:
    """A `CandidateSource` that does not know some entities."""

    def __init__(self, source: Any, removed: frozenset[str]) -> None:
        self._source, self._removed = source, removed

    def candidates(self, texts: Sequence[LinkedText]) -> Any:
        """As `CandidateSource`."""
        return [
            [tuple(c for c in own if c.entity not in self._removed) for own in proposals]
            for proposals in self._source.candidates(texts)
        ]


def open_world(bench: Bench, share: float, name: str) -> Told:
    """The best row where a share of the gold entities is not in the graph, so NIL in gold too."""
    row, decision, _ = bench.chosen(BEST)
    seed = bench.laboratory.study.seed
    entities = {k.entity for t in bench.laboratory.gold(name) for k in t.links if k.entity}
    removed = frozenset(e for e in entities if drawn(seed, f"removed {e}") < share)
    labelled = [
        replace(
            text,
            labels=tuple(
                replace(k, entity=None) if k.entity in removed else k for k in text.labels
            ),
        )
        for text in bench.laboratory.labelled(name)
    ]
    gates = NameLinker(bench.laboratory.names, Gates())
    pipeline = Pipeline(gates, _Without(bench.source, removed), bench.scorer(row.scorer), decision)
    linker = bench.linker(row, decision).over(pipeline)
    linked = linker.link([text.text for text in labelled])
    ours = [replace(each, id=text.id) for each, text in zip(linked, labelled, strict=True)]
    said = wrong = right = n_nil = 0
    for text, answered in zip(labelled, ours, strict=True):
        meant = {k.span: k.entity for k in text.labels if not k.is_optional}
        n_nil += sum(entity is None for entity in meant.values())
        for link in answered.links:
            if link.entity is not None:
                continue
            place = link.mention.start, link.mention.end
            said += 1
            right += place in meant and meant[place] is None
            wrong += meant.get(place) is not None
    return {
        "required": counted(bench, labelled, ours, "required"),
        "links alone": counted(bench, labelled, without_refused(ours), "ignored"),
        "NIL precision": right / max(said, 1),
        "NIL recall": right / max(n_nil, 1),
        "NIL of an entity": wrong,
        "removed": len(removed),
    }
