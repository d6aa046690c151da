"""Coverage: the share of samples in which a method is shown anything of the graph; the remedy if
none.

What is shown need not be used: the reading controls test that (`kept check reading`). A method that
is shown nothing trains and scores as if without a graph, which must not be reported as
an effect of knowledge. Axis legend: link, text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entity_linking.completing import has_entity
from entity_linking.dictionary import DictionaryLinker
from entity_linking.mentions import Link, LinkedText, Mention, n_cut_links
from kept.errors import NoKnowledgeError
from kept.graphs.builder import Exclusion
from kept.graphs.cuts import Cut
from kept.graphs.naming import n_with_names
from kept.graphs.views.base import View
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted

LOW_SHARE = 0.1
"""Below it a share of samples is called low: a score moves by no more than the share that reads the
graph, and a method that mends every third of a tenth moves it by .033, about the half-width of a
95 % interval over 1,000 answers (.98 / sqrt(1000) = .031)."""
LOOKED_AT = 512
"""Samples that are built to measure coverage, evenly spaced; all of them before it is called 0."""


@dataclass(frozen=True)
class Coverage:
    """Samples, of `n`, of which the graph says anything.

    `with_link`: a link leads to an entity of the graph. `with_fact`: such an entity stands in a
    triple, as head or tail, that the sample does not hide. `with_both_facts`: so do both targets;
    None where there are not two. `read` of `looked_at`: what the method is shown, by its settings,
    holds something of the graph; None where it is shown words alone. `cut`: what of the texts
    is not read; links that were lost with it are no longer counted.
    """

    n: int
    with_link: int
    with_fact: int
    with_both_facts: int | None
    looked_at: int
    read: int | None
    cut: Cut | None = None

    @property
    def shares(self) -> dict[str, float | None]:
        """The counts as shares; None where there is no count, or no sample."""
        shares: dict[str, float | None] = {
            name: None if count is None or not self.n else count / self.n
            for name, count in (
                ("link", self.with_link),
                ("fact", self.with_fact),
                ("both_facts", self.with_both_facts),
            )
        }
        has_read = self.read is not None and self.looked_at
        return shares | {"read": self.read / self.looked_at if has_read else None}  # type: ignore[operator]

    def as_json(self) -> dict[str, Any]:
        """Counts and shares, as metrics files hold them; what was cut, or read in windows."""
        counts = asdict(dataclasses.replace(self, cut=None))
        del counts["cut"]
        if self.cut is not None and self.cut.has_long:
            counts["cut"] = self.cut.as_json()
        return {**counts, "shares": self.shares}

    def __str__(self) -> str:
        line = f"{summary(self.as_json())} of {counted(self.n, 'texts')}"
        return f"{line}; {self.cut}" if self.cut is not None and self.cut.has_long else line


def summary(coverage: dict[str, Any] | None) -> str:
    """Return `Coverage.as_json` in a line; "not recorded" for None, as in runs of 0.1."""
    if coverage is None:
        return "not recorded"
    names = (("link", "link"), ("fact", "fact"), ("both_facts", "both facts"), ("read", "shown"))
    shares = {key: coverage["shares"][name] for name, key in names}
    return ", ".join(f"{key} {share:.1%}" for key, share in shares.items() if share is not None)


def cell(coverage: dict[str, Any] | None) -> str:
    """Return `Coverage.as_json` as a cell: per cent with a link, a fact, both facts, any shown."""
    if coverage is None:
        return "not recorded"
    shares = (coverage["shares"][name] for name in ("link", "fact", "both_facts", "read"))
    return " / ".join("–" if share is None else f"{100 * share:.1f}" for share in shares)


COLUMN = "% of samples with link / fact / both facts / shown"
"""Above `cell`."""


def caution(coverage: dict[str, Any] | None, of: str) -> str | None:
    """Return a warning where the graph is shown in a low share of the samples, else None."""
    share = None if coverage is None else coverage["shares"]["read"]
    if share is None or share >= LOW_SHARE:
        return None
    return (
        f"{of}: the model gets facts or entities of the graph in {share:.1%} of the samples "
        f"({summary(coverage)}); no score can change by more; below {LOW_SHARE:.0%} a "
        f"difference can hardly be distinguished from chance"
    )


def coverage_of(
    texts: Sequence[LinkedText],
    entities: NDArray[np.int64],
    graph: KnowledgeGraph,
    *,
    targets: Sequence[Sequence[Mention]] | None = None,
    exclude: Sequence[Exclusion | None] | None = None,
    is_read: Callable[[int], bool] | None = None,
) -> Coverage:
    """Count over `texts`, whose links lead to `entities [link]` (-1: to none of `graph`).

    `targets`: head and tail of each text. `exclude`: facts that a text never shows. `is_read`:
    whether a text, by its number, brings something of the graph to the method; it is asked for
    `LOOKED_AT` of them, and for all that have a link where none of those does.
    """
    rows = iter(entities.tolist())
    with_link, with_fact, with_both = np.zeros((3, len(texts)), np.bool_)
    degrees = np.diff(graph.out_offsets) + np.diff(graph.in_offsets)
    for i, text in enumerate(texts):
        linked = [(link, entity) for link in text.links if (entity := next(rows)) >= 0]
        hidden = None if exclude is None else exclude[i]
        links_with_fact = [
            link for link, entity in linked if has_fact(graph, entity, degrees, hidden)
        ]
        with_link[i], with_fact[i] = bool(linked), bool(links_with_fact)
        if targets is not None:
            with_both[i] = all(
                any(_touch(k, target) for k in links_with_fact) for target in targets[i]
            )
    n_looked_at, n_read = (0, None) if is_read is None else look(with_link, is_read)
    return Coverage(
        n=len(texts),
        with_link=int(with_link.sum()),
        with_fact=int(with_fact.sum()),
        with_both_facts=None if targets is None else int(with_both.sum()),
        looked_at=n_looked_at,
        read=n_read,
    )


def has_fact(
    graph: KnowledgeGraph, entity: int, degrees: NDArray[np.integer], hidden: Exclusion | None
) -> bool:
    """Whether an entity has a triple that is not hidden; `degrees [entity]` are its triples."""
    hides = hidden is not None and hidden.pairs is not None and bool((hidden.pairs == entity).any())
    if not hides or degrees[entity] > 2 * graph.n_relations:  # a pair has no more triples than that
        return bool(degrees[entity])
    out = np.arange(graph.out_offsets[entity], graph.out_offsets[entity + 1])
    into = graph.in_order[graph.in_offsets[entity] : graph.in_offsets[entity + 1]]
    assert hidden is not None
    return bool(hidden.keeps(graph.triples[np.concatenate([out, into])]).any())


def _touch(link: Link, target: Mention) -> bool:
    return link.mention.start < target.end and target.start < link.mention.end


def look(may_be: NDArray[np.bool_], is_read: Callable[[int], bool]) -> tuple[int, int]:
    """Return how many samples were built, and in how many of them the graph is read.

    `may_be [sample]`: candidates for a further look where none of the first ones is read.
    """
    if not len(may_be):
        return 0, 0
    last = len(may_be) - 1
    rows = np.unique(np.linspace(0, last, min(LOOKED_AT, last + 1)).round().astype(np.int64))
    n_read = sum(map(is_read, rows.tolist()))
    if n_read:
        return len(rows), n_read
    others = np.setdiff1d(np.flatnonzero(may_be), rows)
    for n_further, i in enumerate(others.tolist(), 1):
        if is_read(i):
            return len(rows) + n_further, 1
    return len(rows) + len(others), 0


def require_read(
    coverage: Coverage,
    texts: Sequence[LinkedText],
    graph: KnowledgeGraph,
    view: View,
    *,
    of: str,
    is_linked: bool = False,
    needs_facts: bool = True,
) -> None:
    """Raise `NoKnowledgeError` with the remedy where nothing of the graph is shown in any sample.

    `of` names the samples. `is_linked`: the texts were linked by the graph's names. `needs_facts`
    False: what an entity brings does not come from this graph's triples.
    """
    if coverage.read is None:
        return
    if coverage.read and (coverage.with_fact or not needs_facts):
        return
    links = [link for text in texts for link in text.links if link.entity is not None]
    why = next(_reasons(coverage, texts, links, graph, view, is_linked))
    raise NoKnowledgeError(
        f"nothing of {graph} is shown to the model in {of} ({counted(len(texts), 'texts')}): "
        f"{why}. Training would go as with knowledge off"
    )


def candidate_warnings(texts: Sequence[LinkedText], view: View, of: str) -> list[str]:
    """Return what a view that reads candidates misses in `texts`, files that hold only the best."""
    n_cut = n_cut_links(texts) if view.reads_candidates else 0
    if not n_cut:
        return []
    n_links = sum(len(text.links) for text in texts)
    warning = (
        f"{of}: {n_cut} of {n_links} links have fewer candidates than the linker "
        f"found, but this method chooses among candidates; link again with `kept link "
        f"--candidates all`"
    )
    return [warning]


def _n_linked_without_case(texts: Sequence[LinkedText], graph: KnowledgeGraph) -> int:
    linker = DictionaryLinker(graph, case="insensitive")
    return sum(map(has_entity, linker.link([text.text for text in texts])))


def _reasons(
    coverage: Coverage,
    texts: Sequence[LinkedText],
    links: Sequence[Link],
    graph: KnowledgeGraph,
    view: View,
    is_linked: bool,
) -> Iterator[str]:
    n_named = n_with_names(graph)
    if not links and not is_linked:
        yield (
            "no text has a link; link them by the graph's names (--link, in a file `link: true`), "
            "or beforehand with `kept link`"
        )
    if not links and not n_named:
        yield (
            "no entity of the graph has a name, and none of their identifiers is in a text; "
            "build it with names (kept kg build … --labels FILE, --aliases FILE)"
        )
    if not links:
        n_without_case = _n_linked_without_case(texts, graph)
        if n_without_case:
            yield (
                f"none of the names of {n_named} entities is in a text with this case; "
                f"{n_without_case} of {len(texts)} texts link without case (--case insensitive, in "
                "a file `case: insensitive`)"
            )
        yield (
            f"none of the names of {n_named} entities is in a text; give texts about these "
            "entities, or the graph of these texts"
        )
    if not coverage.with_link:
        first = next(iter(graph.entities), "none at all")
        yield (
            f"none of the {counted(len(links), 'links')}, such as {links[0].entity!r}, is to an "
            f"entity of the graph, such as {first!r}; give the graph that the texts were linked "
            "with, or link them again"
        )
    if not coverage.with_fact:
        yield (
            f"{counted(coverage.with_link, 'texts')} had a link, and no linked entity has a fact "
            "that the model may read (facts between the target pairs are hidden); give a graph "
            "with facts about these entities"
        )
    yield view.remedy
