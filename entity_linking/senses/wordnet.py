"""Candidates from WordNet: every run of words that is the lemma of a synset.

As KnowBERT reads WordNet (Peters et al. 2019, section 4.1): all spans, nested ones too, with the
synsets of every part of speech. Where we differ from the released code: lemmas come from
WordNet's own morphology (morphy(7)) instead of a look-up list, for the last word of a span and for
the whole of it, and each synset stands once; tests/reference/original_knowbert_candidates.py keeps
the released behaviour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, Link, LinkedText, Mention, require_texts
from kg_loaders import KnowledgeGraph
from kg_loaders.formats.wordnet import PARTS
from kg_loaders.formats.wordnet_lexicon import Lexicon

_WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")


class WordNetCandidates:
    """Links every run of at most `max_words` words to its most frequent sense in `graph`.

    The prior of a synset is (tags + 1) over the sum of that for all candidates, tags being how
    often the sense was seen, the frequency of the lemma among the synset's texts. Candidates stand
    in order of the prior, then of WordNet. Links overlap.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        lexicon: Lexicon,
        *,
        max_words: int = 6,
        max_candidates: int = 30,
    ) -> None:
        if max_words < 1 or max_candidates < 1:
            raise LinkingError(
                f"max_words {max_words} and max_candidates {max_candidates} must be 1 or more"
            )
        self._graph, self._lexicon = graph, lexicon
        self._max_words, self._max_candidates = max_words, max_candidates
        self._known: dict[str, tuple[Candidate, ...]] = {}

    def __repr__(self) -> str:
        return (
            f"WordNetCandidates({self._lexicon!r}, {self._graph!r}, max_words={self._max_words}, "
            f"max_candidates={self._max_candidates})"
        )

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        """One `LinkedText` a text, in order; links are sorted by start, then end."""
        require_texts(texts)
        return [LinkedText(text, tuple(self._links(text))) for text in texts]

    def _links(self, text: str) -> Iterator[Link]:
        words = [match.span() for match in _WORD.finditer(text)]
        for i, (start, _) in enumerate(words):
            for _, end in words[i : i + self._max_words]:
                candidates = self._candidates(text[start:end])
                if candidates:
                    best = candidates[0]
                    yield Link(Mention(start, end), candidates, best.entity, best.prior)

    def _candidates(self, surface: str) -> tuple[Candidate, ...]:
        form = re.sub(r"[\s_]+", "_", surface.lower())
        if form not in self._known:
            self._known[form] = self._decide(form)
        return self._known[form]

    def _decide(self, form: str) -> tuple[Candidate, ...]:
        tags: dict[str, int] = {}
        for part in PARTS.values():
            for lemma in self._lexicon.morphy(form, part):
                for synset in self._lexicon.synsets(lemma, part):
                    entity = self._graph.entities.find(synset)
                    if entity is not None:
                        seen = tag_count(self._graph, entity, lemma)
                        tags[synset] = max(tags.get(synset, 0), seen)
        ranked = sorted(tags.items(), key=lambda pair: -pair[1])[: self._max_candidates]
        total = sum(n + 1 for _, n in ranked)
        return tuple(Candidate(name, (n + 1) / total, (n + 1) / total) for name, n in ranked)


def tag_count(graph: KnowledgeGraph, entity: int, lemma: str) -> int:
    """How often the sense of `lemma` in a synset of a WordNet graph was tagged."""
    texts, name = graph.entity_texts, lemma.replace("_", " ")
    rows = range(int(texts.offsets[entity]), int(texts.offsets[entity + 1]))
    return max(
        (int(texts.counts[i]) for i in rows if str(texts.values[i].as_py()).lower() == name),
        default=0,
    )
