"""`DictionaryLinker`: every label and alias of a knowledge graph, found in one pass.

The prior of an entity given a surface is

    p(entity | surface) = w(entity, surface) / sum of w over the entities that bear the surface
    w = base + sum of the frequencies of that surface among the entity's labels and aliases

where `base` is `label_count` (10) if the surface is a label of the entity and 1 if it is an alias
only. With known counts that is add-one smoothing over the entities that bear the surface; without
them a label outweighs an alias ten to one. Ties go to the better connected entity, then to the
shorter identifier (in Wikidata the older one, Q64 before Q142), then to the one that sorts first.

Mentions are leftmost-longest among the matches that stand on word boundaries, fit the case policy
and keep a candidate. All three are part of the automaton's patterns, so a longer match that fails
one of them cannot hide a shorter one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Literal, NamedTuple

import numpy as np
from ahocorasick_rs import AhoCorasick, Implementation, MatchKind
from numpy.typing import NDArray

from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from entity_linking.surfaces import batches, mark, marked_keys, normalise
from kg_loaders import KnowledgeGraph, TextKind

Case = Literal["smart", "sensitive", "insensitive"]
LINKED_AT_ONCE = 1 << 16
"""Characters: what links of a batch need beside its marks stays in the cache."""
CASES: tuple[Case, ...] = ("smart", "sensitive", "insensitive")
KEYS_PER_CHUNK = 65_536
LONGEST_ACRONYM = 3

_Column = NDArray[np.int64]


class Entry(NamedTuple):
    """One dictionary row behind a surface: an entity, how it bears the surface, how often seen."""

    entity: str
    surface: str
    is_label: bool
    frequency: int


class _Choice(NamedTuple):
    candidates: tuple[Candidate, ...]
    entity: str | None
    confidence: float


class DictionaryLinker:
    """Links texts by the labels and aliases of `graph`; needs no training and no network.

    `case`: "sensitive" takes the text as it is; "insensitive" folds both sides; "smart" lets a text
    raise the case of an entry, never lower it: "asthma" is found in "Asthma", "Paris" in "PARIS",
    but "Apple" not in "apple" nor "US" in "us". It takes the entry as it is, with its first letter
    raised, in capitals if it is longer than three characters, and with all words raised if it is
    in lower case; where an entry is written just so, only such entries count.
    `min_prior` drops candidates (a surface without any is no mention); `nil_below` makes a link NIL
    when its best prior is lower. `min_length` is in characters. `languages` takes entries of these
    languages and those without a language; None takes all.

    A link's `confidence` is the prior of the choice, for NIL one minus the best prior. It is not
    calibrated.

    >>> from kg_loaders import Text, TextKind, graph_from_records
    >>> graph = graph_from_records([Text("Q90", TextKind.LABEL, "Paris")])
    >>> [link.entity for link in DictionaryLinker(graph).link(["In Paris, at last."])[0].links]
    ['Q90']
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        *,
        case: Case = "smart",
        min_prior: float = 0.0,
        nil_below: float = 0.0,
        min_length: int = 2,
        languages: Sequence[str] | None = None,
        label_count: int = 10,
        max_candidates: int = 30,
    ) -> None:
        _check(case, min_prior, nil_below, min_length, label_count, max_candidates)
        self._graph, self._case = graph, case
        self._min_prior, self._nil_below = min_prior, nil_below
        self._label_count, self._max_candidates = label_count, max_candidates
        self._choices: dict[int, _Choice] = {}

        texts = graph.entity_texts
        self._rows = text_rows(graph, languages)
        values = texts.values.take(self._rows).to_pylist()
        patterns, self._members, self._offsets = _patterns(values, case, min_length)
        self._keys = {
            pattern: key
            for key, pattern in enumerate(patterns)
            if min_prior == 0.0 or self._decide(key) is not None
        }
        self._key_of_hit = list(self._keys.values())
        self._automaton = AhoCorasick(
            list(self._keys),
            matchkind=MatchKind.LeftmostLongest,
            store_patterns=False,
            implementation=Implementation.ContiguousNFA,
        )

    def __repr__(self) -> str:
        return f"DictionaryLinker({len(self)} surfaces, case={self._case!r}, {self._graph!r})"

    def __len__(self) -> int:
        """Distinct surfaces, the raised ones included."""
        return len(self._keys)

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        """One `LinkedText` a text, in order; mentions do not overlap."""
        return [
            linked
            for batch in batches(texts, LINKED_AT_ONCE)
            for linked in self._link_batch(texts[batch])
        ]

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """The `(start, end)` of the mentions that `link` finds, without their links; cheaper."""
        found: list[list[tuple[int, int]]] = []
        for batch in batches(texts):
            places, starts, ends, _ = self._scan(texts[batch])
            pairs = list(zip(starts.tolist(), ends.tolist(), strict=True))
            limits = np.searchsorted(places, np.arange(batch.stop - batch.start + 1)).tolist()
            found.extend([pairs[a:b] for a, b in pairwise(limits)])
        return found

    def disambiguate(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        """The same mentions with this dictionary's candidates; an unknown surface is NIL."""
        return [
            LinkedText(
                text.text,
                tuple(self._relink(text.text, link.mention) for link in text.links),
                text.id,
            )
            for text in texts
        ]

    def entries(self, surface: str) -> list[Entry]:
        """The labels and aliases that `surface` matches under the case policy, in graph order."""
        key = self._find(surface)
        texts = self._graph.entity_texts
        return [
            Entry(
                self._graph.entities.name(entity),
                str(texts.values[row].as_py()),
                bool(texts.kinds[row] == TextKind.LABEL),
                int(texts.counts[row]),
            )
            for entity, row in ([] if key is None else self._bearers(key))
        ]

    # ---- mentions ----------------------------------------------------------
    def _link_batch(self, texts: Sequence[str]) -> list[LinkedText]:
        links: list[list[Link]] = [[] for _ in texts]
        columns = (column.tolist() for column in self._scan(texts))
        for i, start, end, hit in zip(*columns, strict=True):
            links[i].append(Link(Mention(start, end), *self._choose(self._key_of_hit[hit])))
        return [LinkedText(text, tuple(found)) for text, found in zip(texts, links, strict=True)]

    def _scan(self, texts: Sequence[str]) -> tuple[_Column, _Column, _Column, _Column]:
        """Text, start, end and pattern of each mention, in order."""
        fold = self._case == "insensitive"
        normalised = [normalise(text, fold=fold) for text in texts]
        marked = mark([form for form, _ in normalised])
        hits = self._automaton.find_matches_as_indexes(marked.haystack)
        table = np.fromiter(chain.from_iterable(hits), np.int64, 3 * len(hits)).reshape(-1, 3)
        places, starts, ends = marked.locate(table[:, 1] + 1, table[:, 2] - 1)
        for i, (_, origins) in enumerate(normalised):
            if origins is not None:
                a, b = np.searchsorted(places, [i, i + 1])
                starts[a:b] = np.array(origins[0], np.int64)[starts[a:b]]
                ends[a:b] = np.array(origins[1], np.int64)[ends[a:b] - 1]
        return places, starts, ends, table[:, 0]

    def _find(self, surface: str) -> int | None:
        form = normalise(surface, fold=self._case == "insensitive")[0]
        return self._keys.get(marked_keys([form])[0]) if form.strip() else None

    def _relink(self, text: str, mention: Mention) -> Link:
        key = self._find(text[mention.start : mention.end])
        return Link(mention, *(_UNKNOWN if key is None else self._choose(key)))

    # ---- choices -----------------------------------------------------------
    def _choose(self, key: int) -> _Choice:
        choice = self._choices.get(key)
        if choice is None:
            choice = self._choices[key] = self._decide(key) or _UNKNOWN
        return choice

    def _decide(self, key: int) -> _Choice | None:
        """None when no candidate has the minimum prior."""
        graph, weights = self._graph, self._weights(key)
        total = sum(weights.values())
        ranked = sorted(
            (
                -weight / total,
                -_degree(graph, entity),
                len(name := graph.entities.name(entity)),
                name,
            )
            for entity, weight in weights.items()
            if weight / total >= self._min_prior
        )[: self._max_candidates]
        if not ranked:
            return None
        candidates = tuple(Candidate(name, -prior, -prior) for prior, _, _, name in ranked)
        best = candidates[0]
        if best.prior < self._nil_below:
            return _Choice(candidates, None, 1.0 - best.prior)
        return _Choice(candidates, best.entity, best.prior)

    def _bearers(self, key: int) -> list[tuple[int, int]]:
        """`(entity, text row)` of each label or alias behind a pattern."""
        texts = self._graph.entity_texts
        rows = self._rows[self._members[self._offsets[key] : self._offsets[key + 1]]]
        owners = np.searchsorted(texts.offsets, rows, side="right") - 1
        return list(zip(owners.tolist(), rows.tolist(), strict=True))

    def _weights(self, key: int) -> dict[int, int]:
        texts = self._graph.entity_texts
        base: dict[int, int] = {}
        seen: dict[int, int] = {}
        for entity, row in self._bearers(key):
            is_label = texts.kinds[row] == TextKind.LABEL
            base[entity] = max(base.get(entity, 1), self._label_count if is_label else 1)
            seen[entity] = seen.get(entity, 0) + int(texts.counts[row])
        return {entity: base[entity] + frequency for entity, frequency in seen.items()}


_UNKNOWN = _Choice((), None, 1.0)


def _check(
    case: str,
    min_prior: float,
    nil_below: float,
    min_length: int,
    label_count: int,
    max_candidates: int,
) -> None:
    if case not in CASES:
        raise LinkingError(f"case is {case!r}; choose one of {', '.join(CASES)}")
    for name, share in (("min_prior", min_prior), ("nil_below", nil_below)):
        if not 0.0 <= share <= 1.0:
            raise LinkingError(f"{name} is {share}; it is a probability, give 0 to 1")
    for name, count in (
        ("min_length", min_length),
        ("label_count", label_count),
        ("max_candidates", max_candidates),
    ):
        if count < 1:
            raise LinkingError(f"{name} is {count}; give 1 or more")


def text_rows(graph: KnowledgeGraph, languages: Sequence[str] | None) -> NDArray[np.int64]:
    texts = graph.entity_texts
    kinds = np.asarray(texts.kinds)
    wanted = (kinds == TextKind.LABEL) | (kinds == TextKind.ALIAS)
    if languages is not None:
        known = [i for i, name in enumerate(texts.language_names) if name in {"", *languages}]
        wanted &= np.isin(np.asarray(texts.languages), known)
    return np.flatnonzero(wanted)


def _patterns(
    values: Sequence[str], case: Case, min_length: int
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Distinct patterns, and in CSR form the places in `values` of those behind each pattern."""
    forms = [normalise(value, fold=case == "insensitive")[0].strip() for value in values]
    members = [i for i, form in enumerate(forms) if len(form) >= min_length]
    written = _keys([forms[i] for i in members])
    patterns = {key: i for i, key in enumerate(dict.fromkeys(written))}
    key_of = list(map(patterns.__getitem__, written))
    if case == "smart":
        raised = [(i, other) for i in members for other in raised_forms(forms[i])]
        n_written = len(patterns)
        for (i, _), key in zip(raised, _keys([form for _, form in raised]), strict=True):
            place = patterns.setdefault(key, len(patterns))
            if place >= n_written:  # no entry is written so
                members.append(i)
                key_of.append(place)
    order = np.argsort(np.array(key_of, np.int64), kind="stable")
    counts = np.bincount(np.array(key_of, np.int64), minlength=len(patterns))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return list(patterns), np.array(members, np.int64)[order], offsets


def raised_forms(form: str) -> list[str]:
    """Other ways to write an entry under the case policy "smart", distinct."""
    ways = [form[0].upper() + form[1:]]
    if len(form) > LONGEST_ACRONYM:
        ways.append(form.upper())
    if form.islower():
        ways.append(" ".join(word[0].upper() + word[1:] for word in form.split()))
    return [way for way in dict.fromkeys(ways) if way != form]


def _keys(forms: Sequence[str]) -> list[str]:
    return [
        key
        for start in range(0, len(forms), KEYS_PER_CHUNK)
        for key in marked_keys(forms[start : start + KEYS_PER_CHUNK])
    ]


def _degree(graph: KnowledgeGraph, entity: int) -> int:
    return int(
        graph.out_offsets[entity + 1]
        - graph.out_offsets[entity]
        + graph.in_offsets[entity + 1]
        - graph.in_offsets[entity]
    )
