"""Pairs of terms that a lexicon relates, and similar pairs that it does not.

Lauscher et al. 2019, "Specializing Unsupervised Pretraining Models for Word-Level Semantic
Similarity" (LIBERT; COLING 2020), section 3. Pairs come from a graph (two names of one entity are
synonyms, a triple joins the names of its ends) or from a file of constraints.

Axis legend: term, pair, width.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kept import hosts
from kept.errors import ConfigError
from kept.vectors import Wikipedia2VecFile, mean_pieces
from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.reading.lines import read_lines

Pair = tuple[str, str]
Example = tuple[str, str, bool]
"""Two terms, and whether the lexicon joins them."""
LANGUAGE = "en_"
IS_A = ("hypernym", "instance_hypernym", "P31", "P279")
"""Relations whose ends are joined like synonyms: WordNet's, and Wikidata's for the same."""


def clean(term: str) -> str:
    """A term as it is read: lower case, "_" as a blank, without the language in front.

    The released code removes the first "en_" wherever it stands, in "Rhoen_oak", too.

    >>> clean("en_Hot_Dog")
    'hot dog'
    """
    return term.removeprefix(LANGUAGE).replace("_", " ").lower().strip()


def read_pairs(path: str | Path) -> list[Pair]:
    """The pairs of a file of constraints, in its order: two terms a line, `en_plank en_board`.

    Raises `SourceError` for a file that is not there, `DamageError` at a line of other fields.
    """
    file, report, pairs = Path(path), DamageReport(), []
    if not file.is_file():
        raise SourceError(f"{file} is not a file; give one of constraints, two terms a line")
    for number, offset, line in read_lines(file, report):
        fields = [clean(field) for field in line.decode().split()]
        if len(fields) == 2 and all(fields):
            pairs.append((fields[0], fields[1]))
        elif fields:
            report.reject(str(file), number, offset, "not two terms and a blank between", line)
    return pairs


def graph_pairs(graph: KnowledgeGraph, relations: Sequence[str] | None = None) -> list[Pair]:
    """Names (labels and aliases) of one entity, and names of both ends of a triple of `relations`.

    `relations` None are those of `IS_A` that the graph has. Raises `ConfigError` for a relation
    that it does not have.
    """
    joining = IS_A if relations is None else relations
    relation_ids = {name: graph.relations.find(name) for name in joining}
    missing = [name for name, number in relation_ids.items() if number is None]
    if missing and relations is not None:
        raise ConfigError(
            f"the graph has no relation {missing[0]!r}; it has {', '.join(graph.relations)}"
        )
    names = [entity_names(graph, entity) for entity in range(graph.n_entities)]
    pairs = [(one, other) for same in names for one in same for other in same]
    rows = np.isin(graph.triples[:, 1], [i for i in relation_ids.values() if i is not None])
    for head, _, tail in graph.triples[rows].tolist():
        pairs += [(one, other) for one in names[head] for other in names[tail]]
    return [pair for pair in pairs if pair[0] != pair[1]]


def entity_names(graph: KnowledgeGraph, entity: int) -> list[str]:
    """An entity's label and aliases as terms, each once; none for one without a label."""
    texts = [
        text
        for kind in (TextKind.LABEL, TextKind.ALIAS)
        for text, _ in graph.entity_texts.of(entity, kind)
    ]
    return [name for name in dict.fromkeys(map(clean, texts)) if name]


class Lexicon:
    """Distinct pairs of terms, sorted; the order of the two terms matters. `pairs [pair 2]`."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        ordered = sorted(set(pairs))
        self.terms = sorted({term for pair in ordered for term in pair})
        self._numbers = {term: i for i, term in enumerate(self.terms)}
        rows = [[self._numbers[one], self._numbers[other]] for one, other in ordered]
        self.pairs = np.array(rows, np.int64).reshape(-1, 2)
        both = np.concatenate([self.pairs, self.pairs[:, ::-1]])
        self._keys = np.unique(both @ np.array([len(self.terms), 1]))

    def __len__(self) -> int:
        return len(self.pairs)

    def __contains__(self, term: str) -> bool:
        return term in self._numbers

    def __getitem__(self, row: int) -> Pair:
        """The two terms of pair `row`."""
        one, other = self.pairs[row].tolist()
        return self.terms[one], self.terms[other]

    def joins(self, one: str, other: str) -> bool:
        """Whether the two terms are a pair, in either order."""
        if one not in self._numbers or other not in self._numbers:
            return False
        key = self._numbers[one] * len(self.terms) + self._numbers[other]
        at = int(np.searchsorted(self._keys, key))
        return at < len(self._keys) and int(self._keys[at]) == key


def of_terms(
    terms: Sequence[str], words: Mapping[str, NDArray[np.floating[Any]]]
) -> NDArray[np.float64]:
    """Unit vectors of terms, each the mean of its words' own, `[term width]`.

    A word is looked up as it is, then with a capital. A term none of whose words has a vector has
    a row of NaN.
    """
    width = len(next(iter(words.values()), ()))
    vectors = np.full((len(terms), width), np.nan)
    for row, term in enumerate(terms):
        parts = [words.get(part, words.get(part.capitalize())) for part in term.split(" ")]
        if resolved := [part for part in parts if part is not None]:
            vectors[row] = np.mean(resolved, axis=0)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, np.nan)


def with_neighbours(
    pairs: Sequence[Pair], lexicon: Lexicon, alike: NDArray[np.float64]
) -> list[Example]:
    """Return each pair and up to two hard negatives: one of its first term, one of its second.

    `alike [term term]` is the similarity of the terms of `pairs`, in `terms_of`'s order; NaN:
    unknown. The partner is the most similar term of the batch that is not in the pair nor related
    to it.
    """
    terms, neighbours = terms_of(pairs), []
    numbers = {term: i for i, term in enumerate(terms)}
    for one, other in pairs:
        neighbours.append((one, other, True))
        for term in (one, other):
            near = alike[numbers[term]]
            order = np.argsort(-near, kind="stable")[: np.isfinite(near).sum()]  # NaN comes last
            partners = (terms[i] for i in order.tolist())
            partner = next(
                (p for p in partners if p not in (one, other) and not lexicon.joins(term, p)), None
            )
            if partner is not None:
                neighbours.append((term, partner, False))
    return neighbours


def terms_of(pairs: Sequence[Pair]) -> list[str]:
    """The distinct terms of a batch, in order of appearance."""
    return list(dict.fromkeys(term for pair in pairs for term in pair))


class WordVectors:
    """Vectors of the words of `terms`, read when first needed.

    `source` is a text file in word2vec's form (`kept.vectors.Wikipedia2VecFile`), or a host, for
    the mean of its word pieces. A copy that is sent to a worker reads them again.
    """

    def __init__(self, source: str, terms: Iterable[str]) -> None:
        self.source = source
        self._words = sorted({word for term in terms for word in term.split(" ") if word})

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "vectors_by_word"}

    @cached_property
    def vectors_by_word(self) -> Mapping[str, NDArray[np.floating[Any]]]:
        """Vectors by word, of the words that the source has."""
        if Path(self.source).is_file():
            forms = {*self._words, *(word.capitalize() for word in self._words)}
            return Wikipedia2VecFile(Path(self.source)).words(forms)
        host, tokenizer = hosts.load_host(self.source), hosts.load_tokenizer(self.source)
        vectors, has_vector = mean_pieces(
            self._words, hosts.word_table(host).weight.detach(), tokenizer
        )
        rows = zip(self._words, vectors.numpy(), has_vector.tolist(), strict=True)
        return {word: vector for word, vector, is_known in rows if is_known}
