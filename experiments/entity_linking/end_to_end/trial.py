"""`python -m experiments entity_linking/end_to_end CONFIG -o RUN`: link running text.

Needs KEPT_DATA. RUN receives end_to_end.json and end_to_end.md; what was made stays there for the
next call. RUN may be that of `experiments.entity_linking`, whose graph and names are taken.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from entity_linking.annotations import gold_link
from entity_linking.calibration.acceptance import FAVOURS, Favour
from entity_linking.decision import Decision
from entity_linking.detection import EndToEnd
from entity_linking.mentions import LinkedText
from entity_linking.names import Gates, NameLinker
from entity_linking.pipeline import Pipeline
from entity_linking.scoring import score_links
from experiments.command import data_root, run_study
from experiments.entity_linking.causes import link_causes
from experiments.entity_linking.config import LinkingStudy
from experiments.entity_linking.end_to_end.crowded import among_namesakes
from experiments.entity_linking.end_to_end.memo import OnceScorer
from experiments.entity_linking.end_to_end.parts import (
    ENCODER,
    PRIOR,
    RERANKERS,
    TRAINED,
    EndToEndStudy,
    world_file,
)
from experiments.entity_linking.end_to_end.rows import (
    BEST,
    ROWS,
    EndToEndTrial,
    Row,
    disambiguate_excerpts,
    link_excerpts,
)
from experiments.entity_linking.end_to_end.speed import sentences_a_second
from experiments.entity_linking.end_to_end.tables import to_markdown
from experiments.entity_linking.end_to_end.tagging import TESTED
from experiments.entity_linking.inputs.benchmarks import FILES
from experiments.entity_linking.inputs.texts import uniform_value
from experiments.entity_linking.linkers import without_refused
from experiments.entity_linking.scores import Results
from experiments.entity_linking.spans import as_linked, read_names
from experiments.entity_linking.stages import LinkingStages
from experiments.entity_linking.trial import timed
from kept.lab.study.store import stored_once

SEEDS = (0, 1, 2)
TRIED = (TRAINED, ENCODER)


def score_all(trial: EndToEndTrial, only: Sequence[str] = ()) -> Results:
    """Everything the tables say, by part: a part a benchmark (`parts_of`), kept in the run folder.

    With `only` no other parts are made, and what is not there is left out.
    """
    parts: dict[str, Callable[[], Any]] = {
        "tuning": lambda: tuning(trial),
        "detection": lambda: detection_scores(trial),
        **{name: partial(of_benchmark, trial, name) for name in FILES},
        **{f"{name}, best": partial(of_best, trial, name) for name in FILES},
        "seeds": lambda: over_seeds(trial),
        "speed": lambda: sentences_a_second(trial),
        "namesakes": lambda: among_namesakes(trial),
    }
    results: Results = {"tagger": msgspec.to_builtins(trial.tagger.record)}
    for name, make in parts.items():
        path = trial.folder / "parts" / f"{name.replace(', ', '-')}.json"
        if path.exists() or not only or name in only:
            results[name] = stored_once(path, Results, partial(_announced, trial, name, make))
    return results


def _announced(trial: EndToEndTrial, name: str, make: Callable[[], Results]) -> Results:
    trial.stages.announce(name)
    part = make()
    trial.stages.announce(f"{name}, done")
    return part


def of_benchmark(trial: EndToEndTrial, name: str) -> Results:
    """Return the scores on one benchmark with all its entities in the graph."""
    return {
        "rows": {row: elevant_scores(trial, row, name) for row in ROWS},
        "detection": detection_on(trial, name),
        "causes": {row: causes(trial, row, name) for row in ROWS},
        "gold spans": on_gold_spans(trial, name),
        "confidences": {row: confidences(trial, row, name) for row in ROWS},
    }


def of_best(trial: EndToEndTrial, name: str) -> Results:
    """The best row: given spans, other thresholds, growing shares of entities taken out."""
    return {
        "oracle": oracle(trial, name),
        "favoured": {favour: favoured(trial, favour, name) for favour in FAVOURS},
        "open world": {
            f"{share:g}": open_world(trial, share, name) for share in (0.0, *trial.plan.removed)
        },
    }


# ---- detection ---------------------------------------------------------------
def detection_scores(trial: EndToEndTrial) -> Results:
    """Precision, recall and F1 of spans, by set and detector."""
    stages = trial.stages
    root = stages.root
    sets = {
        **{f"{name}, held out": as_linked(texts) for name, texts in trial.texts.held_out.items()},
        **{name: read_names(root / file) for name, file in TESTED.items()},
    }
    scores: Results = {}
    for name, gold in sets.items():
        right = [_spans(text) for text in gold]
        detected = _detected(trial, [text.text for text in gold]).items()
        scores[name] = {detector: _span_scores(right, spans, right) for detector, spans in detected}
    return scores


def detection_on(trial: EndToEndTrial, name: str) -> Results:
    """The same on a benchmark: labels that must be found; optional and nested ones do no harm."""
    labelled = trial.stages.labelled(name)
    detected = _detected(trial, [text.text for text in labelled]).items()
    needed = [
        {k.span for k in t.labels if not k.is_optional and k.parent is None} for t in labelled
    ]
    known = [{k.span for k in t.labels} for t in labelled]
    return {detector: _span_scores(needed, spans, known) for detector, spans in detected}


Spans = set[tuple[int, int]]


def _detected(trial: EndToEndTrial, texts: Sequence[str]) -> dict[str, list[Spans]]:
    names, gates = trial.stages.names, trial.stages.gates
    row, decision, _ = trial.chosen("trained, tagger, likeliest")
    linked = trial.linker(row, decision).link(texts)
    return {
        "names": [_spans(text) for text in NameLinker(names).link(texts)],
        "names, gates": [_spans(text) for text in NameLinker(names, gates).link(texts)],
        "tagger": [{(s.start, s.end) for s in t.spans} for t in trial.tagger.tag(texts)],
        "both, by the links' confidence": [_spans(text) for text in linked],
    }


def _spans(text: LinkedText) -> Spans:
    return {(link.mention.start, link.mention.end) for link in text.links}


def _span_scores(gold: list[Spans], ours: list[Spans], known: list[Spans]) -> Results:
    """`known` spans that are not `gold` are no errors (optional and nested labels)."""
    right = sum(len(g & o) for g, o in zip(gold, ours, strict=True))
    n_ours = sum(len(o - (k - g)) for g, o, k in zip(gold, ours, known, strict=True))
    n_gold = sum(map(len, gold))
    return {
        "precision": right / max(n_ours, 1),
        "recall": right / max(n_gold, 1),
        "F1": 2 * right / max(n_ours + n_gold, 1),
    }


# ---- end to end ----------------------------------------------------------------
def elevant_scores(trial: EndToEndTrial, row: str, name: str) -> Results:
    """ELEVANT's required and ignored modes, and GERBIL's in-KB F1, with intervals."""
    gold = trial.stages.labelled(name)
    texts = trial.stages.gold(name)
    ours = trial.linked(row, name)
    in_kb = score_links(texts, without_refused(ours), known=None)
    return {
        "required": trial.scores(gold, ours, "required"),
        "required, links alone": trial.scores(gold, without_refused(ours), "required"),
        "ignored": trial.scores(gold, ours, "ignored"),
        "in-KB": in_kb.f1,
    }


def best_linker(trial: EndToEndTrial, name: str, **changed: Any) -> EndToEnd:
    """The best row's linker on a benchmark, its decision changed."""
    row, decision, _ = trial.chosen(BEST)
    scorer, pronouns = row.on(name)
    return trial.linker(scorer, replace(decision, **changed), pronouns=pronouns)


