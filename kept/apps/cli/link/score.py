"""`kept link score`: compare links with gold links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kept.apps.cli.declared import argument, option, switch, takes
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_SEED
from kept.help_texts import SEED
from kg_loaders.counting import counted

if TYPE_CHECKING:
    from entity_linking.mentions import LinkedText
    from entity_linking.scoring import SpanScore
    from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """What the command is given; a field is an option."""

    gold: Path = argument("JSON lines with gold links.")
    predicted: Path = argument(
        "JSON lines with the links to score, for the same texts in the same order.", metavar="PRED"
    )
    kg: Path | None = option(
        "Folder of the knowledge graph. Gold entities that are not in it count as NIL."
    )
    elevant: bool = switch("GOLD has articles in the form of ELEVANT; also print scores by type.")
    gold_spans: bool = switch(
        "Score only links whose mention is a gold mention, as is usual for RSS-500."
    )
    seed: int = option(SEED, default=0, bounds=(0, MAX_SEED))
    as_json: bool = switch("Print JSON.", "--json")


@takes(ScoreOptions)
def score(options: ScoreOptions) -> None:
    """Score links by GERBIL's conventions: precision, recall, F1, accuracy, candidates, NIL.

    Example: kept link score gold.jsonl links.jsonl --kg kg/
    """
    from entity_linking.annotations import read_jsonl
    from entity_linking.mentions import n_cut_links
    from entity_linking.scoring import binned, outcomes, popularity_bins, report
    from kg_loaders import KnowledgeGraph
    from kg_loaders.damage import DamageReport

    right, types = _gold(options.gold, options.elevant)
    predictions = list(read_jsonl(options.predicted, DamageReport()))
    if _are_of_a_linker(right) and not _are_of_a_linker(predictions):
        echo(
            f"{options.gold} has candidates with reasons, as kept link writes them, and "
            f"{options.predicted} has none: are the two interchanged? The file with the right "
            "links comes first",
            fg="yellow",
            err=True,
        )
    graph = None if options.kg is None else KnowledgeGraph.open(options.kg)
    known = None if graph is None else graph.entities
    judged = outcomes(right, predictions, known=known)
    bins: dict[str, dict[str, SpanScore]] = {}
    if types is not None:
        by_type = binned(judged, types)
        bins["type"] = dict(sorted(by_type.items(), key=lambda item: (-item[1].n_gold, item[0])))
    if graph is not None:
        bins["degree in the graph"] = popularity_bins(judged, _degrees(graph))
    scores = report(
        right,
        predictions,
        known=known,
        gold_spans_only=options.gold_spans,
        bins=bins,
        seed=options.seed,
    )
    if options.as_json:
        echo(scores.to_json())
        return
    if n_cut := n_cut_links(predictions):
        echo(
            f"{counted(n_cut, 'links')} of {options.predicted} had fewer candidates than the "
            "linker had, so recall among candidates is a lower bound; link with --candidates all",
            fg="yellow",
            err=True,
        )
    marked = ", only links on gold mentions are judged" if options.gold_spans else ""
    echo(f"{counted(scores.n_texts, 'texts')}{marked}\n\n{scores.to_markdown()}", nl=False)


def _are_of_a_linker(texts: Sequence[LinkedText]) -> bool:
    """Whether some candidate has a reason, which kept link writes and annotations do not have."""
    return any(each.reason for text in texts for link in text.links for each in link.candidates)


def _gold(path: Path, elevant: bool) -> tuple[list[LinkedText], list[tuple[str, ...]] | None]:
    from entity_linking.annotations import read_elevant_typed, read_jsonl
    from kg_loaders.damage import DamageReport

    if not elevant:
        return list(read_jsonl(path, DamageReport())), None
    typed = list(read_elevant_typed(path, DamageReport()))
    return [each.linked for each in typed], [types for each in typed for types in each.types]


def _degrees(graph: KnowledgeGraph) -> Callable[[str], int]:
    def degree(name: str) -> int:
        entity = graph.entities.find(name)
        if entity is None:
            return 0
        return len(graph.outgoing(entity)) + len(graph.incoming(entity))

    return degree
