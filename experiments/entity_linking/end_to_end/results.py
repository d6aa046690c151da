"""Scores of every row, as plain data."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from entity_linking.calibration.acceptance import FAVOURS, Favour
from entity_linking.calibration.reliability import calibration_score
from entity_linking.decision import Decision
from entity_linking.detection import EndToEnd
from entity_linking.mentions import LinkedText
from entity_linking.names import Gates, NameLinker
from entity_linking.pipeline import Pipeline
from entity_linking.scoring import score_links
from experiments.entity_linking.causes import link_causes
from experiments.entity_linking.end_to_end.crowded import among_namesakes
from experiments.entity_linking.end_to_end.parts import PRIOR, RERANKERS
from experiments.entity_linking.end_to_end.scores import Results, counted
from experiments.entity_linking.end_to_end.seeds import over_seeds
from experiments.entity_linking.end_to_end.speed import sentences_a_second
from experiments.entity_linking.end_to_end.study import (
    BEST,
    ROWS,
    Bench,
    Row,
    disambiguate_excerpts,
    link_excerpts,
    without_refused,
)
from experiments.entity_linking.end_to_end.tagging import TESTED, as_linked
from experiments.entity_linking.inputs.benchmarks import FILES
from experiments.entity_linking.inputs.texts import drawn
from kept.linking.tagging.marked import read_marked
from kg_loaders.disk.writing import write_text


def score_all(bench: Bench, only: Sequence[str] = ()) -> Results:
    """Everything the tables say, by part: a part a benchmark (`parts_of`), kept in the run folder.

    With `only` no other parts are made, and what is not there is left out.
    """
    parts: dict[str, Callable[[], Any]] = {
        "tuning": lambda: tuning(bench),
        "detection": lambda: detection_scores(bench),
        **{name: partial(of_benchmark, bench, name) for name in FILES},
        **{f"{name}, best": partial(of_best, bench, name) for name in FILES},
        "seeds": lambda: over_seeds(bench),
        "speed": lambda: sentences_a_second(bench),
        "namesakes": lambda: among_namesakes(bench),
    }
    results: Results = {"tagger": msgspec.to_builtins(bench.tagger.record)}
    for name, make in parts.items():
        path = bench.folder / "parts" / f"{name.replace(', ', '-')}.json"
        if not path.exists() and (not only or name in only):
            bench.laboratory.announce(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(make()), force=True)
            bench.laboratory.announce(f"{name}, done")
        if path.exists():
            results[name] = json.loads(path.read_text(encoding="utf-8"))
    return results


def of_benchmark(bench: Bench, name: str) -> Results:
    """All that is asked of one benchmark with all its entities in the graph."""
    return {
        "rows": {row: elevant_scores(bench, row, name) for row in ROWS},
        "detection": detection_on(bench, name),
        "causes": {row: causes(bench, row, name) for row in ROWS},
        "gold spans": on_gold_spans(bench, name),
        "confidences": {row: confidences(bench, row, name) for row in ROWS},
    }


def of_best(bench: Bench, name: str) -> Results:
    """The best row: given spans, other thresholds, growing shares of entities taken out."""
    return {
        "oracle": oracle(bench, name),
        "favoured": {favour: favoured(bench, favour, name) for favour in FAVOURS},
        "open world": {
            f"{share:g}": open_world(bench, share, name) for share in (0.0, *bench.plan.removed)
        },
    }


# ---- detection ---------------------------------------------------------------
def detection_scores(bench: Bench) -> Results:
    """Precision, recall and F1 of spans, by set and detector."""
    laboratory = bench.laboratory
    root = laboratory.root
    sets = {
        **{f"{name}, held out": as_linked(texts) for name, texts in bench.texts.held_out.items()},
        **{name: as_linked(read_marked(root / file)) for name, file in TESTED.items()},
    }
    scores: Results = {}
    for name, gold in sets.items():
        found = _detected(bench, [text.text for text in gold])
        wanted = [_spans(text) for text in gold]
        scores[name] = {d: _span_scores(wanted, spans, wanted) for d, spans in found.items()}
    return scores


def detection_on(bench: Bench, name: str) -> Results:
    """The same on a benchmark: labels that must be found; optional and nested ones do no harm."""
    labelled = bench.laboratory.labelled(name)
    found = _detected(bench, [text.text for text in labelled])
    needed = [
        {k.span for k in t.labels if not k.is_optional and k.parent is None} for t in labelled
    ]
    known = [{k.span for k in t.labels} for t in labelled]
    return {d: _span_scores(needed, spans, known) for d, spans in found.items()}


Spans = set[tuple[int, int]]


def _detected(bench: Bench, texts: Sequence[str]) -> dict[str, list[Spans]]:
    names, gates = bench.laboratory.names, bench.laboratory.gates
    row, decision, _ = bench.chosen("trained, tagger, likeliest")
    linked = bench.linker(row, decision).link(texts)
    return {
        "names": [_spans(text) for text in NameLinker(names).link(texts)],
        "names, gates": [_spans(text) for text in NameLinker(names, gates).link(texts)],
        "tagger": [{(s.start, s.end) for s in t.spans} for t in bench.tagger.tag(texts)],
        "both, by the links' confidence": [_spans(text) for text in linked],
    }


def _spans(text: LinkedText) -> Spans:
    return {(link.mention.start, link.mention.end) for link in text.links}


def _span_scores(gold: list[Spans], found: list[Spans], known: list[Spans]) -> Results:
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
def elevant_scores(bench: Bench, row: str, name: str) -> Results:
    """ELEVANT's required and ignored modes, and GERBIL's in-KB F1, with intervals."""
    gold = bench.laboratory.labelled(name)
    texts = bench.laboratory.gold(name)
    ours = bench.linked(row, name)
    in_kb = score_links(texts, without_refused(ours), known=None)
    return {
        "required": counted(bench, gold, ours, "required"),
        "required, links alone": counted(bench, gold, without_refused(ours), "required"),
        "ignored": counted(bench, gold, ours, "ignored"),
        "in-KB": in_kb.f1,
    }


def best_linker(bench: Bench, name: str, **changed: Any) -> EndToEnd:
    """The best row's linker on a benchmark, its decision changed."""
    row, decision, _ = bench.chosen(BEST)
    own, pronouns = row.on(name)
    return bench.linker(own, replace(decision, **changed), pronouns=pronouns)