def oracle(trial: EndToEndTrial, name: str) -> Results:
    """The best row's choice where every required span is given, nothing refused but NIL."""
    gold = trial.stages.labelled(name)
    linker = best_linker(trial, name, nil_below=0.0)
    inputs = []
    for text in gold:
        spans = sorted({k.span for k in text.labels if not k.is_optional})
        links = tuple(gold_link(start, end, None) for start, end in spans)
        inputs.append(LinkedText(text.text, links, text.id))
    ours = disambiguate_excerpts(linker, trial.stages.articles[name], inputs)
    return trial.scores(gold, ours, "required")


def favoured(trial: EndToEndTrial, favour: Favour, name: str) -> Results:
    """Precision, recall and F1 of the links alone where a fitted threshold favours one of them."""
    row = replace(trial.chosen(BEST)[0], is_fitted=True)
    decision = trial.fitted(row).decisions[favour]
    scorer, pronouns = row.on(name)
    linker = trial.linker(scorer, decision, pronouns=pronouns)
    ours = link_excerpts(linker, trial.stages.articles[name])
    gold = trial.stages.labelled(name)
    return trial.scores(gold, without_refused(ours), "ignored")


def causes(trial: EndToEndTrial, row: str, name: str) -> Results:
    """What goes wrong, each error once."""
    gold = trial.stages.gold(name)
    return dict(link_causes(gold, trial.linked(row, name)))


