"""Gold annotations and other linkers' output, in through `LinkedText`.

Our own format is one JSON object per line:

    {"id": "7", "text": "In Paris.", "mentions": [{"start": 3, "end": 8, "entity": "Q90"}]}

`entity` null means NIL. `confidence` defaults to 1, `candidates` (objects with `entity`, `prior`,
`score`, perhaps `reason`, best first) to the entity alone with prior 1. `ambiguous` is written
where another candidate has the score of the entity, and worked out when read; `n_candidates` where
the linker had more candidates than are written. A pair of texts
carries `pair_start`, the character where the second one begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from entity_linking.annotations.rows import read_array, read_rows
from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kg_loaders.damage import DamageReport
from kg_loaders.disk.writing import write_lines

_ITEM = re.compile("Q[0-9]+")
FIRST_BYTES = 256
MOST_CANDIDATES = 3
"""Candidates of a link in a file of linked texts, by default: the entity and two runners-up."""


@dataclass(frozen=True, slots=True)
class TypingExample:
    """A linked text with one mention to be typed."""

    linked: LinkedText
    mention: Mention
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TypedText:
    """A linked text with the types of each of its links, in their order."""

    linked: LinkedText
    types: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.types) != len(self.linked.links):
            raise LinkingError(f"{len(self.types)} types for {len(self.linked.links)} links")

    def without(self, *types: str) -> TypedText:
        """Without the links of these types, such as ELEVANT's "DATETIME" and "QUANTITY"."""
        pairs = zip(self.linked.links, self.types, strict=True)
        stay = [(link, kinds) for link, kinds in pairs if not any(t in types for t in kinds)]
        links = tuple(link for link, _ in stay)
        return TypedText(replace(self.linked, links=links), tuple(kinds for _, kinds in stay))


@dataclass(frozen=True, slots=True)
class Excerpt:
    """An article of which `text[start:end]` alone is labelled; all of it may be read.

    >>> article = Excerpt("Ulm. He left it.", 5, 16)
    >>> article.excerpt
    'He left it.'
    """

    text: str
    start: int
    end: int
    id: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end <= len(self.text):
            raise LinkingError(
                f"excerpt {self.start} to {self.end} is not inside the article {self.id} of "
                f"{len(self.text)} characters"
            )

    @property
    def excerpt(self) -> str:
        return self.text[self.start : self.end]

    def cut(self, linked: LinkedText) -> LinkedText:
        """The links of the article inside the excerpt, placed there."""
        inside = [
            _moved(link, -self.start)
            for link in linked.links
            if self.start <= link.mention.start and link.mention.end <= self.end
        ]
        return LinkedText(self.excerpt, tuple(inside), self.id)

    def placed(self, linked: LinkedText, around: LinkedText) -> LinkedText:
        """The excerpt's links placed in the article, with links of the article outside of it."""
        moved = [_moved(link, self.start) for link in linked.links]
        others = [
            link
            for link in around.links
            if link.mention.end <= self.start or self.end <= link.mention.start
        ]
        return LinkedText(self.text, _sorted([*moved, *others]), self.id)


class _Candidate(msgspec.Struct, omit_defaults=True):
    entity: str
    prior: float
    score: float
    reason: str = ""


class _Mention(msgspec.Struct, omit_defaults=True):
    start: int
    end: int
    entity: str | None
    confidence: float = 1.0
    candidates: list[_Candidate] | None = None
    ambiguous: bool = False
    n_candidates: int | None = None


class _Text(msgspec.Struct):
    text: str
    mentions: list[_Mention]
    id: str | int = ""
    pair_start: int | None = None


class _ElevantLabel(msgspec.Struct):
    span: tuple[int, int]
    entity_id: str
    type: str = ""


class _ElevantArticle(msgspec.Struct):
    id: str | int
    text: str
    labels: list[_ElevantLabel]
    evaluation_span: tuple[int, int] | None = None


class _TagMeRow(msgspec.Struct):
    sent: str
    start: int
    end: int
    labels: list[str]
    ents: list[tuple[str, int, int, float]]


def gold_link(start: int, end: int, entity: str | None, confidence: float = 1.0) -> Link:
    """A link given from outside: its entity is the one candidate; NIL has none."""
    candidates = () if entity is None else (Candidate(entity, 1.0, 1.0),)
    return Link(Mention(start, end), candidates, entity, confidence)


def read_jsonl(path: str | Path, report: DamageReport) -> Iterator[LinkedText]:
    """Our own format, as `write_jsonl` writes it; for plain text the error names `kept link`."""
    if Path(path).is_file():
        with Path(path).open("rb") as file:
            is_json = file.read(FIRST_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"")
        if not is_json:
            report.remedy = (
                "this is not JSON lines; of plain text `kept link` makes them: kept link "
                f"{path} --kg KG -o linked.jsonl"
            )
    return read_rows(path, report, _Text, _linked_text)


def write_jsonl(
    texts: Iterable[LinkedText],
    path: str | Path,
    *,
    force: bool = False,
    inputs: Iterable[str | Path] = (),
) -> int:
    """Write our own format and return the number of texts; the file appears when it is whole.

    `force` replaces a file that is there, but for one of the `inputs`. Raises `WriteError`.
    """
    lines = (to_json(linked) + b"\n" for linked in texts)
    return write_lines(path, lines, force=force, inputs=inputs)


