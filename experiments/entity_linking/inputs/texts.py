"""Annotated text that is none of the benchmarks: for counts, for training, for calibration.

T-REx evidences (subject and object), Wiki80 and FewRel rows (head and tail), ERNIE's pre-training
sample (Wikipedia's own links, the text lower-cased as its word pieces are), Open Entity's training
split (TagMe's links, so another linker's opinion: for training only, never for counts or
calibration). A sentence that several sources or facts annotate is one text with all their links.

`split` divides by document: a subject's sentences, an article, a row. `overlapping` finds training
texts that share a passage with a benchmark; they are dropped before anything is counted.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from entity_linking.annotations import gold_link, read_tagme
from entity_linking.annotations.relations import RelationExample, read_trex, with_all_links
from entity_linking.mentions import Link, LinkedText, Mention
from experiments.entity_linking.inputs.graph import relation_examples
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport

NO_LINK = "#UNK#"
PERSON_HEADS = ("P106", "P19", "P20", "P1412", "P103", "P1303", "P413", "P69")
ORGANISATION_HEADS = ("P159", "P112", "P127", "P452")
ORGANISATION_TAILS = ("P176", "P178", "P108", "P127", "P264", "P449")
PART_NAMES = ("counts", "train", "held_out")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Annotated:
    """A text with gold links, the document it belongs to and where it was read."""

    linked: LinkedText
    document: str
    source: str


def read_annotated(root: Path, pieces: Sequence[str]) -> list[Annotated]:
    """All sources, each sentence once; `pieces` names the word pieces of ERNIE's ids."""
    trex = read_trex(root / "lama" / "TREx", DamageReport(), distinct=True)
    texts = [
        *_sentences(trex, "T-REx"),
        *_sentences(relation_examples(root), "Wiki80 and FewRel"),
        *read_ernie(root / "text" / "ernie_pretrain_sample", pieces),
        *_open_entity(root / "typing/open_entity_wiki/ernie_9types/train.json.gz"),
    ]
    seen: dict[str, Annotated] = {}
    for text in texts:
        seen.setdefault(normal(text.linked.text), text)
    return list(seen.values())


def _sentences(examples: Iterable[RelationExample], source: str) -> Iterator[Annotated]:
    """One text a sentence, which belongs to the head of the first fact that it states."""
    heads: dict[str, str] = {}
    kept = []
    for example in examples:
        heads.setdefault(example.linked.text, example.head)
        kept.append(example)
    for linked in with_all_links(kept):
        yield Annotated(linked, heads[linked.text], source)


def _open_entity(path: Path) -> Iterator[Annotated]:
    for number, row in enumerate(read_tagme(path, DamageReport(), min_confidence=0.5)):
        yield Annotated(row.linked, f"open-entity-{number}", "Open Entity (TagMe)")


# ---- ERNIE's pre-training sample -------------------------------------------
def read_ernie(folder: Path, pieces: Sequence[str]) -> Iterator[Annotated]:
    """Sentences of the sample: an article a line, `n` then sentence by sentence `n_pieces` pieces.

    Each line of `wiki_entity` has the same counts and an entity for the first piece of each linked
    word. Pieces are joined by blanks but for those that go on a word, so "u . s ." has blanks that
    the article had not; dictionaries here do not mind.
    """
    with (
        gzip.open(folder / "wiki_token.gz", "rt", encoding="utf-8") as tokens,
        gzip.open(folder / "wiki_entity.gz", "rt", encoding="utf-8") as entities,
    ):
        for number, (ids, names) in enumerate(zip(tokens, entities, strict=True)):
            row = list(zip(map(int, ids.split()), names.split(), strict=True))
            start = 1
            for _ in range(row[0][0]):
                stop = start + 1 + row[start][0]
                text = decode(row[start + 1 : stop], pieces)
                if text.links:
                    yield Annotated(text, f"ernie-{number}", "ERNIE sample")
                start = stop