def tuning(trial: EndToEndTrial) -> Results:
    """Cross-validated F1 on the tuning text, the decision, and whether the row falls back."""
    decisions: Results = {}
    for name, row in ROWS.items():
        fitted, (_, decision, falls_back) = trial.fitted(row), trial.chosen(name)
        decisions[name] = {
            "F1": fitted.f1,
            "answers": fitted.n_answers,
            "falls back": falls_back,
            "NIL below": decision.nil_below,
            "NIL from": decision.nil_from,
        }
    return decisions


# ---- gold spans, calibration, open world -----------------------------------------
def on_gold_spans(trial: EndToEndTrial, name: str) -> Results:
    """Accuracy and recall@30 where nothing is refused, by names + prior and by the re-ranker."""
    gold = trial.stages.gold(name)
    shares: Results = {}
    rows = {"names + prior": Row("both", PRIOR, says_nil=False)}
    rows |= {scorer: Row("both", scorer, says_nil=False) for scorer in RERANKERS}
    for scorer in RERANKERS:
        rows[f"{scorer}, pronouns"] = replace(rows[scorer], pronouns="where marked")
    for label, row in rows.items():
        row_scorer, pronouns = row.on(name)
        linker = trial.linker(row_scorer, Decision(), pronouns=pronouns)
        articles = trial.stages.articles[name]
        ours = disambiguate_excerpts(linker, articles, gold)
        pairs = [
            (right.entity, [c.entity for c in answer.candidates[:30]])
            for expected, answered in zip(gold, ours, strict=True)
            for right, answer in zip(expected.links, answered.links, strict=True)
            if right.entity is not None
        ]
        shares[label] = sum(a in b[:1] for a, b in pairs) / len(pairs)
        shares[f"{label}, recall@30"] = sum(a in b for a, b in pairs) / len(pairs)
    return shares


def confidences(trial: EndToEndTrial, row: str, name: str) -> list[tuple[float, bool, bool]]:
    """How sure each link of the row is, whether it is right, and whether gold marks its mention."""
    gold = trial.stages.gold(name)
    confidences = []
    for expected, ours in zip(gold, trial.linked(row, name), strict=True):
        gold_entities = {k.mention: k.entity for k in expected.links}
        for k in ours.links:
            if k.entity is not None:
                is_right = gold_entities.get(k.mention) == k.entity
                confidences.append((round(k.confidence, 4), is_right, k.mention in gold_entities))
    return confidences


