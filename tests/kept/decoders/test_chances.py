"""Log-probabilities of words behind a tree: against writing them, and against plain texts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kept import decoders
from kept.decoders.trees import Readers, chances, knowledge_tree, write
from kept.errors import BatchError
from kg_loaders import KnowledgeGraph
from tests.kept.decoders.test_decoder_trees import TEXT, batch_of, decoder_of, linked, vectors_of
from tests.kept.decoders.test_decoder_trees import graph as graph  # a fixture
from tests.kept.decoders.test_decoder_trees import tokenizer as tokenizer  # a fixture

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("family", decoders.FAMILIES)
@pytest.mark.parametrize("kind", ["branches", "nodes"])
@pytest.mark.parametrize("readers", ["mention", "later"])
def test_what_is_written_is_likeliest_word_by_word(
    family: str, kind: str, readers: Readers, graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """With a cache and without one, for a batch and for its texts alone."""
    host = decoder_of(family)
    vectors = vectors_of(kind, graph, host, tokenizer)
    texts = [linked(), linked("padre lives in rome")]
    batch = batch_of(kind, graph, tokenizer, *texts)
    tree = knowledge_tree(host, batch, readers=readers, vectors=vectors)
    words = write(host, tree, n_new=4).words
    scores = chances(host, tree, words)
    for row, text in enumerate(texts):
        alone = knowledge_tree(
            host, batch_of(kind, graph, tokenizer, text), readers=readers, vectors=vectors
        )
        torch.testing.assert_close(chances(host, alone, words[row][None])[0], scores[row], **CLOSE)
    for position in range(4):
        for other in range(3, 9):
            changed = words.clone()
            changed[:, position] = other
            rest = chances(host, tree, changed)
            assert bool((rest[:, position] <= scores[:, position] + 1e-5).all())
            torch.testing.assert_close(rest[:, :position], scores[:, :position], **CLOSE)


@pytest.mark.parametrize("family", decoders.FAMILIES)
def test_without_facts_they_are_the_hosts_own(
    family: str, graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host = decoder_of(family)
    tree = knowledge_tree(host, batch_of("words", graph, tokenizer, linked(with_link=False)))
    ids = tokenizer(TEXT)["input_ids"]
    words = torch.tensor([[7, 5, 9]])
    with torch.no_grad():
        scores = host(torch.tensor([[*ids, *words[0].tolist()]])).logits[0].log_softmax(-1)
    scores_of_words = [
        float(scores[len(ids) - 1 + i, word]) for i, word in enumerate(words[0].tolist())
    ]
    torch.testing.assert_close(
        chances(host, tree, words)[0], torch.tensor(scores_of_words), **CLOSE
    )


def test_words_that_do_not_fit_are_refused(graph: KnowledgeGraph, tokenizer: Any) -> None:
    host = decoder_of("llama")
    tree = knowledge_tree(host, batch_of("branches", graph, tokenizer, linked()))
    for words in (torch.zeros(2, 1, dtype=torch.long), torch.zeros(1, 0, dtype=torch.long)):
        with pytest.raises(BatchError, match="needs 1 rows of one word or more"):
            chances(host, tree, words)
