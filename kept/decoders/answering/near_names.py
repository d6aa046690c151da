"""Names of a graph that a question may have meant: misspelt, in another case, or a part of one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from rapidfuzz import fuzz, process

from entity_linking.names.identifiers import by_identifiers
from entity_linking.names.rules.words import STOP_WORDS
from kg_loaders import KnowledgeGraph, TextKind

LEAST_ALIKE = 80.0
MOST_WORDS, LEAST_LETTERS = 4, 4
N_OFFERED = 3
MOST_NAMES = 500_000
"""In a graph with more names they are not compared: it would take longer than an answer."""


class NearNames:
    """The names of a graph, to compare with the words of questions."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        texts = by_identifiers(graph).entity_texts
        kinds = texts.kinds.tolist()
        values = texts.values.to_pylist() if len(kinds) <= MOST_NAMES else []
        named = (TextKind.LABEL, TextKind.ALIAS)
        names = (value for value, kind in zip(values, kinds, strict=False) if kind in named)
        self.names = list(dict.fromkeys(names))
        self.folded = [name.casefold() for name in self.names]

    def of(self, question: str, common: Set[str] = frozenset()) -> list[str]:
        """Return the names most like some words of `question`, at most three; [] where none is.

        Words in `common` are no names by themselves.

        >>> from kg_loaders import Triple, graph_from_records
        >>> names = NearNames(graph_from_records([Triple("Brada Okoral", "lives in", "Orlbach")]))
        >>> names.of("Where does Brada Okorel live?"), names.of("Where does Okoral live?")
        (['Brada Okoral'], ['Brada Okoral'])
        """
        spans = list(_spans(question, common))
        matches = [
            (score, len(span), index)
            for span in spans
            for _, score, index in process.extract(
                span, self.folded, scorer=fuzz.ratio, score_cutoff=LEAST_ALIKE, limit=N_OFFERED
            )
        ]
        if matches:
            best = max(matches)[0]
            near = sorted((each for each in matches if each[0] > best - 10), reverse=True)
            return list(dict.fromkeys(self.names[index] for _, _, index in near))[:N_OFFERED]
        return self._in_part(spans)

    def _in_part(self, spans: Sequence[str]) -> list[str]:
        """Names that have the words of a span, if there are few."""
        for span in spans:
            word = re.compile(rf"\b{re.escape(span)}\b")
            names = [
                name for name, f in zip(self.names, self.folded, strict=True) if word.search(f)
            ]
            if 0 < len(names) <= N_OFFERED:
                return names
        return []


def _spans(question: str, common: Set[str]) -> Iterator[str]:
    """Words next to each other that may be a name, the longest first."""
    words = [re.sub(r"['’]s?$", "", word) for word in re.findall(r"[\w'’.-]+", question.casefold())]
    words = [word.rstrip(".") for word in words]
    for n in range(min(MOST_WORDS, len(words)), 0, -1):
        for i in range(len(words) - n + 1):
            span = words[i : i + n]
            is_name = not (STOP_WORDS | common).issuperset(span)
            if (
                is_name
                and not STOP_WORDS & {span[0], span[-1]}
                and sum(map(len, span)) >= LEAST_LETTERS
            ):
                yield " ".join(span)
