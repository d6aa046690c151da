"""Text and a graph in one call: `link`, `build` and `show`, with the shipped linker.

The linkers of the last few graphs and settings are kept, so that a second text is linked at once.
"""

from __future__ import annotations

import webbrowser
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload
from weakref import WeakKeyDictionary

from entity_linking.mentions import Candidate, Link, LinkedText, Linker, Mention
from entity_linking.names.identifiers import by_identifiers
from kept.errors import ConfigError
from kept.linking.linkers import LinkerSettings, open_linker
from kg_loaders import Entity, KnowledgeGraph, open_graph

if TYPE_CHECKING:
    from kept.graphs.builder import BuilderConfig
    from kept.graphs.graph import WordKnowledgeGraph

Graph = KnowledgeGraph | str | Path | Sequence[tuple[str, str, str]]
MOST_LINKERS = 4
_LINKERS: OrderedDict[tuple[str, str], Linker] = OrderedDict()
MOST_LABELS = 65_536
_LABELS: WeakKeyDictionary[KnowledgeGraph, dict[str, str]] = WeakKeyDictionary()
"""Labels of the entities that were linked last, by graph."""


@overload
def link(texts: str | LinkedText, kg: Graph, **settings: Any) -> LinkedText: ...


@overload
def link(texts: Sequence[str | LinkedText], kg: Graph, **settings: Any) -> list[LinkedText]: ...


def link(
    texts: str | LinkedText | Sequence[str | LinkedText], kg: Graph, **settings: Any
) -> LinkedText | list[LinkedText]:
    """Return the links of one text, or of each of several, to the entities of `kg`.

    Each link has `start`, `end`, `text`, `entity`, `label`, `confidence` and `candidates`. Texts
    that are linked already stay as they are. `settings` are those of `kept link`
    (`kept.linking.linkers.LinkerSettings`), such as `method="mix"` or `nil_below=0.3`.

    >>> from kept import atlas
    >>> linked = link("The Seine flows through Paris.", atlas.graph())
    >>> [(one.text, one.label, one.start) for one in linked.links]
    [('Seine', 'Seine', 4), ('Paris', 'Paris', 24)]
    """
    is_one = isinstance(texts, str | LinkedText)
    several = [texts] if isinstance(texts, str | LinkedText) else _texts(texts)
    graph = open_graph(kg)
    plain = [text for text in several if isinstance(text, str)]
    fresh = iter(linker_for(graph, **settings).link(plain))
    linked = [_named(next(fresh), graph) if isinstance(t, str) else t for t in several]
    return linked[0] if is_one else linked


def _texts(texts: Any) -> list[str | LinkedText]:
    """Several texts as a list; ConfigError names one that is none."""
    if isinstance(texts, KnowledgeGraph):
        raise ConfigError(f"{texts!r} is not a text; the text comes first, and then the graph")
    if isinstance(texts, Path):
        raise ConfigError(f"{str(texts)!r} is a path, not a text; give what it holds, .read_text()")
    is_several = isinstance(texts, Iterable) and not isinstance(texts, bytes)
    several = list(texts) if is_several else [texts]
    for each in several:
        if not isinstance(each, str | LinkedText):
            raise ConfigError(f"{each!r} is not a text; give a string or a list of strings")
    return [str(each) if isinstance(each, str) else each for each in several]  # of numpy, too


def linker_for(graph: KnowledgeGraph, **settings: Any) -> Linker:
    """Return the linker of `graph` with `settings` of `kept link`; the last few are kept."""
    key = (graph.content_hash, repr(sorted(settings.items())))
    if key not in _LINKERS:
        source = str(graph.folder or "a graph in memory")
        _LINKERS[key] = open_linker(LinkerSettings(kg=source, **settings), by_identifiers(graph))
        while len(_LINKERS) > MOST_LINKERS:
            _LINKERS.popitem(last=False)
    _LINKERS.move_to_end(key)
    return _LINKERS[key]


def _named(linked: LinkedText, graph: KnowledgeGraph) -> LinkedText:
    """The same links, with their texts and the labels of their entities."""
    labels = _LABELS.setdefault(graph, {})
    links = []
    for each in linked.links:
        entity, mention = each.entity, each.mention
        label = None
        if entity is not None:
            label = labels.get(entity)
            if label is None:
                label = _label(graph, entity)
                if len(labels) >= MOST_LABELS:
                    labels.clear()
                labels[entity] = label
        text = linked.text[mention.start : mention.end]
        links.append(
            Link(mention, each.candidates, entity, each.confidence, text, label, each.n_found)
        )
    return LinkedText(linked.text, tuple(links), linked.id, linked.pair_start)


def _label(graph: KnowledgeGraph, entity: str) -> str:
    """The label of an entity; its identifier where the graph does not have it."""
    index = graph.entities.find(entity)
    return entity if index is None else graph.label(index)


