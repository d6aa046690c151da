"""What still goes wrong, counted by cause: each error has exactly one, the first that applies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.scoring import Outcome, outcomes
from entity_linking.surfaces import normalise
from kg_loaders import KnowledgeGraph

SPAN_CAUSES = (
    "no candidate, and no word in common with any name of the entity",
    "no candidate, though a word is in common",
    "other candidates, no word in common with any name of the entity",
    "other candidates, though a word is in common",
    "ranked below the candidates that are kept",
    "a namesake was chosen (one label)",
    "a neighbour in the graph was chosen",
    "the graph knows nothing of the entity but its names",
    "outranked by an entity with another name",
)
LINK_CAUSES = (
    "missed: no link touches the mention",
    "missed: refused as NIL",
    "missed: linked with another span",
    "right span, wrong entity",
    "spurious: linked where gold says NIL",
    "spurious: no gold mention there",
)


def span_causes(
    gold: Sequence[LinkedText],
    predicted: Sequence[LinkedText],
    graph: KnowledgeGraph,
    pools: Sequence[LinkedText],
) -> Counter[str]:
    """Of wrong choices on gold spans; `pools` bear all candidates before the best were kept."""
    causes: Counter[str] = Counter()
    judged = outcomes(gold, predicted, known=graph.entities)
    proposed = iter([link for text in pools for link in text.links])
    for outcome in judged:
        pool = next(proposed)
        if outcome.gold is not None and not outcome.is_correct:
            surface = gold[outcome.text].text[outcome.mention.start : outcome.mention.end]
            causes[SPAN_CAUSES[_span_cause(outcome, surface, pool, graph)]] += 1
    return causes


def _span_cause(outcome: Outcome, surface: str, pool: Link, graph: KnowledgeGraph) -> int:
    if outcome.gold is None or outcome.gold not in graph.entities:
        raise ValueError(f"{outcome.gold} is not in the graph: the graph is made to hold all gold")
    entity = graph.entities.id(outcome.gold)
    if all(candidate.entity != outcome.gold for candidate in pool.candidates):
        names = [graph.label(entity), *(alias for alias, _ in graph.aliases(entity))]
        shares = any(_words(surface) & _words(name) for name in names)
        return (2 if pool.candidates else 0) + shares
    if outcome.rank is None:
        return 4
    if outcome.answer is None:
        return 8
    chosen = graph.entities.id(outcome.answer)
    if _words(graph.label(chosen)) == _words(graph.label(entity)):
        return 5
    if chosen in graph.outgoing(entity)[:, 2] or chosen in graph.incoming(entity)[:, 0]:
        return 6
    knows = len(graph.outgoing(entity)) + len(graph.incoming(entity))
    return 8 if knows or graph.description(entity) else 7


def link_causes(gold: Sequence[LinkedText], predicted: Sequence[LinkedText]) -> Counter[str]:
    """Of gold links that were not found and of links that are not gold; overlaps may be nested."""
    causes: Counter[str] = Counter()
    for right, answered in zip(gold, predicted, strict=True):
        answers = {link.mention: link for link in answered.links}
        for link in right.links:
            if link.entity is not None:
                cause = _miss(link, answers, answered.links)
                if cause is not None:
                    causes[LINK_CAUSES[cause]] += 1
        marked = {link.mention: link for link in right.links}
        for link in answered.links:
            if link.entity is None:
                continue
            known = marked.get(link.mention)
            if known is not None and known.entity is None:
                causes[LINK_CAUSES[4]] += 1
            elif known is None and not any(_touch(link.mention, m) for m in marked):
                causes[LINK_CAUSES[5]] += 1
    return causes


def _miss(link: Link, answers: dict[Mention, Link], links: Sequence[Link]) -> int | None:
    answer = answers.get(link.mention)
    if answer is not None and answer.entity is not None:
        return None if answer.entity == link.entity else 3
    if answer is not None:
        return 1
    touching = [other for other in links if _touch(other.mention, link.mention)]
    return 2 if any(other.entity is not None for other in touching) else (1 if touching else 0)


def _touch(a: Mention, b: Mention) -> bool:
    return a.start < b.end and b.start < a.end


def _words(text: str) -> frozenset[str]:
    form = normalise(text, fold=True)[0]
    return frozenset("".join(c if c.isalnum() else " " for c in form).split())
