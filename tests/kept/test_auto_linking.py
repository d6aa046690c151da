"""`AutoEncoder` with KnowBERT: what the model itself chose for every mention."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from entity_linking import DictionaryLinker, LinkedText
from kept.auto import AutoEncoder
from kept.encoders.knowbert import KnowBERT
from kept.encoders.plain import Plain
from kept.linking.knowbert import KnowBERTLinker
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import tiny_host

TEXTS = ["Paris and Berlin in the old city of Paris", "a river", "near Germany"]
KAR = {"width": 8, "n_heads": 2, "feed_forward": 12, "scorer_width": 6}


def encoder(graph: KnowledgeGraph, tokenizer: Any, *kars: dict[str, Any]) -> KnowBERT:
    torch.manual_seed(2)
    return KnowBERT.from_host(
        tiny_host(n_words=len(tokenizer), n_positions=128),
        graph,
        kars=[{**KAR, **kar} for kar in kars],
        others=[graph] * (len(kars) - 1),
    )


@pytest.mark.parametrize("kar", [{"loss": "softmax"}, {"threshold": -0.02}, {"threshold": 50.0}])
def test_choices_are_those_of_the_linker(
    kar: dict[str, Any], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    model = encoder(small_graph, tokenizer, kar)
    dictionary = DictionaryLinker(small_graph)
    linker = KnowBERTLinker(model, tokenizer, small_graph, dictionary)
    n_asked = 0
    for encoded, linked in zip(
        AutoEncoder(model, tokenizer).encode(TEXTS, small_graph), linker.link(TEXTS), strict=True
    ):
        assert encoded.linking is not None
        assert [(c.mention, c.entity) for c in encoded.linking] == [
            (link.mention, link.entity) for link in linked.links
        ]
        for choice, link in zip(encoded.linking, linked.links, strict=True):
            assert choice.kar == "kg"
            assert choice.score == pytest.approx(link.candidates[0].score, abs=1e-5)
            assert (choice.entity is None) is (kar.get("threshold", -1e9) >= choice.score)
            n_asked += 1
    assert n_asked == 4


def test_every_graph_has_its_choices(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Any
) -> None:
    small_graph.save(tmp_path)
    model = encoder(small_graph, tokenizer, {"threshold": 50.0}, {"name": "b", "loss": "softmax"})
    auto = AutoEncoder(model, tokenizer, view={"further": [{"kg": str(tmp_path)}]})
    unlinked_text = LinkedText("Paris", ())
    first, river, _, unlinked = auto.encode([*TEXTS, unlinked_text], small_graph)
    assert [(c.kar, c.entity is None) for c in first.linking] == [("kg", True)] * 3 + [
        ("b", False)
    ] * 3
    assert first.linking[4].entity == "Q64"
    assert river.linking == ()
    assert [c.kar for c in unlinked.linking] == ["b"]


def test_other_methods_choose_nothing(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    plain = Plain.from_host(tiny_host(n_words=len(tokenizer), n_positions=128), small_graph)
    (text,) = AutoEncoder(plain, tokenizer).encode(["Paris"], small_graph)
    assert text.linking is None
