"""Candidates from WordNet: nested runs, morphology, priors from tags."""

from __future__ import annotations

import pytest

from entity_linking.errors import LinkingError
from entity_linking.senses.wordnet import WordNetCandidates
from kg_loaders import Text, TextKind, Triple, graph_from_records
from kg_loaders.formats.wordnet_lexicon import Lexicon, parts_of_speech

DOG, CHASE, HOT, HOTDOG, LAW = (
    "wn:00000001-n", "wn:00000002-v", "wn:00000003-a", "wn:00000004-n", "wn:00000005-n",
)  # fmt: skip
OUTSIDE = "wn:00000009-n"
SYNSETS = {
    ("dog", "n"): (DOG, OUTSIDE), ("dog", "v"): (CHASE,), ("hot", "a"): (HOT,),
    ("hot_dog", "n"): (HOTDOG,), ("mother-in-law", "n"): (LAW,), ("man", "n"): (LAW,),
}  # fmt: skip


@pytest.fixture(scope="module")
def linker() -> WordNetCandidates:
    label, alias = TextKind.LABEL, TextKind.ALIAS
    graph = graph_from_records(
        [
            Triple(DOG, "derived", CHASE),
            Triple(HOT, "part", HOTDOG),
            Text(DOG, label, "dog", "en", 42),
            Text(CHASE, label, "chase", "en", 9),
            Text(CHASE, alias, "dog", "en", 2),
            Text(HOTDOG, label, "hot dog", "en", 1),
            Text(LAW, label, "mother-in-law", "en", 0),
        ]
    )
    return WordNetCandidates(graph, Lexicon(SYNSETS, {("men", "n"): ("man",)}))


def candidates_of(linker: WordNetCandidates, text: str) -> dict[str, list[str]]:
    (linked,) = linker.link([text])
    return {
        text[k.mention.start : k.mention.end]: [c.entity for c in k.candidates]
        for k in linked.links
    }


def test_runs_of_words_and_their_senses(linker: WordNetCandidates) -> None:
    assert candidates_of(linker, "The hot dogs, my mother-in-law!") == {
        "hot": [HOT], "hot dogs": [HOTDOG], "dogs": [DOG, CHASE], "mother-in-law": [LAW],
    }  # fmt: skip
    assert candidates_of(linker, "Men DOG") == {"Men": [LAW], "DOG": [DOG, CHASE]}
    assert candidates_of(linker, "nothing here") == {}


def test_priors_are_tags_of_the_lemma_plus_one(linker: WordNetCandidates) -> None:
    (linked,) = linker.link(["a dog"])
    (link,) = linked.links
    assert [c.prior for c in link.candidates] == pytest.approx([43 / 46, 3 / 46])
    assert (link.entity, link.confidence) == (DOG, link.candidates[0].prior)


def test_links_are_sorted_and_bounded(linker: WordNetCandidates) -> None:
    (linked,) = linker.link(["hot dog"])
    spans = [(k.mention.start, k.mention.end) for k in linked.links]
    assert spans == [(0, 3), (0, 7), (4, 7)]
    assert "max_words=6" in repr(linker)
    with pytest.raises(LinkingError, match="must be 1 or more"):
        WordNetCandidates(linker._graph, linker._lexicon, max_words=0)
    short = WordNetCandidates(linker._graph, linker._lexicon, max_words=1, max_candidates=1)
    assert candidates_of(short, "hot dog") == {"hot": [HOT], "dog": [DOG]}


def test_parts_of_speech(linker: WordNetCandidates) -> None:
    graph = linker._graph
    parts = dict(zip(map(str, graph.entities), parts_of_speech(graph).tolist(), strict=True))
    assert parts == {DOG: 1, CHASE: 2, HOT: 3, HOTDOG: 1, LAW: 1}
    other = graph_from_records([Triple("Q1-x", "r", "Q2")])
    assert parts_of_speech(other).tolist() == [0, 0]