class _Without:
    """A `CandidateSource` that does not know some entities."""

    def __init__(self, source: Any, removed: frozenset[str]) -> None:
        self._source, self._removed = source, removed

    def candidates(self, texts: Sequence[LinkedText]) -> Any:
        """As `CandidateSource`."""
        return [
            [
                tuple(c for c in of_mention if c.entity not in self._removed)
                for of_mention in proposals
            ]
            for proposals in self._source.candidates(texts)
        ]


def open_world(trial: EndToEndTrial, share: float, name: str) -> Results:
    """The best row where a share of the gold entities is not in the graph, so NIL in gold too."""
    row, decision, _ = trial.chosen(BEST)
    seed = trial.stages.study.seed
    entities = {k.entity for t in trial.stages.gold(name) for k in t.links if k.entity}
    removed = frozenset(e for e in entities if uniform_value(seed, f"removed {e}") < share)
    labelled = [
        replace(
            text,
            labels=tuple(
                replace(k, entity=None) if k.entity in removed else k for k in text.labels
            ),
        )
        for text in trial.stages.labelled(name)
    ]
    gates = NameLinker(trial.stages.names, Gates())
    pipeline = Pipeline(gates, _Without(trial.source, removed), trial.scorer(row.scorer), decision)
    linker = best_linker(trial, name).over(pipeline)
    ours = link_excerpts(linker, trial.stages.articles[name])
    n_answered = wrong = right = n_nil = 0
    for text, answered in zip(labelled, ours, strict=True):
        gold = {k.span: k.entity for k in text.labels if not k.is_optional}
        n_nil += sum(entity is None for entity in gold.values())
        for link in answered.links:
            if link.entity is not None:
                continue
            span = link.start, link.end
            n_answered += 1
            right += span in gold and gold[span] is None
            wrong += gold.get(span) is not None
    return {
        "required": trial.scores(labelled, ours, "required"),
        "links alone": trial.scores(labelled, without_refused(ours), "ignored"),
        "NIL precision": right / max(n_answered, 1),
        "NIL recall": right / max(n_nil, 1),
        "NIL of an entity": wrong,
        "removed": len(removed),
    }


# ---- other seeds -----------------------------------------------------------
def over_seeds(trial: EndToEndTrial) -> Results:
    """F1 in ELEVANT's required mode, by row and benchmark, one for each seed of its networks.

    Encoder, texts and graph stay; five networks of one seed share none with those of another.
    """
    scores: Results = {}
    for name in TRIED:
        row_name = f"{name}, likeliest, pronouns"
        scores[row_name] = {benchmark: [] for benchmark in FILES}
        _, decision, _ = trial.chosen(row_name)
        for seed in SEEDS:
            seed_name = f"{name}, seed {seed}"
            trial.use(seed_name, OnceScorer(trial.reranker(name, training=False, seed=seed)))
            for benchmark in FILES:
                row, pronouns = replace(ROWS[row_name], scorer=seed_name).on(benchmark)
                linker = trial.linker(row, decision, pronouns=pronouns)
                linked = link_excerpts(linker, trial.stages.articles[benchmark])
                gold = trial.stages.labelled(benchmark)
                f1 = trial.scores(gold, linked, "required")["estimate"]
                scores[row_name][benchmark].append(f1)
    return scores


def run(plan: EndToEndStudy, arguments: argparse.Namespace) -> tuple[str, object] | None:
    """Make what is missing; return the page and every score, None where only parts were wanted."""
    study = LinkingStudy.read(world_file(plan, arguments.config))
    stages = LinkingStages(data_root(), study, arguments.out, timed)
    results = score_all(EndToEndTrial(stages, plan), arguments.only)
    return None if arguments.only else (to_markdown(results, study.published), results)


if __name__ == "__main__":
    only = {"nargs": "*", "default": [], "help": "parts to make; no page then"}
    run_study(__doc__, EndToEndStudy, run, {"--only": only}, name="end_to_end")
