"""kept's links in spaCy Docs, and spaCy's spans as mentions.

`Annotator` is the pipeline component; `kept.linking.spacy_factory` registers it as `kept_linker`
with the linkers that settings name. spaCy is an extra: without it this module raises
`LinkingError`.

What a Doc bears afterwards:

- `doc.spans["kept"]`: every link that fits tokens, in order, NIL included;
- `doc.ents`: the entities that were there, and the links that were added;
- `span.kb_id_`: the entity, "NIL" (as spaCy's own linker says) where there is none;
- `span._.kept_link`: the `Link` with candidates and confidence, None for spans without one;
- `doc._.kept_lost`: how many links have no span: they fit no token boundary, or an earlier link
  takes the very same tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self, get_args

import msgspec

from entity_linking.errors import LinkIndexError, LinkingError
from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.parts import Disambiguator
from kg_loaders.disk.writing import write_bytes

try:
    from spacy.tokens import Doc, Span
    from spacy.util import filter_spans
except ImportError as error:
    raise LinkingError("spaCy is not installed: pip install 'kept[spacy]'") from error

SPANS_KEY = "kept"
NIL = "NIL"
USER_KEY = "kept_link"
FILE_NAME = "kept_linker.json"
Alignment = Literal["strict", "contract", "expand"]
Use = Literal["ents", "noun_chunks"]
TypeOf = Callable[[str], str | None]
"""The type of an entity, None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the component does to a Doc.

    `use_ents`: a Doc that has entities gets those linked, and mentions are looked for only where it
    has none; else entities that are there stay as they are and mentions are looked for everywhere.
    `add`: mentions of ours are looked for even beside given entities, and those that overlap none
    join them. `label` is the type of entities that we add. `alignment_mode` is spaCy's, for
    mentions that do not end where tokens do: "strict" loses them (and counts them), "expand" takes
    every token that they touch, "contract" the tokens inside. `typed`: an entity that we add has
    the first type that the graph gives it, and `label` where the graph gives none.
    """

    use_ents: bool = True
    add: bool = False
    label: str = "KEPT"
    alignment_mode: Alignment = "expand"
    typed: bool = False

    def __post_init__(self) -> None:
        if self.alignment_mode not in get_args(Alignment):
            raise LinkingError(
                f"alignment_mode is {self.alignment_mode!r}; "
                f"choose one of {', '.join(get_args(Alignment))}"
            )
        if not self.label:
            raise LinkingError("label is empty; spaCy keeps no entity without a type")


class Annotator:
    """A spaCy component that writes a linker's links into Docs.

    `settings` and `graph_hash` say what made the linker. They are all that `to_bytes` and `to_disk`
    keep: a graph is not copied into a pipeline. What was written goes into a component that was
    made with the same graph and settings (spaCy does so from its config); with another it is a
    `LinkIndexError`.
    """

    def __init__(
        self,
        linker: Disambiguator,
        policy: Policy = Policy(),
        *,
        settings: dict[str, Any],
        graph_hash: str,
        name: str = "kept_linker",
        type_of: TypeOf = lambda entity: None,
    ) -> None:
        self.name, self._linker, self._policy = name, linker, policy
        self._type_of = type_of
        self._settings, self._graph_hash = settings, graph_hash
        set_extensions()

    def __repr__(self) -> str:
        return f"Annotator({self._linker!r}, {self._policy!r})"

    def __call__(self, doc: Doc) -> Doc:
        """Annotate one Doc in place."""
        return self._annotate([doc])[0]

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 256) -> Iterator[Doc]:
        """Annotate many, `batch_size` at a time; each comes out as it would alone."""
        docs = iter(stream)
        while batch := list(islice(docs, batch_size)):
            yield from self._annotate(batch)

    def _annotate(self, docs: list[Doc]) -> list[Doc]:
        marked = [i for i, doc in enumerate(docs) if self._policy.use_ents and doc.ents]
        free = [
            i
            for i in range(len(docs))
            if self._policy.add or not (self._policy.use_ents and docs[i].ents)
        ]
        linked = self._linker.disambiguate([linked_text_of(docs[i]) for i in marked])
        of_given = {i: text.links for i, text in zip(marked, linked, strict=True)}
        linked_free = self._linker.link([docs[i].text for i in free])
        of_free = {i: text.links for i, text in zip(free, linked_free, strict=True)}
        for i, doc in enumerate(docs):
            _write(doc, of_given.get(i, ()), of_free.get(i, ()), self._policy, self._type_of)
        return docs

    # ---- disk ----------------------------------------------------------------------------------
    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Settings, policy and graph hash as JSON."""
        saved = {
            "graph_hash": self._graph_hash,
            "settings": self._settings,
            "policy": asdict(self._policy),
        }
        return msgspec.json.encode(saved)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Take the policy over; `LinkIndexError` unless graph and settings are the same."""
        return self._take(data, "these bytes")

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """`to_bytes` as a file in the folder `path`."""
        Path(path).mkdir(parents=True, exist_ok=True)
        write_bytes(Path(path) / FILE_NAME, self.to_bytes(), force=True)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """`from_bytes` from the folder `path`."""
        file = Path(path) / FILE_NAME
        if not file.is_file():
            raise LinkIndexError(f"{file} is not there; save the pipeline again")
        return self._take(file.read_bytes(), str(file))

    def _take(self, data: bytes, source: str) -> Self:
        try:
            saved = msgspec.json.decode(data, type=_Saved)
        except msgspec.DecodeError as error:
            raise LinkIndexError(f"{source}: {error}; save the pipeline again") from error
        if saved.graph_hash != self._graph_hash:
            raise LinkIndexError(
                f"{source} was made with graph {saved.graph_hash}, but the component has "
                f"{self._graph_hash}; give it the folder of the graph it was made with"
            )
        here = msgspec.json.decode(msgspec.json.encode(self._settings))
        differing = sorted(
            name
            for name in {*here, *saved.settings}
            if name not in PLACES and here.get(name) != saved.settings.get(name)
        )
        if differing:
            raise LinkIndexError(
                f"{source} was made with another {', '.join(differing)}: "
                f"{[saved.settings.get(name) for name in differing]}, not "
                f"{[here.get(name) for name in differing]}; make the component with the same config"
            )
        self._policy = saved.policy
        return self


PLACES = ("kg", "index", "model", "labels")
"""Settings that say where something lies; it may lie elsewhere on another machine."""


class _Saved(msgspec.Struct):
    graph_hash: str
    settings: dict[str, Any]
    policy: Policy


def linked_text_of(doc: Doc, use: Use = "ents") -> LinkedText:
    """Spans of a Doc as mentions, for `disambiguate`; their `kb_id_` is their entity, if it is set.

    "noun_chunks" needs a parsed Doc; `LinkingError` when it is not.
    """
    if use not in get_args(Use):
        raise LinkingError(f"use is {use!r}; choose one of {', '.join(get_args(Use))}")
    try:
        spans = list(doc.ents if use == "ents" else doc.noun_chunks)
    except (ValueError, NotImplementedError) as error:
        raise LinkingError(
            "the Doc has no noun chunks: they need a dependency parse in a language that spaCy "
            f"knows chunks of ({error}); add a parser to the pipeline, or take its entities"
        ) from error
    links = []
    for span in spans:
        entity = span.kb_id_ if span.kb_id_ and span.kb_id_ != NIL else None
        links.append(Link(Mention(span.start_char, span.end_char), (), entity, 1.0))
    return LinkedText(doc.text, tuple(links))


def set_extensions() -> None:
    """Make `span._.kept_link` and `doc._.kept_lost` known to spaCy; idempotent."""
    Span.set_extension("kept_link", getter=_link_of, force=True)
    Doc.set_extension("kept_lost", default=0, force=True)


def _link_of(span: Span) -> Link | None:
    packed = span.doc.user_data.get(_key(span))
    return None if packed is None else msgspec.msgpack.decode(packed, type=Link)


def _write(
    doc: Doc, marked: tuple[Link, ...], links: tuple[Link, ...], policy: Policy, type_of: TypeOf
) -> None:
    linked_spans = [
        (_span(doc, link, ent), link) for link, ent in zip(marked, doc.ents, strict=False)
    ]
    standing = [span for span, _ in linked_spans] or list(doc.ents)
    added, doc._.kept_lost = _placed(doc, links, policy, type_of)
    covered = {token.i for span in standing for token in span}
    free = [pair for pair in added if covered.isdisjoint(range(pair[0].start, pair[0].end))]
    doc.ents = sorted(
        [*standing, *filter_spans(span for span, _ in free)], key=lambda span: span.start
    )
    mine = sorted(
        [*linked_spans, *(free if linked_spans else added)],
        key=lambda pair: (pair[0].start, pair[0].end),
    )
    doc.spans[SPANS_KEY] = [span for span, _ in mine]
    for span, link in mine:
        doc.user_data[_key(span)] = msgspec.msgpack.encode(link)


def _placed(
    doc: Doc, links: tuple[Link, ...], policy: Policy, type_of: TypeOf
) -> tuple[list[tuple[Span, Link]], int]:
    """Links on tokens, and how many have none of their own: the first of equal spans stays."""
    placed: dict[tuple[int, int], tuple[Span, Link]] = {}
    for link in links:
        typed = type_of(link.entity) if policy.typed and link.entity is not None else None
        span = doc.char_span(
            link.mention.start,
            link.mention.end,
            label=typed or policy.label,
            alignment_mode=policy.alignment_mode,
        )
        if span is not None:
            placed.setdefault((span.start, span.end), (_span(doc, link, span), link))
    return list(placed.values()), len(links) - len(placed)


def _key(span: Span) -> tuple[str, int, int]:
    return USER_KEY, span.start_char, span.end_char


def _span(doc: Doc, link: Link, like: Span) -> Span:
    return Span(
        doc, like.start, like.end, label=like.label, kb_id=link.entity or NIL, span_id=like.id
    )
