"""KnowBERT as a linker: what the model chooses, what stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.batches import MASK_ROW, PAD_ROW, UNKNOWN_ROW
from kept.encoders.knowbert import KnowBERT
from kept.errors import ConfigError
from kept.linking.knowbert import KnowBERTLinker, decode
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from tests.kept.tiny_hosts import tiny_host

SMALL = {"width": 8, "n_heads": 2, "feed_forward": 12, "scorer_width": 6}
TEXTS = ["the old paris", "near berlin and near paris of the old", "the river", ""]


class Words:
    """Links "paris" to two candidates, "berlin" to one, "old" to nothing, "river" outside."""

    CANDIDATES = {
        "paris": ("Q90", "Q830149"), "berlin": ("Q64",), "old": (), "river": ("Q-else",),
    }  # fmt: skip

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        return [LinkedText(text, tuple(self._links(text))) for text in texts]

    def _links(self, text: str) -> list[Link]:
        links = []
        for at in range(len(text)):
            for word, names in self.CANDIDATES.items():
                if text.startswith(word, at):
                    candidates = tuple(
                        Candidate(n, 0.7 - 0.4 * i, 0.7 - 0.4 * i) for i, n in enumerate(names)
                    )
                    choice = names[0] if names else None
                    links.append(Link(Mention(at, at + len(word)), candidates, choice, 0.25))
        return links


@pytest.fixture
def encoder(small_graph: KnowledgeGraph, tokenizer: Any) -> KnowBERT:
    host = tiny_host(n_words=len(tokenizer))
    torch.manual_seed(2)
    return KnowBERT.for_graph(host, small_graph, tokenizer, seed=0, kars=[SMALL])


def shifted(encoder: KnowBERT, amount: float) -> None:
    """All scores of all candidates higher by `amount`."""
    with torch.no_grad():
        encoder.linker("kg").scorer.outer.bias.add_(amount)


def test_it_chooses_among_the_candidates(
    encoder: KnowBERT, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    shifted(encoder, 5.0)
    linker = KnowBERTLinker(encoder, tokenizer, small_graph, Words())
    linked = linker.link(TEXTS)
    assert [text.text for text in linked] == TEXTS
    for text, before in zip(linked, Words().link(TEXTS), strict=True):
        for link, old in zip(text.links, before.links, strict=True):
            assert link.mention == old.mention
            names = {c.entity for c in old.candidates}
            if not names or names == {"Q-else"}:
                assert link == old
                continue
            assert {c.entity for c in link.candidates} == names
            scores = [c.score for c in link.candidates]
            assert scores == sorted(scores, reverse=True)
            assert link.entity == link.candidates[0].entity
            assert {c.entity: c.prior for c in link.candidates} == {
                c.entity: c.prior for c in old.candidates
            }
            assert 0.9 / len(names) < link.confidence <= 1
    alone = [linker.link([text])[0] for text in TEXTS]
    assert [[k.entity for k in t.links] for t in alone] == [
        [k.entity for k in t.links] for t in linked
    ]
    assert linker.link([]) == []


def test_below_the_threshold_it_is_nil(
    encoder: KnowBERT, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    shifted(encoder, -5.0)
    (linked,) = KnowBERTLinker(encoder, tokenizer, small_graph, Words()).link(["the old paris"])
    paris = linked.links[-1]
    assert paris.entity is None
    assert len(paris.candidates) == 2
    assert paris.confidence > 0.9


def test_what_is_cut_off_stays(
    encoder: KnowBERT, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    shifted(encoder, 5.0)
    linker = KnowBERTLinker(encoder, tokenizer, small_graph, Words(), max_words=10)
    (linked,) = linker.link(["paris and near berlin"])
    before = Words().link(["paris and near berlin"])[0].links
    assert linked.links[0].confidence != before[0].confidence
    assert linked.links[1] == before[1]


def test_graphs_must_fit(encoder: KnowBERT, small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    other = graph_from_records([Triple("Q1", "P1", "Q2")])
    with pytest.raises(GraphMismatchError):
        KnowBERTLinker(encoder, tokenizer, other, Words())
    two = KnowBERT.from_host(
        tiny_host(), small_graph, kars=[SMALL, {**SMALL, "name": "b"}], others=[other]
    )
    with pytest.raises(ConfigError, match="give 1 further graphs, not 0"):
        KnowBERTLinker(two, tokenizer, small_graph, Words())


def test_decoding() -> None:
    scores = torch.tensor([[[0.1, 0.4], [0.2, -1.0], [0.0, -0.1], [3.0, 1.0], [-1e4, -1e4]]])
    ids = torch.tensor([[[5, 6], [7, 8], [9, 4], [UNKNOWN_ROW, 3], [PAD_ROW, PAD_ROW]]])
    assert decode(scores, ids, threshold=0.0).tolist() == [[6, 7, UNKNOWN_ROW, UNKNOWN_ROW, 0]]
    assert decode(scores, ids).tolist() == [[6, 7, 9, UNKNOWN_ROW, UNKNOWN_ROW]]
    assert decode(scores[:, :1], torch.full((1, 1, 2), MASK_ROW)).tolist() == [[MASK_ROW]]
