"""KnowBERT's candidate generators as released (allenai/kb), for comparison with its numbers.

Peters et al. 2019 (EMNLP), section 4.1. For one's own graphs use `DictionaryLinker` and
`WordNetCandidates`. What the released code does and these repeat: the lower-case table of aliases
keeps the last casing of the file only, and may hold an entity twice; a WordNet key with a dot can
never be found; stop words are compared case-sensitively.

Words are those of a tokenizer; spans are words, end exclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

WORDS_PER_MENTION = 5
MAX_CANDIDATES = 30
GENERIC = {"person": "person.n.01", "location": "location.n.01", "group": "group.n.01"}
"""Lemmas that stand for proper names in annotated corpora, and their only synset."""
_PARTS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}

Span = tuple[int, int]


class SpanCandidates(NamedTuple):
    """The candidates of words `start` to `end` (exclusive), best first as the table has them."""

    start: int
    end: int
    entities: tuple[str, ...]
    priors: tuple[float, ...]


class AliasEntry(NamedTuple):
    """One candidate of an alias."""

    id: str
    title: str
    prior: float


class AliasTable:
    """Aliases with their entities: as written, and lower-cased.

    `rows`: alias, frequency, entries, in the order of the file. Entities outside `allowed` are
    passed over; at most `max_candidates` are kept, first come. Of two rows of one alias the
    strictly more frequent one stays.
    """

    def __init__(
        self,
        rows: Iterable[tuple[str, int, Sequence[AliasEntry]]],
        *,
        allowed: Collection[str],
        max_candidates: int = MAX_CANDIDATES,
    ) -> None:
        known = frozenset(allowed)
        self.frequencies: dict[str, int] = {}
        self.entries: dict[str, tuple[AliasEntry, ...]] = {}
        for alias, frequency, entries in rows:
            kept = tuple(e for e in entries if e.title in known)[:max_candidates]
            if kept and frequency > self.frequencies.get(alias, -1):
                self.frequencies[alias], self.entries[alias] = frequency, kept
        self.lower_entries: dict[str, tuple[AliasEntry, ...]] = {}
        for alias, alias_entries in self.entries.items():
            merged = _merge(alias_entries, self.entries.get(alias.lower(), ()))
            self.lower_entries[alias.lower()] = merged[:max_candidates]

    def find(self, surface: str) -> tuple[AliasEntry, ...]:
        """Entries of the surface or its title case, whichever is more frequent; else lower-cased.

        On equal frequency the title case wins.
        """
        title = surface.title()
        as_is, titled = (self.frequencies.get(form, 0) for form in (surface, title))
        if as_is == titled == 0:
            return self.lower_entries.get(surface.lower(), ())
        return self.entries[surface if as_is > titled else title]


def _merge(entries: Sequence[AliasEntry], lower: Sequence[AliasEntry]) -> tuple[AliasEntry, ...]:
    """Both lists by prior; an entity of both stands twice where the lower-case prior is higher."""
    priors = {entry.id: entry.prior for entry in entries}
    more = [e for e in lower if e.prior > priors.get(e.id, float("-inf"))]
    return tuple(sorted([*entries, *more], key=lambda entry: -entry.prior))


def alias_candidates(
    words: Sequence[str],
    table: AliasTable,
    *,
    stop_words: Collection[str],
    stop_symbols: Collection[str],
    gold: Sequence[Span] = (),
    gold_only: bool = False,
) -> list[SpanCandidates]:
    """Every run of at most five words that the table knows, and `gold` spans that it knows.

    A run neither starts nor ends with a stop word and holds no stop symbol; gold spans may. With
    `gold_only` nothing else is looked up. Priors are made to sum to 1; sorted by span.
    """
    spans = dict.fromkeys(gold)
    if not gold_only:
        for start, end in _runs(len(words), WORDS_PER_MENTION):
            run = words[start:end]
            edges = run[0] in stop_words or run[-1] in stop_words
            if not edges and not any(word in stop_symbols for word in run):
                spans[start, end] = None
    candidates = []
    for start, end in sorted(spans):
        entries = table.find(" ".join(words[start:end]))
        if entries:
            total = sum(entry.prior for entry in entries)
            candidates.append(
                SpanCandidates(
                    start,
                    end,
                    tuple(entry.title for entry in entries),
                    tuple(entry.prior / total for entry in entries),
                )
            )
    return candidates


class Sense(NamedTuple):
    """A sense of a lemma: `hot_dog%1:13:01::`, its part of speech, synset and count."""

    id: str
    part: str
    synset: str
    n_tags: int


class SenseTable:
    """Senses by lemma, `_` and `-` turned to blanks, in the order given.

    Of more than `max_candidates` of a lemma, or of a span, the most frequent are kept.
    """

    def __init__(
        self,
        senses: Iterable[Sense],
        *,
        smoothing: int = 1,
        max_candidates: int = MAX_CANDIDATES,
    ) -> None:
        self.smoothing, self.max_candidates = smoothing, max_candidates
        every: dict[str, list[Sense]] = {}
        for sense in senses:
            lemma = sense.id.split("%")[0].replace("_", " ").replace("-", " ")
            every.setdefault(lemma, []).append(sense)
        self.senses = {lemma: self._best(senses) for lemma, senses in every.items()}

    def find(self, *lemmas: str) -> list[tuple[Sense, float]]:
        """The senses of all `lemmas` with their priors, (count + smoothing) over the sum of that.

        The sum is over the senses of all lemmas together, so that a rare lemma's only sense does
        not weigh as much as all senses of a frequent one.
        """
        senses = [sense for lemma in lemmas for sense in self.senses.get(lemma, [])]
        return self._with_priors(self._best(senses))

    def find_part(self, lemma: str, tag: str) -> list[tuple[Sense, float]]:
        """As `find`, of one part of speech (a universal tag); satellites are adjectives.

        What the other parts of speech pushed out of the lemma's `max_candidates` stays out.
        """
        key = lemma.replace("_", " ").replace("-", " ")
        part = _PARTS[tag]
        chosen = [s for s in self.senses.get(key, []) if s.part.replace("s", "a") == part]
        return self._with_priors(chosen)

    def _best(self, senses: list[Sense]) -> list[Sense]:
        if len(senses) <= self.max_candidates:
            return senses
        return sorted(senses, key=lambda sense: -sense.n_tags)[: self.max_candidates]

    def _with_priors(self, senses: list[Sense]) -> list[tuple[Sense, float]]:
        total = sum(sense.n_tags + self.smoothing for sense in senses)
        return [(sense, (sense.n_tags + self.smoothing) / total) for sense in senses]


def sense_candidates(
    words: Sequence[str],
    table: SenseTable,
    lemmatise: Callable[[str], str],
    *,
    max_length: int = 7,
    surfaces: bool = False,
) -> list[SpanCandidates]:
    """Every run of fewer than `max_length` words whose lemmas the table knows, sorted by span.

    Hyphens count as words; a run neither starts nor ends with one, and they are left out of the
    key. Lemmas are lower-cased and lose their dots. With `surfaces` the words themselves are looked
    up too, where they differ; theirs stand after the others, priors are over both, and nothing is
    made to stand once.
    """
    candidates = []
    for start, end in _runs(len(words), max_length - 1):
        run = words[start:end]
        if "-" in (run[0], run[-1]):
            continue
        kept = [word for word in run if word != "-"]
        keys = [_key(map(lemmatise, kept))]
        if surfaces and _key(kept) != keys[0]:
            keys.append(_key(kept))
        senses = table.find(*keys)
        if senses:
            candidates.append(_of_senses(start, end, senses))
    return candidates


class GoldSense(NamedTuple):
    """An annotated word or run of words: its lemma, universal tag and first sense id."""

    start: int
    end: int
    lemma: str
    tag: str
    sense: str


def gold_sense_candidates(
    words: Sequence[str],
    gold: Sequence[GoldSense],
    table: SenseTable,
    lemmatise: Callable[[str], str],
    *,
    training: bool,
) -> list[SpanCandidates]:
    """Candidates of annotated spans.

    In training those of the text, without the generic lemmas (`GENERIC`) of proper names; otherwise
    those of the gold lemma and part of speech, generic lemmas having their one synset.
    """
    every = {(c.start, c.end): c for c in sense_candidates(words, table, lemmatise)}
    rows = []
    for item in gold:
        text = " ".join(words[item.start : item.end])
        is_name = item.lemma in GENERIC and item.tag == "NOUN" and text != item.lemma
        if training:
            candidates = every.get((item.start, item.end))
            if candidates is not None and not is_name:
                rows.append(candidates)
        elif is_name:
            rows.append(SpanCandidates(item.start, item.end, (GENERIC[item.lemma],), (1.0,)))
        else:
            senses = table.find_part(item.lemma, item.tag)
            rows.append(_of_senses(item.start, item.end, senses))
    return rows


def unpack(tokens: Sequence[Mapping[str, object]]) -> tuple[list[str], list[GoldSense]]:
    """Words and annotations of a sentence whose tokens may be runs joined by hyphens.

    A token: `token`, and where annotated `lemma`, `pos` and `senses`, of which the first counts.
    """
    words: list[str] = []
    gold = []
    for token in tokens:
        start = len(words)
        words.extend(str(token["token"]).replace("-", " - ").split())
        senses = token.get("senses")
        if isinstance(senses, list):
            lemma, tag = str(token["lemma"]), str(token["pos"])
            gold.append(GoldSense(start, len(words), lemma, tag, f"{lemma}%{senses[0]}"))
    return words, gold


def _of_senses(start: int, end: int, senses: Sequence[tuple[Sense, float]]) -> SpanCandidates:
    return SpanCandidates(
        start, end, tuple(s.synset for s, _ in senses), tuple(prior for _, prior in senses)
    )


def _key(words: Iterable[str]) -> str:
    return " ".join(word.lower().replace(".", "") for word in words)


def _runs(n_words: int, longest: int) -> Iterator[Span]:
    for start in range(n_words):
        for end in range(start + 1, min(start + longest, n_words) + 1):
            yield start, end


class PairPieces(NamedTuple):
    """One or two texts in word pieces, `[CLS] a [SEP] b [SEP]`, cut to a length.

    `ends` are the pieces' ends (exclusive) of each word of each text.
    """

    texts: tuple[tuple[str, ...], ...]
    pieces: tuple[str, ...]
    segment_ids: tuple[int, ...]
    ends: tuple[tuple[int, ...], ...]

    def move(self, text: int, candidates: Iterable[SpanCandidates]) -> list[SpanCandidates]:
        """Spans of words of a text as spans of pieces, from the first piece to the last one."""
        ends = self.ends[text]
        before = 1 if text == 0 else self.ends[0][-1] + 1 if self.ends[0] else 2
        starts = (before, *ends[:-1])
        return [c._replace(start=starts[c.start], end=ends[c.end - 1]) for c in candidates]


def pair_pieces(
    texts: Sequence[Sequence[str]], tokenise: Callable[[str], list[str]], *, max_length: int
) -> PairPieces:
    """Word pieces of one or two texts, cut as the released code does.

    Whole words are taken from the end of the longer text, of the first one on ties.
    """
    pieces = [[tokenise(word) for word in text] for text in texts]
    room = max_length - 1 - len(texts)
    while sum(len(part) for text in pieces for part in text) > room:
        lengths = [sum(map(len, text)) for text in pieces]
        pieces[lengths.index(max(lengths))].pop()
    joined, segments, ends = ["[CLS]"], [0], []
    for number, text in enumerate(pieces):
        places = []
        for part in text:
            joined.extend(part)
            places.append(len(joined))
        joined.append("[SEP]")
        segments.extend([number] * (len(joined) - len(segments)))
        ends.append(tuple(places))
    kept = tuple(tuple(text[: len(p)]) for text, p in zip(texts, pieces, strict=True))
    return PairPieces(kept, tuple(joined), tuple(segments), tuple(ends))
