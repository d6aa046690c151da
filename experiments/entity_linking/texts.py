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
from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.relations import RelationExample, read_trex
from experiments.entity_linking.data import relation_examples
from kg_loaders.damage import DamageReport

NO_LINK = "#UNK#"
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
        *_merged(trex, "T-REx"),
        *_merged(relation_examples(root), "Wiki80 and FewRel"),
        *read_ernie(root / "text" / "ernie_pretrain_sample", pieces),
        *_open_entity(root / "typing/open_entity_wiki/ernie_9types/train.json.gz"),
    ]
    seen: dict[str, Annotated] = {}
    for text in texts:
        seen.setdefault(normal(text.linked.text), text)
    return list(seen.values())


def _merged(examples: Iterable[RelationExample], source: str) -> Iterator[Annotated]:
    """One text a sentence; of overlapping annotations the first by place stays."""
    heads: dict[str, str] = {}
    found: dict[str, dict[Mention, str | None]] = {}
    for example in examples:
        text = example.linked.text
        heads.setdefault(text, example.head)
        for link in example.linked.links:
            found.setdefault(text, {}).setdefault(link.mention, link.entity)
    for text, entities in found.items():
        links: list[Link] = []
        for mention in sorted(entities):
            if not links or mention.start >= links[-1].mention.end:
                links.append(gold_link(mention.start, mention.end, entities[mention]))
        yield Annotated(LinkedText(text, tuple(links)), heads[text], source)


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
    texts: Sequence[Annotated], benchmarks: Mapping[str, Sequence[LinkedText]], n: int
) -> dict[int, str]:
    """Place of each of `texts` that shares `n` words in a row with a benchmark, and which one."""
    owner: dict[str, str] = {}
    for name, documents in benchmarks.items():
        for document in documents:
            for shingle in shingles(document.text, n):
                owner.setdefault(shingle, name)
    found = {}
    for place, text in enumerate(texts):
        shared = sorted(shingles(text.linked.text, n) & owner.keys())
        if shared:
            found[place] = owner[shared[0]]
    return found


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
        place = int.from_bytes(digest, "big") / 2**64 * float(bounds[-1])
        parts[PART_NAMES[int(np.searchsorted(bounds, place, side="right"))]].append(text)
    return parts


def count_surfaces(texts: Iterable[Annotated]) -> dict[tuple[str, str], int]:
    """How often each entity was written in which way, `(entity, surface)`."""
    found: Counter[tuple[str, str]] = Counter()
    for text in texts:
        for link in text.linked.links:
            if link.entity is not None:
                surface = text.linked.text[link.mention.start : link.mention.end].strip()
                if surface:
                    found[link.entity, surface] += 1
    return dict(sorted(found.items()))


def closed(text: LinkedText, knows: Callable[[str], bool]) -> LinkedText:
    """The same links, NIL where the entity is outside the graph."""
    return replace(
        text,
        links=tuple(
            link
            if link.entity is None or knows(link.entity)
            else Link(link.mention, (), None, 1.0)
            for link in text.links
        ),
    )


def shortened(
    text: LinkedText, short: Callable[[str, str], Sequence[str]], share: float, *, seed: int
) -> LinkedText:
    """Some mentions written shorter, as a later mention of the same thing would be.

    `short(entity, surface)` names the ways to shorten it; a mention that has one is shortened with
    probability `share`, drawn from the text and its place, so the order of texts does not matter.
    Evidences name their subject in full, while running text says "Peiper" the second time.
    """
    pieces, links, last, shift = list[str](), list[Link](), 0, 0
    for link in text.links:
        start, end = link.mention.start, link.mention.end
        if start < last:  # nested: left away
            continue
        surface = text.text[start:end]
        ways = () if link.entity is None else short(link.entity, surface)
        digest = hashlib.blake2b(f"{seed} {start} {text.text}".encode(), digest_size=8).digest()
        draw = np.random.default_rng(int.from_bytes(digest, "big"))
        written = surface
        if ways and draw.random() < share:
            written = ways[int(draw.integers(len(ways)))]
        pieces += [text.text[last:start], written]
        mention = Mention(start + shift, start + shift + len(written))
        links.append(replace(link, mention=mention))
        shift += len(written) - len(surface)
        last = end
    pieces.append(text.text[last:])
    return LinkedText("".join(pieces), tuple(links), text.id)
