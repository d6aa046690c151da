"""Links as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from entity_linking.explain import Explanation, explain
from entity_linking.mentions import Link, LinkedText
from entity_linking.parts import Disambiguator
from kept.apps.cli.console import TerminalConsole
from kg_loaders import KnowledgeGraph

COLUMNS = ("line", "start", "end", "mention", "entity", "label", "confidence")


def print_links(
    texts: Sequence[LinkedText], graph: KnowledgeGraph, explained_by: Disambiguator | None = None
) -> int:
    """Print every link, with `explained_by` its reason and runner-up too; return their number."""
    if explained_by is not None:
        _print_explained(texts, graph, explain(explained_by, texts))
    elif any(text.links for text in texts):
        table = Table(box=None, pad_edge=False)
        for name in COLUMNS:
            table.add_column(name, overflow="fold")
        for text in texts:
            for link in text.links:
                table.add_row(*_row(text, link, graph))
        TerminalConsole().print(table)
    return sum(len(text.links) for text in texts)


def _print_explained(
    texts: Sequence[LinkedText],
    graph: KnowledgeGraph,
    explanations: list[list[tuple[Explanation, ...]]],
) -> None:
    """Print three lines per link: the choice, the reason, the runner-up."""
    console = TerminalConsole(soft_wrap=True)
    for text, of_text in zip(texts, explanations, strict=True):
        for link, reasons in zip(text.links, of_text, strict=True):
            line, start, end, surface, entity, label, confidence = _row(text, link, graph)
            runner_up, sure, why = _explained(link, reasons, graph)
            chosen = " ".join(filter(None, (entity, label)))
            bold = (surface, "bold")
            console.print(
                Text.assemble(f"{line}:{start}-{end}  ", bold, f"  {chosen}  {confidence}")
            )
            console.print(f"    why: {why}")
            if runner_up:
                console.print(f"    runner-up: {runner_up}  {sure}")


def _row(text: LinkedText, link: Link, graph: KnowledgeGraph) -> tuple[str, ...]:
    start, end = link.mention.start, link.mention.end
    label = "" if link.entity is None else _label(graph, link.entity)
    cells = (text.id or "1", str(start), str(end), text.text[start:end])
    sure = f"{link.confidence:.3f}" + (" ambiguous" if link.is_ambiguous else "")
    return (*cells, link.entity or "NIL", label, sure)


def ambiguity(texts: Sequence[LinkedText], graph: KnowledgeGraph) -> str | None:
    """Return a sentence about the links for which another entity is as likely; None for none."""
    links = [(text, link) for text in texts for link in text.links if link.is_ambiguous]
    if not links:
        return None
    text, first = links[0]
    other = first.equals[0]
    return (
        f"{len(links)} ambiguous: two entities are equally likely, for instance for "
        f"{text.text[first.start : first.end]!r} {other} ({_label(graph, other)}) and "
        f"{first.entity}; to decide by context, use --method mix or a re-ranker of `kept "
        f"link train`"
    )


def _explained(
    link: Link, reasons: tuple[Explanation, ...], graph: KnowledgeGraph
) -> tuple[str, str, str]:
    """Runner-up, its confidence and why; the runner-up of NIL is the best candidate."""
    others = [each for each in reasons if each.candidate.entity != link.entity]
    if link.entity is None:
        why = "no candidate" if not reasons else f"no candidate is sure enough; {_why(reasons[0])}"
    else:
        why = _why(next(each for each in reasons if each.candidate.entity == link.entity))
    if not others:
        return "", "", why
    runner_up = others[0].candidate.entity
    row = graph.entities.find(runner_up)
    about = None if row is None else graph.description(row)
    named = f"{runner_up} {_label(graph, runner_up)}" + (f", {about}" if about else "")
    return named, f"{others[0].confidence:.3f}", why


def _why(explanation: Explanation) -> str:
    parts = ", ".join(f"{name} {value:+.2f}" for name, value in explanation.parts.items())
    return "; ".join(filter(None, (explanation.reason, parts)))


def _label(graph: KnowledgeGraph, entity: str) -> str:
    """An entity that a shared index knows may be in another graph."""
    row = graph.entities.find(entity)
    return "" if row is None else graph.label(row)
