"""Ten times the distractors: every entity that is proposed gets nine namesakes, bare of facts.

The graph is closed and holds few namesakes; all of Wikidata holds many. Only entities that names
propose for the benchmarks' mentions get theirs, as no other can be proposed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from entity_linking.names import Gates, NameCandidates, NameIndex, NameLinker
from entity_linking.parts import Scorer
from entity_linking.pipeline import Pipeline
from entity_linking.scorers.features import PriorScorer
from entity_linking.scorers.reranker import Reranker
from experiments.entity_linking.end_to_end.memo import OnceSource
from experiments.entity_linking.end_to_end.parts import TRAINED
from experiments.entity_linking.end_to_end.rows import EndToEndTrial, link_excerpts
from experiments.entity_linking.inputs.benchmarks import FILES
from experiments.entity_linking.inputs.graph import read_labels, records
from experiments.entity_linking.linkers import plain_scorers, without_refused
from kg_loaders import KnowledgeGraph, Record, Text, TextKind, graph_from_records

N_NAMESAKES = 9
FIRST_NUMBER = 200_000_000
"""Of the namesakes' identifiers, above all of Wikidata's: what is young is little known."""
ROWS = ("names + prior", "trained, likeliest")


def among_namesakes(trial: EndToEndTrial) -> dict[str, dict[str, Any]]:
    """By row and benchmark the required F1 and that of links alone, without and with namesakes."""
    world = trial.stages.world
    graph = crowded(trial, entities_proposed(trial))
    names = NameIndex.build(graph, counts=world.surfaces)
    source = OnceSource(NameCandidates(names, **trial.stages.study.names))
    scores: dict[str, dict[str, Any]] = {
        "": {"namesakes": graph.n_entities - world.graph.n_entities}
    }
    for row_name in ROWS:
        row, decision, _ = trial.chosen(row_name)
        scorer: Scorer = PriorScorer()
        if row.scorer == TRAINED:
            scorer = Reranker.open(trial.path_of(TRAINED), plain_scorers(graph, world.surfaces))
        pipeline = Pipeline(NameLinker(trial.stages.names, Gates()), source, scorer, decision)
        linker = trial.linker(row, decision)
        scores[row_name] = {}
        for name in FILES:
            gold, articles = trial.stages.labelled(name), trial.stages.articles[name]
            scores[row_name][name] = {
                how: {
                    "required": trial.scores(gold, ours, "required"),
                    "links alone": trial.scores(gold, without_refused(ours), "ignored"),
                }
                for how, ours in (
                    ("as it is", trial.linked(row_name, name)),
                    ("namesakes", link_excerpts(linker.over(pipeline), articles)),
                )
            }
    return scores


def crowded(trial: EndToEndTrial, proposed: frozenset[str]) -> KnowledgeGraph:
    """The graph with `N_NAMESAKES` bare entities of the label of each of `proposed`."""
    root = trial.stages.root
    labels = read_labels(root)

    def everything() -> Iterator[Record]:
        yield from records(root, labels)
        number = FIRST_NUMBER
        for entity in sorted(proposed):
            for _ in range(N_NAMESAKES):
                yield Text(f"Q{number}", TextKind.LABEL, labels[entity][0], "en")
                number += 1

    return graph_from_records(everything())


def entities_proposed(trial: EndToEndTrial) -> frozenset[str]:
    """What names propose for the mentions that are found in the benchmarks."""
    finds, articles = trial.detector("gates"), trial.stages.articles
    texts = [article.text for name in FILES for article in articles[name]]
    detected = [each.linked for each in finds.detect(texts)]
    return frozenset(
        candidate.entity
        for of_text in trial.source.candidates(detected)
        for candidates in of_text
        for candidate in candidates
    )