def decode(sentence: Sequence[tuple[int, str]], pieces: Sequence[str]) -> LinkedText:
    """Pieces and the entity of each, as text with links.

    Neighbouring words with one entity are one mention, a hyphen between them included.
    """
    text, links = "", list[Link]()
    for piece_id, entity in sentence:
        piece = pieces[piece_id]
        goes_on = piece.startswith("##")
        linked_until = links[-1].mention.end if links else -1
        if text and not goes_on:
            text += " "
        start = len(text)
        text += piece[2:] if goes_on else piece
        if goes_on and start == linked_until and entity in (NO_LINK, links[-1].entity):
            links[-1] = gold_link(links[-1].mention.start, len(text), links[-1].entity)
        elif entity == NO_LINK:
            continue
        elif (
            links
            and entity == links[-1].entity
            and text[linked_until:start].replace(" ", "") in ("", "-")
        ):
            links[-1] = gold_link(links[-1].mention.start, len(text), entity)
        else:
            links.append(gold_link(start, len(text), entity))
    return LinkedText(text, tuple(links))


# ---- what the benchmarks have seen -----------------------------------------
def normal(text: str) -> str:
    """Lower case, words only."""
    return " ".join(_WORD.findall(text.lower()))


def shingles(text: str, n: int) -> set[str]:
    """All runs of `n` words, or the whole text where it has fewer."""
    words = normal(text).split()
    if len(words) < n:
        return {" ".join(words)} if words else set()
    return {" ".join(words[i : i + n]) for i in range(len(words) - n + 1)}


def overlapping(
    texts: Sequence[Annotated], benchmarks: Mapping[str, Sequence[str]], n: int
) -> dict[int, str]:
    """Place of each of `texts` that shares `n` words in a row with a benchmark, and which one."""
    owner: dict[str, str] = {}
    for name, documents in benchmarks.items():
        for document in documents:
            for shingle in shingles(document, n):
                owner.setdefault(shingle, name)
    parts = {}
    for position, text in enumerate(texts):
        shared = sorted(shingles(text.linked.text, n) & owner.keys())
        if shared:
            parts[position] = owner[shared[0]]
    return parts


# ---- parts -----------------------------------------------------------------
def split(
    texts: Sequence[Annotated], shares: Mapping[str, float], *, seed: int
) -> dict[str, list[Annotated]]:
    """The parts, whole documents by a hash of their name; TagMe's links only ever train."""
    bounds = np.cumsum([shares[name] for name in PART_NAMES])
    parts: dict[str, list[Annotated]] = {name: [] for name in PART_NAMES}
    for text in texts:
        if text.source.startswith("Open Entity"):
            parts["train"].append(text)
            continue
        digest = hashlib.blake2b(f"{seed} {text.document}".encode(), digest_size=8).digest()
        point = int.from_bytes(digest, "big") / 2**64 * float(bounds[-1])
        parts[PART_NAMES[int(np.searchsorted(bounds, point, side="right"))]].append(text)
    return parts


def count_surfaces(texts: Iterable[Annotated]) -> list[tuple[str, str, int]]:
    """`(surface, entity, count)`: how often each entity was written in which way, sorted.

    Surfaces without two letters (mostly years, for some event of the year) do not count.
    """
    surfaces: Counter[tuple[str, str]] = Counter()
    for text in texts:
        for link in text.linked.links:
            if link.entity is not None:
                surface = text.linked.text[link.mention.start : link.mention.end].strip()
                if sum(map(str.isalpha, surface)) >= 2:
                    surfaces[surface, link.entity] += 1
    return [(*pair, count) for pair, count in sorted(surfaces.items())]


# ---- documents -------------------------------------------------------------
def documents(texts: Sequence[Annotated], *, most: int, seed: int) -> list[LinkedText]:
    """Neighbouring texts of one document as one text, 1 to `most` of them, as many as a hash says.

    A subject's evidences follow one another as an article's sentences do.
    """
    documents_read: list[LinkedText] = []
    by_document: dict[tuple[str, str], list[LinkedText]] = {}
    for text in texts:
        by_document.setdefault((text.source, text.document), []).append(text.linked)
    for (_, name), sentences in by_document.items():
        start = 0
        while start < len(sentences):
            n = 1 + int(_draw(seed, name, start).integers(most))
            documents_read.append(joined(sentences[start : start + n], f"{name}-{start}"))
            start += n
    return documents_read