def oracle(bench: Bench, name: str) -> Results:
    """The best row's choice where every required span is given, nothing refused but NIL."""
    gold = bench.laboratory.labelled(name)
    linker = best_linker(bench, name, nil_below=0.0)
    given = [
        LinkedText(
            text.text,
            bench_links({k.span for k in text.labels if not k.is_optional}),
            text.id,
        )
        for text in gold
    ]
    ours = disambiguate_excerpts(linker, bench.laboratory.articles[name], given)
    return counted(bench, gold, ours, "required")


def bench_links(spans: Spans) -> tuple[Any, ...]:
    """Bare links at spans, in order."""
    from entity_linking.annotations import gold_link

    return tuple(gold_link(start, end, None) for start, end in sorted(spans))


def favoured(bench: Bench, favour: Favour, name: str) -> Results:
    """Precision, recall and F1 of the links alone where a fitted threshold favours one of them."""
    row = replace(bench.chosen(BEST)[0], is_fitted=True)
    decision = bench.fitted(row).decisions[favour]
    own, pronouns = row.on(name)
    linker = bench.linker(own, decision, pronouns=pronouns)
    ours = link_excerpts(linker, bench.laboratory.articles[name])
    gold = bench.laboratory.labelled(name)
    return counted(bench, gold, without_refused(ours), "ignored")


def causes(bench: Bench, row: str, name: str) -> Results:
    """What goes wrong, each error once."""
    gold = bench.laboratory.gold(name)
    return dict(link_causes(gold, bench.linked(row, name)))


def tuning(bench: Bench) -> Results:
    """Cross-validated F1 on the tuning text, the decision, and whether the row falls back."""
    told: Results = {}
    for name, row in ROWS.items():
        fitted, (_, decision, falls_back) = bench.fitted(row), bench.chosen(name)
        told[name] = {
            "F1": fitted.f1,
            "answers": fitted.n_answers,
            "falls back": falls_back,
            "NIL below": decision.nil_below,
            "NIL from": decision.nil_from,
        }
    return told


# ---- gold spans, calibration, open world -----------------------------------------
def on_gold_spans(bench: Bench, name: str) -> Results:
    """Accuracy and recall@30 where nothing is refused, by names + prior and by the re-ranker."""
    gold = bench.laboratory.gold(name)
    told: Results = {}
    rows = {
        "names + prior": Row("both", PRIOR, says_nil=False),
        **{scorer: Row("both", scorer, says_nil=False) for scorer in RERANKERS},
        **{
            f"{scorer}, pronouns": Row("both", scorer, says_nil=False, pronouns="where marked")
            for scorer in RERANKERS
        },
    }
    for label, row in rows.items():
        own, pronouns = row.on(name)
        linker = bench.linker(own, Decision(), pronouns=pronouns)
        articles = bench.laboratory.articles[name]
        ours = disambiguate_excerpts(linker, articles, gold)
        pairs = [
            (right.entity, [c.entity for c in answer.candidates[:30]])
            for expected, answered in zip(gold, ours, strict=True)
            for right, answer in zip(expected.links, answered.links, strict=True)
            if right.entity is not None
        ]
        told[label] = sum(a in b[:1] for a, b in pairs) / len(pairs)
        told[f"{label}, recall@30"] = sum(a in b for a, b in pairs) / len(pairs)
    return told


def confidences(bench: Bench, row: str, name: str) -> list[tuple[float, bool, bool]]:
    """How sure each link of the row is, whether it is right, and whether gold marks its mention."""
    gold = bench.laboratory.gold(name)
    told = []
    for expected, ours in zip(gold, bench.linked(row, name), strict=True):
        meant = {k.mention: k.entity for k in expected.links}
        for k in ours.links:
            if k.entity is not None:
                is_right = meant.get(k.mention) == k.entity
                told.append((round(k.confidence, 4), is_right, k.mention in meant))
    return told


def calibration(pairs: Sequence[tuple[float, bool]]) -> Results:
    """How far confidence keeps its promise."""
    sure, right = np.array(pairs).T
    score = calibration_score(sure, right.astype(np.bool_))
    return {"links": len(pairs), **msgspec.to_builtins(score)}


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


def open_world(bench: Bench, share: float, name: str) -> Results:
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
    linker = best_linker(bench, name).over(pipeline)
    ours = link_excerpts(linker, bench.laboratory.articles[name])
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