def to_json(linked: LinkedText, most: int | None = None) -> bytes:
    """Return one line of our own format, without its end; at most `most` candidates per link."""
    mentions = []
    for whole in linked.links:
        link = whole if most is None else whole.with_candidates(most)
        mention = _Mention(
            link.mention.start,
            link.mention.end,
            link.entity,
            link.confidence,
            None
            if link.candidates == gold_link(0, 1, link.entity).candidates
            else [_Candidate(c.entity, c.prior, c.score, c.reason) for c in link.candidates],
            whole.is_ambiguous,
            link.n_found if link.is_cut else None,
        )
        mentions.append(mention)
    fields: dict[str, object] = {"id": linked.id, "text": linked.text, "mentions": mentions}
    if linked.pair_start is not None:
        fields["pair_start"] = linked.pair_start
    return msgspec.json.encode(fields)


def read_elevant(path: str | Path, report: DamageReport) -> Iterator[LinkedText]:
    """ELEVANT benchmark articles, one object per line (github.com/ad-freiburg/elevant).

    The text is cropped to the evaluation span, the only part that is labelled; labels that reach
    out of it are left out. A label whose id is not a Wikidata item (`<NIL>`, `<NO_MAPPING>`,
    `DATETIME`, `QUANTITY`) is NIL. Nested labels stay.
    """
    return (typed.linked for typed in read_elevant_typed(path, report))


def read_elevant_typed(path: str | Path, report: DamageReport) -> Iterator[TypedText]:
    """`read_elevant` with the types of each label: Wikidata classes, or "OTHER", "DATETIME"..."""
    return read_rows(path, report, _ElevantArticle, _from_elevant)


def read_elevant_articles(path: str | Path, report: DamageReport) -> Iterator[Excerpt]:
    """The whole articles, which ELEVANT's linkers read, with the excerpt that is labelled."""
    return read_rows(path, report, _ElevantArticle, _article)


def read_tagme(
    path: str | Path, report: DamageReport, *, min_confidence: float = 0.0
) -> Iterator[TypingExample]:
    """Typing rows with TagMe links, a JSON array, as ERNIE (Zhang et al. 2019) distributes them.

    TagMe's score is the link's confidence; links below `min_confidence` are left out (ERNIE's own
    fine-tuning takes 0.3).
    """

    def convert(row: _TagMeRow) -> TypingExample:
        links = [
            gold_link(start, end, entity, score)
            for entity, start, end, score in row.ents
            if score >= min_confidence
        ]
        mention = Mention(row.start, row.end)
        if mention.end > len(row.sent):
            raise LinkingError(f"{mention} ends after the text of {len(row.sent)} characters")
        return TypingExample(LinkedText(row.sent, _sorted(links)), mention, tuple(row.labels))

    return read_array(path, report, _TagMeRow, convert)


def _sorted(links: Iterable[Link]) -> tuple[Link, ...]:
    return tuple(sorted(links, key=lambda link: link.mention))


def _moved(link: Link, by: int) -> Link:
    mention = link.mention
    return replace(link, mention=Mention(mention.start + by, mention.end + by))


def _linked_text(row: _Text) -> LinkedText:
    links = []
    for m in row.mentions:
        link = gold_link(m.start, m.end, m.entity, m.confidence)
        if m.candidates is not None:
            candidates = tuple(
                Candidate(c.entity, c.prior, c.score, c.reason) for c in m.candidates
            )
            link = Link(link.mention, candidates, m.entity, m.confidence, n_found=m.n_candidates)
        links.append(link)
    return LinkedText(row.text, _sorted(links), str(row.id), row.pair_start)


def linked_of(
    text: str, mentions: Sequence[object], id: str, pair_start: int | None = None
) -> LinkedText:
    """The text with `mentions` as our own format writes them; ValueError for one that is none."""
    row = {"text": text, "mentions": mentions, "id": id, "pair_start": pair_start}
    try:
        return _linked_text(msgspec.convert(row, _Text))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _article(article: _ElevantArticle) -> Excerpt:
    first, last = article.evaluation_span or (0, len(article.text))
    return Excerpt(article.text, first, last, str(article.id))


def _from_elevant(article: _ElevantArticle) -> TypedText:
    first, last = article.evaluation_span or (0, len(article.text))
    labels = []
    for label in article.labels:
        start, end = label.span
        if not 0 <= start < end <= len(article.text):
            raise LinkingError(f"span {start} to {end} is not in the text")
        if first <= start and end <= last:
            is_item = bool(_ITEM.fullmatch(label.entity_id))
            link = gold_link(start - first, end - first, label.entity_id if is_item else None)
            labels.append((link, tuple(name for name in label.type.split("|") if name)))
    labels.sort(key=lambda pair: pair[0].mention)
    linked = LinkedText(
        article.text[first:last], tuple(link for link, _ in labels), str(article.id)
    )
    return TypedText(linked, tuple(types for _, types in labels))
