"""Template sentences: `phrases.tsv` and `passages.tsv` turned into text with gold mentions.

Slots of a phrase: `{x}` the subject, `{P36}` one of its tails, `{P47.1} {P47.2}` distinct tails,
`{P36>P206}` a tail of that tail, `{<P19.1}` a head whose tail is the subject, `{a:...}` with the
indefinite article, `{@year}` an attribute, `{was}` and `{held}` verbs that fit living people.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

from kg_loaders.atlas.tables import AtlasTables, Item, Name
from kg_loaders.errors import SourceError
from kg_loaders.records import Triple

ALIAS_SHARE = 0.3
SLOT = re.compile(r"\{([^}]+)\}")
MARKED = re.compile(r"\[\[([^]|]+)(?:\|([^]]+))?\]\]")
WORD = re.compile(r"\w+(?:[-'’.]\w+)*", re.UNICODE)


@dataclass
class Draft:
    """A sentence under construction."""

    text: str = ""
    mentions: list[tuple[int, int, str]] = field(default_factory=list)
    facts: list[Triple] = field(default_factory=list)

    def mention(self, name: Name, entity: str, *, indefinite: bool = False) -> None:
        """Append a name with its article; the article stays outside the span."""
        if indefinite:
            self.text += "an " if name.text[0].lower() in "aeiou" else "a "
        else:
            self.text += "The " if name.article and not self.text else name.article
        start = len(self.text)
        self.text += name.text
        self.mentions.append((start, len(self.text), entity))


class Writer:
    """Fills phrases with the facts of a world."""

    def __init__(self, world: AtlasTables) -> None:
        self.items = world.items
        self.by_key = {item.key: item for item in world.items.values()}
        self.tails: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.heads: dict[tuple[str, str], list[str]] = defaultdict(list)
        for head, relation, tail in world.triples:
            self.tails[head, relation].append(tail)
            self.heads[tail, relation].append(head)

    def fill(self, template: str, item: Item, random: Random) -> Draft | None:
        """The sentence, or None where the subject lacks a fact that the phrase needs."""
        bound: dict[str, str] = {"x": item.id}
        draft = Draft()
        position = 0
        for match in SLOT.finditer(template):
            draft.text += template[position : match.start()]
            position = match.end()
            slot = match[1]
            literal = _literal(slot, item)
            if literal is not None:
                if not literal:
                    return None
                draft.text += literal
                continue
            indefinite = slot.startswith("a:")
            entity = self._bind(slot.removeprefix("a:"), bound, draft.facts, random)
            if entity is None:
                return None
            names = [name for name in self.items[entity].names if not name.is_former]
            first = indefinite or len(names) == 1 or random.random() >= ALIAS_SHARE
            name = names[0] if first else random.choice(names[1:])
            draft.mention(name, entity, indefinite=indefinite)
        draft.text += template[position:]
        draft.facts = list(dict.fromkeys(draft.facts))
        return draft

    def _bind(
        self, slot: str, bound: dict[str, str], facts: list[Triple], random: Random
    ) -> str | None:
        if slot in bound:
            return bound[slot]
        if ">" in slot:
            outer, relation = slot.rsplit(">", 1)
            start = self._bind(outer, bound, facts, random)
            if start is None:
                return None
        else:
            start, relation = bound["x"], slot.split(".")[0]
        inverse = relation.startswith("<")
        relation = relation.removeprefix("<")
        pool = (self.heads if inverse else self.tails)[start, relation]
        free = [entity for entity in pool if entity not in bound.values()]
        if not free:
            return None
        bound[slot] = random.choice(free)
        head, tail = (bound[slot], start) if inverse else (start, bound[slot])
        facts.append(Triple(head, relation, tail))
        return bound[slot]

    def passage(self, facts: str, text: str) -> Draft:
        """A hand-written passage: `[[row name]]` or `[[row name|surface]]`, and stated facts."""
        draft, position = Draft(), 0
        for match in MARKED.finditer(text):
            draft.text += text[position : match.start()]
            position = match.end()
            item = self._named(match[1], text)
            draft.mention(Name("", match[2] or item.label), item.id)
        draft.text += text[position:]
        for fact in facts.split(";"):
            parts = re.fullmatch(r"(.+) (P\d+) (.+)", fact)
            if not parts:
                raise SourceError(f"passages.tsv: {fact!r} is not HEAD RELATION TAIL; mend it")
            triple = Triple(
                self._named(parts[1], text).id, parts[2], self._named(parts[3], text).id
            )
            if triple.tail not in self.tails[triple.head, triple.relation]:
                raise SourceError(f"passages.tsv: {fact!r} is in no table; add it or drop it")
            draft.facts.append(triple)
        return draft

    def _named(self, key: str, text: str) -> Item:
        if key not in self.by_key:
            raise SourceError(f"passages.tsv: no row is named {key!r} (in {text[:60]!r})")
        return self.by_key[key]


class Surfaces:
    """Every name of every item but the classes, to find names that gold does not mark."""

    def __init__(self, world: AtlasTables) -> None:
        self.names = {
            name.text: None
            for item in world.items.values()
            if item.kind != "class"
            for name in item.names
        }
        self.longest = max(len(WORD.findall(name)) for name in self.names)

    def unmarked(self, text: str, mentions: list[tuple[int, int, str]]) -> list[str]:
        """Names in `text` that overlap no mention."""
        words = list(WORD.finditer(text))
        names = []
        for i, first in enumerate(words):
            for last in words[i : i + self.longest]:
                start, end = first.start(), last.end()
                if text[start:end] in self.names and all(
                    end <= s or start >= e for s, e, _ in mentions
                ):
                    names.append(text[start:end])
        return names


def _literal(slot: str, item: Item) -> str | None:
    """Text for a slot that is not a mention; "" if the attribute is missing, None for mentions."""
    if slot.startswith("@"):
        return item.attributes.get(slot[1:], "")
    is_living = "born" in item.attributes and "died" not in item.attributes
    if slot == "was":
        return "is" if is_living else "was"
    if slot == "held":
        return "holds" if is_living else "held"
    return None