@overload
def build(
    text: str | LinkedText, kg: Graph, *, tokenizer: Any = ..., seed: int = ...,
    config: BuilderConfig | None = ..., **options: Any,
) -> WordKnowledgeGraph: ...  # fmt: skip


@overload
def build(
    text: Sequence[str | LinkedText], kg: Graph, *, tokenizer: Any = ..., seed: int = ...,
    config: BuilderConfig | None = ..., **options: Any,
) -> list[WordKnowledgeGraph]: ...  # fmt: skip


def build(
    text: str | LinkedText | Sequence[str | LinkedText],
    kg: Graph,
    *,
    tokenizer: Any = "minilm",
    seed: int = 0,
    config: BuilderConfig | None = None,
    **options: Any,
) -> WordKnowledgeGraph | list[WordKnowledgeGraph]:
    """Return the word-knowledge graph of a text, or of each of several.

    It has the words, the linked entities and their facts.

    `tokenizer` is a name, a folder or a tokenizer. `options` are the fields of
    `kept.graphs.builder.BuilderConfig`, such as `max_neighbours=8`. The lower level, which takes
    its random generator, is `kept.graphs.builder.build`.

    >>> from kept import atlas
    >>> build("The Seine flows through Paris.", atlas.graph(), max_neighbours=1)
    WordKnowledgeGraph(6 words, 4 entities, 2 relations, 4 edges)
    """
    from kept.graphs.builder import BuilderConfig
    from kept.graphs.builder import build as join
    from kept.hosts import load_tokenizer
    from kept.randomness import generator

    graph = open_graph(kg)
    pieces = load_tokenizer(tokenizer) if isinstance(tokenizer, str | Path) else tokenizer
    settings = replace(config or BuilderConfig(policy="degree"), **options)
    draw = generator(seed, "show")
    is_one = isinstance(text, str | LinkedText)
    several = [text] if isinstance(text, str | LinkedText) else text
    built = [
        join(linked, pieces, graph, generator=draw, config=settings)
        for linked in link(several, graph)
    ]
    return built[0] if is_one else built


@dataclass(frozen=True, repr=False)
class Picture:
    """A word-knowledge graph as a picture: shown in a notebook, saved as .svg or .html."""

    graph: WordKnowledgeGraph
    svg: str
    html: str

    def __repr__(self) -> str:
        return f"Picture({self.graph}); .save('graph.html') writes it, .open() shows it"

    def _repr_html_(self) -> str:
        return self.svg

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the page (.html) or the picture (.svg); return the path.

        A page that kept drew is replaced, another file only with `force`.
        """
        from kept.errors import ConfigError
        from kept.lab.report.page import is_kept_page
        from kg_loaders.disk.writing import write_text

        location = Path(path)
        forms = {".html": self.html, ".htm": self.html, ".svg": self.svg}
        if location.suffix.lower() not in forms:
            raise ConfigError(f"{location}: a picture is saved as .svg, a page as .html")
        write_text(location, forms[location.suffix.lower()], force=force or is_kept_page(location))
        return location

    def open(self, path: str | Path = "graph.html") -> None:
        """Write the page and open it in the browser."""
        webbrowser.open(self.save(path).resolve().as_uri())


def show(
    text: str | LinkedText | Entity,
    kg: Graph | None = None,
    *,
    tokenizer: Any = "minilm",
    seed: int = 0,
    **options: Any,
) -> Picture:
    """Return the picture of a text's word-knowledge graph; arguments are those of `build`.

    An entity of a graph, `show(graph["Paris"])`, is drawn as a text that is its name.

    >>> from kept import atlas
    >>> show("The Seine flows through Paris.", atlas.graph(), max_neighbours=1)
    Picture(WordKnowledgeGraph(6 words, 4 entities, 2 relations, 4 edges)); \
.save('graph.html') writes it, .open() shows it
    """
    from kept.graphs.drawing.draw import draw_html, draw_svg
    from kept.hosts import load_tokenizer

    if isinstance(text, Entity):
        kg = cast(KnowledgeGraph, text.graph) if kg is None else kg
        text = _as_text(text)
    if kg is None or not isinstance(text, str | LinkedText):
        raise ConfigError(
            "show draws one text with a graph: kept.show(text, graph); a whole graph is looked at "
            "with kept.explore(graph)"
        )
    graph = open_graph(kg)
    pieces = load_tokenizer(tokenizer) if isinstance(tokenizer, str | Path) else tokenizer
    built = build(text, graph, tokenizer=pieces, seed=seed, **options)
    return Picture(built, draw_svg(built, graph, pieces), draw_html(built, graph, pieces))


def _as_text(entity: Entity) -> LinkedText:
    """The name of an entity, linked to it."""
    mention = Mention(0, len(entity.label))
    candidate = Candidate(entity.id, 1.0, 1.0, "given")
    return LinkedText(entity.label, (Link(mention, (candidate,), entity.id, 1.0, entity.label),))
