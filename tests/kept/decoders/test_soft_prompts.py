"""Soft prompts of a graph network: against torch-geometric's own loss, rows, learning, off."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from kept import decoders
from kept.decoders.soft_prompts import (
    Facts,
    GraphPrompter,
    LabelSentences,
    SoftPromptOptions,
    said_words,
)
from kept.decoders.trees import LabelVectors, chances, read_tree, write
from kept.errors import BatchError, ConfigError
from tests.kept.decoders.test_asking import asker_of
from tests.kept.tiny_chat import WordVectors
from tests.kept.tiny_decoders import texts, tiny_decoder

pytest.importorskip("torch_geometric.llm", reason="torch-geometric has no GRetriever here")
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
OPTIONS = SoftPromptOptions(vector_width=6, n_soft=3, width=8)


def facts(seed: int, n: int = 4) -> Facts:
    draws = torch.Generator().manual_seed(seed)
    ends = torch.stack([torch.zeros(n - 1, dtype=torch.long), torch.arange(1, n)])
    return Facts(
        torch.randn(n, 6, generator=draws), torch.cat([ends, ends.flip(0)], 1),
        torch.randn(2 * (n - 1), 6, generator=draws),
    )  # fmt: skip


@pytest.mark.parametrize("family", decoders.FAMILIES)
def test_a_batch_is_as_its_texts_alone_and_without_facts_the_host(family: str) -> None:
    host, (ids, mask) = tiny_decoder(family), texts()
    prompter = GraphPrompter(host, OPTIONS).eval()
    facts_of_rows = [facts(0), None, facts(1, 3)]
    together = prompter.tree(host, facts_of_rows, ids, mask)
    words = write(host, together, n_new=3).words
    with torch.no_grad():
        states = read_tree(host, together)
        for row, each in enumerate(facts_of_rows):
            alone = prompter.tree(
                host, [each], ids[row, mask[row]][None], mask[row, mask[row]][None]
            )
            alone_states = read_tree(host, alone)[0]
            n = len(alone_states)
            start = 3 if each is None else 0
            torch.testing.assert_close(states[row, start : start + n], alone_states, **CLOSE)
            assert torch.equal(write(host, alone, n_new=3).words[0], words[row])
        none = read_tree(host, prompter.tree(host, [None] * 3, ids, mask))
        plain = host(ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states[-1]
    assert torch.equal(none[mask], plain[mask])


def test_the_loss_is_that_of_torch_geometrics_g_retriever(tmp_path: Path) -> None:
    """Its class around a class of its own for the decoder, on the same weights and words."""
    asker = asker_of()
    host, tokenizer = asker.host, asker.tokenizer
    prompter = GraphPrompter(host, OPTIONS).eval()
    facts_of_rows = [facts(0), facts(1)]
    prompts = tokenizer(["what is the job of Padre", "Padre job is"])["input_ids"]
    answers = [tokenizer(" baker rome")["input_ids"], tokenizer(" rome maria")["input_ids"]]

    def embeds(question: Any, context: Any, soft: Any, label: Any) -> Any:
        rows, labels = [], []
        for prompt, answer, soft_prompt in zip(prompts, answers, soft, strict=True):
            words = host.get_input_embeddings()(torch.tensor(prompt + answer))
            rows.append(torch.cat([soft_prompt, words]))
            labels.append([-100] * (len(soft_prompt) + len(prompt)) + answer)
        widest = max(map(len, rows))
        mask = torch.tensor([[0] * (widest - len(r)) + [1] * len(r) for r in rows])
        padded = [torch.nn.functional.pad(r, (0, 0, widest - len(r), 0)) for r in rows]
        filled = [[-100] * (widest - len(each)) + each for each in labels]
        return torch.stack(padded), mask, torch.tensor(filled)

    theirs = prompter.retriever
    theirs.llm._get_embeds, theirs.llm.autocast_context = embeds, nullcontext()
    sizes = torch.tensor([len(each.x) for each in facts_of_rows])
    expected = theirs(
        ["", ""], torch.cat([each.x for each in facts_of_rows]),
        torch.cat([facts_of_rows[0].edge_index, facts_of_rows[1].edge_index + sizes[0]], 1),
        torch.arange(2).repeat_interleave(sizes), ["", ""],
        torch.cat([each.edge_attr for each in facts_of_rows]),
    )  # fmt: skip
    widest = max(map(len, prompts))
    ids = torch.tensor([each + [0] * (widest - len(each)) for each in prompts])
    mask = torch.tensor([[i < len(each) for i in range(widest)] for each in prompts])
    loss = -chances(
        host, prompter.tree(host, facts_of_rows, ids, mask), torch.tensor(answers)
    ).mean()
    torch.testing.assert_close(loss, expected, **CLOSE)
    grads = [
        torch.autograd.grad(loss, [v for _, v in prompter.trained()], retain_graph=True)
        for loss in (loss, expected)
    ]
    for mine, reference in zip(*grads, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-3, atol=1e-6)


def test_a_prompt_is_learnt_from_its_facts_and_the_host_stays() -> None:
    host, (ids, mask) = tiny_decoder("llama"), texts()
    before = {name: value.clone() for name, value in host.state_dict().items()}
    torch.manual_seed(0)
    prompter = GraphPrompter(host, OPTIONS)
    facts_of_rows = [facts(0), facts(1), facts(2)]
    right = torch.tensor([[5], [9], [14]])
    optimiser = torch.optim.Adam([value for _, value in prompter.trained()], lr=0.02)
    same = ids[:1].expand(3, -1), mask[:1].expand(3, -1)  # what is asked says nothing
    for _ in range(150):
        loss = -chances(host, prompter.tree(host, facts_of_rows, *same), right).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    prompter.eval()
    written = write(host, prompter.tree(host, facts_of_rows, *same), n_new=1).words
    assert torch.equal(written, right)
    swapped = write(
        host,
        prompter.tree(host, [facts_of_rows[1], facts_of_rows[2], facts_of_rows[0]], *same),
        n_new=1,
    )
    assert torch.equal(swapped.words, right[[1, 2, 0]])
    assert all(torch.equal(value, before[name]) for name, value in host.state_dict().items())
    again = GraphPrompter(host, OPTIONS).eval()
    again.load_own_state(prompter.own_state())
    torch.testing.assert_close(again(facts_of_rows), prompter(facts_of_rows))
    with pytest.raises(ConfigError, match="in one alone"):
        again.load_own_state({})


def test_facts_are_those_of_a_graph_by_label() -> None:
    graph = asker_of().graph
    vectors = LabelSentences.of(graph, WordVectors())
    neighbourhood = vectors.around(graph, graph.entities.id("padre"))
    assert neighbourhood is not None
    assert (len(neighbourhood.x), neighbourhood.edge_index.shape, len(neighbourhood.edge_attr)) == (
        4,
        (2, 6),
        6,
    )
    assert torch.equal(neighbourhood.edge_index[:, :3], neighbourhood.edge_index[:, 3:].flip(0))
    assert vectors.around(graph, graph.entities.id("atlantis")) is None
    tails = {tuple(row) for row in neighbourhood.x.tolist()}
    assert tuple(vectors.entities[graph.entities.id("baker")].tolist()) in tails


def test_a_prompt_may_stand_within_the_text() -> None:
    host, (ids, mask) = tiny_decoder("llama"), texts()
    prompter = GraphPrompter(host, OPTIONS).eval()
    facts_of_rows = [facts(0), None, facts(1)]
    front, within = (
        prompter.tree(host, facts_of_rows, ids, mask, places) for places in (None, [2, 1, 0])
    )
    vectors = prompter([facts(0), facts(1)])
    words = host.get_input_embeddings()(ids)
    torch.testing.assert_close(within.vectors[0, :2], words[0, :2])
    torch.testing.assert_close(within.vectors[0, 2:5], vectors[0])
    torch.testing.assert_close(within.vectors[0, 5:], words[0, 2:])
    torch.testing.assert_close(within.vectors[2], front.vectors[2])
    assert within.read_on.sum(dim=1).tolist() == front.read_on.sum(dim=1).tolist()
    with torch.no_grad():
        states = [read_tree(host, each) for each in (front, within)]
        last = [
            each[torch.arange(3), tree.last]
            for each, tree in zip(states, (front, within), strict=True)
        ]
    torch.testing.assert_close(last[0][1:], last[1][1:], **CLOSE)  # one has none, one is in front
    assert not torch.allclose(last[0][0], last[1][0], **CLOSE)


def test_said_words_are_those_of_the_facts() -> None:
    asker = asker_of()
    graph = asker.graph
    words = LabelVectors.of(graph, asker.host, asker.tokenizer)
    heads = sorted(set(graph.triples[:, 0].tolist()))
    relations = sorted(set(graph.triples[:, 1].tolist()))
    pairs = said_words(graph, heads, words, 2 * len(relations))
    single = said_words(graph, heads, words, 1)
    for row, head in enumerate(heads):
        facts_of = graph.outgoing(head).tolist()
        torch.testing.assert_close(
            single[row, 0], torch.stack([words.entities[t] for _, _, t in facts_of]).mean(0)
        )
        for position, relation in enumerate(relations):
            tails = [t for _, r, t in facts_of if r == relation]
            if not tails:
                assert not pairs[row, 2 * position : 2 * position + 2].any()
                continue
            torch.testing.assert_close(pairs[row, 2 * position], words.relations[relation])
            value = torch.stack([words.entities[t] for t in tails]).mean(0)
            torch.testing.assert_close(pairs[row, 2 * position + 1], value)


def test_vectors_of_labels_have_no_mean_in_common() -> None:
    graph = asker_of().graph
    sentences = LabelSentences.of(graph, WordVectors())
    torch.testing.assert_close(
        sentences.entities.mean(dim=0), torch.zeros(WordVectors.width), atol=1e-5, rtol=0
    )
    smaller = graph.with_triples(graph.triples[:1], note="one fact")
    like = LabelSentences.of(smaller, WordVectors(), like=sentences)
    assert like.means is sentences.means
    torch.testing.assert_close(like.entities, sentences.entities)


def test_faults_are_named() -> None:
    with pytest.raises(ConfigError, match=r"n_soft 0: 1 or more"):
        SoftPromptOptions(vector_width=6, n_soft=0)
    with pytest.raises(ConfigError, match="a multiple of n_heads 4"):
        SoftPromptOptions(vector_width=6, width=6)
    host, (ids, mask) = tiny_decoder("llama"), texts()
    prompter = GraphPrompter(host, OPTIONS)
    with pytest.raises(BatchError, match="facts of 1 texts for 3"):
        prompter.tree(host, [None], ids, mask)
    with pytest.raises(BatchError, match="no text with facts"):
        prompter([])