def joined(texts: Sequence[LinkedText], id: str) -> LinkedText:
    """Texts one after another, a blank between them, with all their links."""
    links, start = list[Link](), 0
    for text in texts:
        for link in text.links:
            mention = Mention(link.mention.start + start, link.mention.end + start)
            links.append(replace(link, mention=mention))
        start += len(text.text) + 1
    return LinkedText(" ".join(text.text for text in texts), tuple(links), id)


def closed(text: LinkedText, knows: Callable[[str], bool]) -> LinkedText:
    """The same links without candidates, NIL where the entity is outside the graph."""
    return replace(
        text,
        links=tuple(
            Link(link.mention, (), link.entity, 1.0)
            if link.entity is not None and knows(link.entity)
            else Link(link.mention, (), None, 1.0)
            for link in text.links
        ),
    )


Shortener = Callable[[str, str], Sequence[str]]


def shortened(
    text: LinkedText, ways_of: Shortener, *, first: float, later: float, seed: int
) -> LinkedText:
    """Some mentions written shorter: evidences name things in full where running text does not.

    `ways_of(entity, surface)` names the shorter ways. The first mention of an entity is shortened
    with probability `first`, those after it with `later`, drawn from the text and the place, so the
    order of texts does not matter. Links that overlap an earlier one are left out.
    """
    pieces, links = list[str](), list[Link]()
    seen: set[str] = set()
    last = shift = 0
    for link in text.links:
        start, end = link.mention.start, link.mention.end
        if start < last:
            continue
        surface = written = text.text[start:end]
        if link.entity is not None:
            ways = ways_of(link.entity, surface)
            draw = _draw(seed, text.text, start)
            if ways and draw.random() < (later if link.entity in seen else first):
                written = ways[int(draw.integers(len(ways)))]
            seen.add(link.entity)
        pieces += [text.text[last:start], written]
        mention = Mention(start + shift, start + shift + len(written))
        links.append(replace(link, mention=mention))
        shift += len(written) - len(surface)
        last = end
    pieces.append(text.text[last:])
    return LinkedText("".join(pieces), tuple(links), text.id)


def shortener(graph: KnowledgeGraph) -> Shortener:
    """People by their last or first word, organisations by their first word or their initials.

    What an entity is, its triples say: who has an occupation, a birth place, an instrument is a
    person; what has a headquarters, a founder, an owner, or makes things, is an organisation.
    """
    people = _ends(graph, heads=PERSON_HEADS)
    organisations = _ends(graph, heads=ORGANISATION_HEADS, tails=ORGANISATION_TAILS) - people

    def ways(entity: str, surface: str) -> list[str]:
        words = surface.split()
        if len(words) < 2 or not all(word[0].isalnum() for word in words):
            return []
        if entity in people and len(words) <= 3:
            return [words[-1], words[-1], words[0]]
        if entity in organisations:
            capitals = [word[0] for word in words if word[0].isupper()]
            initials = ["".join(capitals)] if len(capitals) >= 3 else []
            return [*([words[0]] if len(words[0]) > 3 else []), *initials]
        return []

    return ways


def _ends(graph: KnowledgeGraph, *, heads: Sequence[str], tails: Sequence[str] = ()) -> set[str]:
    ends: set[int] = set()
    for names, column in ((heads, 0), (tails, 2)):
        relations = [graph.relations.id(name) for name in names if name in graph.relations]
        rows = np.isin(graph.triples[:, 1], relations)
        ends.update(graph.triples[rows, column].tolist())
    return {graph.entities.name(entity) for entity in sorted(ends)}


def uniform_value(seed: int, text: str) -> float:
    """A number from 0 to 1 by which texts are sampled, whatever others there are."""
    return float(_draw(seed, text, 0).random())


def _draw(seed: int, text: str, use: int) -> np.random.Generator:
    digest = hashlib.blake2b(f"{seed} {use} {text}".encode(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))
