"""Branches and nodes in decoders: on every family, against a loop, and against texts alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from entity_linking.mentions import Link, LinkedText, Mention
from kept import decoders
from kept.batches import KnowledgeBatch
from kept.decoders.trees import (
    LabelVectors,
    Readers,
    answer_loss,
    chances,
    knowledge_tree,
    read_tree,
    trunk_of,
    write,
)
from kept.errors import BatchError, ConfigError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.views.colake import CoLAKEView
from kept.graphs.views.kbert import KBERTView
from kept.graphs.views.words import WordsView
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_decoders import tiny_decoder

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
TEXT = "what does padre do all day"
WORDS = [*TEXT.split(" "), "works", "as", "lives", "in", "baker", "rome", "a", "old", "town", "x"]
N_WORDS = 3 + len(WORDS)
FACTS = [("padre", "works as", "baker"), ("padre", "lives in", "old town")]
every_family = pytest.mark.parametrize("family", decoders.FAMILIES)
all_readers = pytest.mark.parametrize("readers", ["mention", "later"])
views = pytest.mark.parametrize("kind", ["branches", "nodes"])


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {word: number for number, word in enumerate(["<unk>", "<pad>", "</s>", *WORDS])}
    tokenizer_ = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer_.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_, pad_token="<pad>", unk_token="<unk>", eos_token="</s>"
    )


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(FACTS)


def decoder_of(family: str) -> PreTrainedModel:
    return tiny_decoder(family, vocab_size=N_WORDS)


def linked(text: str = TEXT, *, with_link: bool = True) -> LinkedText:
    start = text.index("padre")
    link = Link(Mention(start, start + 5), (), "padre", 1.0)
    return LinkedText(text, (link,) if with_link else ())


def batch_of(
    kind: str, graph: KnowledgeGraph, tokenizer: Any, *texts: LinkedText
) -> KnowledgeBatch:
    makers: dict[str, Any] = {
        "branches": (KBERTView(graph, tokenizer), {"replace_mentions": False}),
        "nodes": (CoLAKEView(), {"replace_mentions": True}),
        "words": (WordsView(), {"replace_mentions": False, "max_neighbours": 0}),
    }
    view, fields = makers[kind]
    config = BuilderConfig(policy="file", drop_probability=0.0, **fields)
    built = [build(text, tokenizer, graph, generator=generator(0), config=config) for text in texts]
    return KnowledgeBatch.stack([view(each) for each in built], word_pad_id=1)


def vectors_of(kind: str, graph: KnowledgeGraph, host: Any, tokenizer: Any) -> LabelVectors | None:
    return LabelVectors.of(graph, host, tokenizer) if kind == "nodes" else None


@every_family
@all_readers
def test_without_facts_the_states_are_the_hosts_own_bitwise(
    family: str, readers: Readers, graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host = decoder_of(family)
    batch = batch_of("branches", graph, tokenizer, linked(with_link=False))
    with torch.no_grad():
        ours = read_tree(host, knowledge_tree(host, batch, readers=readers))
        theirs = host(
            batch.node_ids, attention_mask=batch.node_mask.long(), output_hidden_states=True
        ).hidden_states[-1]
    assert torch.equal(ours, theirs)


@every_family
@views
@all_readers
def test_a_batch_is_as_its_texts_alone_and_the_cache_changes_nothing(
    family: str, kind: str, readers: Readers, graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host = decoder_of(family)
    vectors = vectors_of(kind, graph, host, tokenizer)
    texts = [linked(), linked("padre lives in rome"), linked("a padre", with_link=False)]
    together = knowledge_tree(
        host, batch_of(kind, graph, tokenizer, *texts), readers=readers, vectors=vectors
    )
    with torch.no_grad():
        states = read_tree(host, together)
    written = write(host, together, n_new=3).words
    for row, text in enumerate(texts):
        alone = knowledge_tree(
            host, batch_of(kind, graph, tokenizer, text), readers=readers, vectors=vectors
        )
        with torch.no_grad():
            alone_states = read_tree(host, alone)[0]
        torch.testing.assert_close(states[row, : len(alone_states)], alone_states, **CLOSE)
        assert written[row].tolist() == write(host, alone, n_new=3).words[0].tolist()
        if readers == "later" and kind == "branches":
            assert written[row].tolist() == _uncached(host, tokenizer, graph, text, 3)


def _uncached(
    host: Any, tokenizer: Any, graph: KnowledgeGraph, text: LinkedText, n: int
) -> list[int]:
    """Each word by reading the whole tree anew, the words so far part of the text."""
    words: list[int] = []
    for _ in range(n):
        batch = batch_of("branches", graph, tokenizer, text)
        tree = knowledge_tree(host, batch)
        with torch.no_grad():
            state = read_tree(host, tree)[0, tree.last[0]]
        words.append(int(decoders.logits(host, state).argmax()))
        piece = tokenizer.convert_ids_to_tokens(words[-1])
        text = dataclasses.replace(text, text=f"{text.text} {piece}")
    return words


@views
@all_readers
def test_masks_against_a_loop(
    kind: str, readers: Readers, graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """Facts by name: who sees whom is said of the words that nodes stand for."""
    host = decoder_of("llama")
    batch = batch_of(kind, graph, tokenizer, linked())
    tree = knowledge_tree(
        host, batch, readers=readers, vectors=vectors_of(kind, graph, host, tokenizer)
    )
    trunk, positions = trunk_of(batch)[0].tolist(), batch.positions[0].tolist()
    seen, n = tree.visibility.mask[0].numpy(), len(trunk)
    visible = batch.visibility.mask[0].numpy()
    expected = np.zeros((n, n), np.bool_)
    for i in range(n):
        for j in range(n):
            if trunk[i] and trunk[j]:
                expected[i, j] = positions[j] <= positions[i]
            elif readers == "mention":
                expected[i, j] = visible[i, j]
            elif not trunk[i] and not trunk[j]:
                expected[i, j] = visible[i, j] and positions[j] <= positions[i]
            else:
                expected[i, j] = positions[j] <= 2 if trunk[j] else positions[i] >= 3
    assert (
        min(p for p, is_trunk in zip(positions, trunk, strict=True) if not is_trunk) == 3
    )  # facts begin behind "what does padre"
    np.testing.assert_array_equal(seen, expected)


@every_family
def test_a_branch_reads_as_the_text_that_it_continues(
    family: str, graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host = decoder_of(family)
    batch = batch_of("branches", graph, tokenizer, linked())
    with torch.no_grad():
        states = read_tree(host, knowledge_tree(host, batch))[0]
        text = torch.tensor([tokenizer("what does padre works as baker")["input_ids"]])
        alone = read_tree(
            host,
            knowledge_tree(
                host,
                batch_of(
                    "words", graph, tokenizer, LinkedText("what does padre works as baker", ())
                ),
            ),
        )[0]
    where = [batch.node_ids[0].tolist().index(piece) for piece in text[0].tolist()]
    torch.testing.assert_close(states[where], alone, **CLOSE)


@every_family
@views
@all_readers
def test_what_is_not_visible_has_no_influence_and_facts_have(
    family: str, kind: str, readers: Readers, graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host = decoder_of(family)
    batch = batch_of(kind, graph, tokenizer, linked())
    tree = knowledge_tree(
        host, batch, readers=readers, vectors=vectors_of(kind, graph, host, tokenizer)
    )
    node = int((~trunk_of(batch)[0]).nonzero()[0])
    changed = tree.vectors.clone()
    changed[0, node, 0] += 1
    with torch.no_grad():
        before = read_tree(host, tree)[0]
        after = read_tree(host, dataclasses.replace(tree, vectors=changed))[0]
    reached = tree.visibility.mask[0, :, node]
    for _ in range(len(reached)):
        reached = (tree.visibility.mask[0] & reached[None]).any(dim=1)
    moved = (before - after).abs().amax(dim=1)
    assert torch.equal(before[~reached], after[~reached])
    assert bool((moved[tree.visibility.mask[0, :, node]] > 1e-5).all())
    assert bool(reached[tree.last[0]])


def test_nodes_are_the_mean_of_their_label(graph: KnowledgeGraph, tokenizer: Any) -> None:
    host = decoder_of("llama")
    vectors = LabelVectors.of(graph, host, tokenizer)
    table = host.get_input_embeddings().weight
    ids = tokenizer("old town")["input_ids"]
    town = graph.entities.find("old town")
    torch.testing.assert_close(vectors.entities[town], table[ids].mean(0))
    batch = batch_of("nodes", graph, tokenizer, linked())
    tree = knowledge_tree(host, batch, vectors=vectors)
    assert any(bool(torch.equal(node, vectors.entities[town])) for node in tree.vectors[0])


def test_the_loss_is_that_of_the_last_words(graph: KnowledgeGraph, tokenizer: Any) -> None:
    host = decoder_of("llama")
    texts = [linked(), linked("padre lives in rome")]
    batch = batch_of("branches", graph, tokenizer, *texts)
    tree = knowledge_tree(host, batch)
    loss = answer_loss(host, tree, batch, torch.tensor([2, 1]))
    states, each = read_tree(host, tree), []
    for row, text, n in ((0, texts[0], 2), (1, texts[1], 1)):
        ids = tokenizer(text.text)["input_ids"]
        scores = decoders.logits(host, states[row, : len(ids)]).log_softmax(-1)
        each += [-scores[position - 1, ids[position]] for position in range(len(ids) - n, len(ids))]
    torch.testing.assert_close(loss, torch.stack(each).mean())


def test_what_does_not_fit_is_refused(graph: KnowledgeGraph, tokenizer: Any) -> None:
    host = decoder_of("llama")
    branches = batch_of("branches", graph, tokenizer, linked())
    with pytest.raises(ConfigError, match="choose one of mention, later"):
        knowledge_tree(host, branches, readers="all")  # type: ignore[arg-type]
    with pytest.raises(BatchError, match="give LabelVectors"):
        knowledge_tree(host, branches.replace(node_ids=branches.node_ids + 40))
    with pytest.raises(BatchError, match=r"answers of \[9\] words need texts"):
        answer_loss(host, knowledge_tree(host, branches), branches, torch.tensor([9]))


@every_family
@pytest.mark.parametrize("kind", ["branches", "nodes", "words"])
def test_words_drawn_after_knowledge_are_those_drawn_by_hand(
    family: str, kind: str, graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host = decoder_of(family)
    batch = batch_of(kind, graph, tokenizer, linked(), linked("padre lives in rome"))
    tree = knowledge_tree(
        host, batch, readers="later", vectors=vectors_of(kind, graph, host, tokenizer)
    )
    written = write(host, tree, n_new=4, draws=torch.Generator().manual_seed(7), temperature=0.7)
    draws, words = torch.Generator().manual_seed(7), torch.empty(2, 0, dtype=torch.long)
    for _ in range(4):
        every = [_last_chance(host, tree, words, word) for word in range(N_WORDS)]
        shares = torch.stack(every, dim=1)
        sharper = (shares / 0.7).softmax(dim=-1)
        word = torch.multinomial(sharper, 1, generator=draws)
        words = torch.cat([words, word], dim=1)
    assert written.words.tolist() == words.tolist()
    assert written.words.tolist() != write(host, tree, n_new=4).words.tolist()
    with pytest.raises(ConfigError, match="temperature 0"):
        write(host, tree, n_new=1, temperature=0)


def _last_chance(host: PreTrainedModel, tree: Any, words: torch.Tensor, word: int) -> torch.Tensor:
    with torch.no_grad():
        return chances(host, tree, functional.pad(words, (0, 1), value=word))[:, -1]


@every_family
def test_facts_as_words_are_drawn_and_searched_as_by_generate(
    family: str, graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host = decoder_of(family)
    batch = batch_of("words", graph, tokenizer, linked("padre works as baker what does padre do"))
    tree = knowledge_tree(host, batch, readers="later")
    options = {
        "attention_mask": batch.node_mask.long(), "max_new_tokens": 5, "pad_token_id": 1,
        "eos_token_id": None,
    }  # fmt: skip
    n = batch.node_ids.shape[1]
    greedy = host.generate(batch.node_ids, do_sample=False, **options)[:, n:]
    assert write(host, tree, n_new=5).words.tolist() == greedy.tolist()
    torch.manual_seed(3)
    generated = host.generate(batch.node_ids, do_sample=True, top_k=0, temperature=0.7, **options)[
        :, n:
    ]
    ours = write(host, tree, n_new=5, draws=torch.Generator().manual_seed(3), temperature=0.7)
    assert ours.words.tolist() == generated.tolist()
