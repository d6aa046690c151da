"""K-BERT's view: trunk, branches, soft positions and who sees whom, against loops."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from entity_linking.mentions import LinkedText
from kept.auto import AutoEncoder
from kept.batches import IGNORE, KnowledgeBatch
from kept.errors import BatchError, ConfigError, HostError
from kept.graphs.builder import BuilderConfig, build, build_many
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.views import KBERTView, words_of
from kept.graphs.views.kbert import label_words
from kept.inputs.views import builder_for
from kept.methods import METHODS
from kept.objectives.base import PreparationContext
from kept.objectives.model import objective_kind
from kept.randomness import generator
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from tests.kept.kbert_texts import mentioning
from tests.kept.tiny_hosts import method_encoder

BUILDER = BuilderConfig(policy="file", max_neighbours=3, replace_mentions=False, max_words=60)


def graphs_of(
    texts: list[LinkedText], graph: KnowledgeGraph, tokenizer: Any, **options: Any
) -> list[WordKnowledgeGraph]:
    config = dataclasses.replace(BUILDER, **options)
    return build_many(texts, tokenizer, graph, seed=0, config=config)


def test_options_adjust_the_builder() -> None:
    """As many facts as branches that are asked for, never fewer than the builder has."""
    line, few = METHODS["kbert"], BuilderConfig(max_neighbours=4)
    same = builder_for(line, few, {})
    assert builder_for(line, few, {"max_branches": 3, "max_pieces": 9}) == same
    assert same == dataclasses.replace(few, drop_probability=0.0, **line.builder)
    more = builder_for(line, few, {"max_branches": 6, "incoming": True})
    assert more == dataclasses.replace(same, max_neighbours=6, directions="both")
    assert builder_for(METHODS["colake"], few, {}).max_neighbours == 4
    with pytest.raises(ConfigError, match="no option 'max_branch'"):
        builder_for(line, few, {"max_branch": 6})


def test_options_show_what_a_builder_set_by_hand_shows(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    encoder = method_encoder("kbert", small_graph, tokenizer)
    text = mentioning(["Q142", "and", "Q90"], small_graph)

    def states(view: dict[str, Any], **builder: Any) -> Any:
        config = BuilderConfig(policy="file", **builder)
        opened = AutoEncoder(encoder, tokenizer, builder=config, view=view)
        return opened.encode([text], kg=small_graph)[0].tokens

    by_options = states({"max_branches": 9, "incoming": True}, max_neighbours=1)
    by_hand = states({"max_branches": 9}, max_neighbours=9, directions="both")
    with_fewer_facts = states({"max_branches": 9}, max_neighbours=9)
    assert torch.equal(by_options, by_hand)
    assert not torch.equal(by_options, with_fewer_facts)


def spelled(batch: KnowledgeBatch, tokenizer: Any, nodes: Any) -> str:
    pieces = tokenizer.convert_ids_to_tokens(batch.node_ids[0][nodes].tolist())
    return "".join(piece.removeprefix("##") for piece in pieces)


def branches_of(batch: KnowledgeBatch) -> list[list[int]]:
    """Runs of injected nodes that see one another, in order."""
    injected = (batch.node_kinds[0] != NodeKind.WORD).nonzero()[:, 0].tolist()
    branches: list[list[int]] = []
    for node in injected:
        if branches and bool(batch.visibility.mask[0, node, branches[-1][0]]):
            branches[-1].append(node)
        else:
            branches.append([node])
    return branches


def oracle(graph: WordKnowledgeGraph, kg: KnowledgeGraph, max_branches: int) -> list[Any]:
    """(mention's pieces, relation label, far label) of every branch, by loops over edges."""
    expected = []
    for anchor in range(graph.n_nodes):
        pieces = sorted(
            int(source)
            for (source, target), kind in zip(graph.edges, graph.edge_kinds, strict=True)
            if kind == EdgeKind.MENTION_ENTITY and target == anchor
        )
        if not pieces:
            continue
        entity, lines = int(graph.ids[anchor]), []
        for triple in kg.triples[kg.triples[:, 0] == entity].tolist()[: BUILDER.max_neighbours]:
            line = (kg.relation_label(triple[1]), kg.label(triple[2]))
            if line not in lines:
                lines.append(line)
        expected += [(pieces, *line) for line in lines[:max_branches]]
    return expected


def test_one_text_by_hand(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    (graph,) = graphs_of([mentioning(["Q64", "near", "Q2"], small_graph)], small_graph, tokenizer)
    batch = KBERTView.of(small_graph, tokenizer, max_pieces=99)(graph)
    tokens = tokenizer.convert_ids_to_tokens(batch.node_ids[0].tolist())
    spelling = [token.removeprefix("##") for token in tokens]
    assert spelling[:13] == ["[CLS]", *"berlin", "near", *"bonn", "[SEP]"]
    assert batch.positions[0, :13].tolist() == list(range(13))
    branches = branches_of(batch)
    assert [spelled(batch, tokenizer, torch.tensor(branch)) for branch in branches] == [
        "capitalofgermany", "countrygermany", "countrygermany",
    ]  # fmt: skip
    for branch, (first, last) in zip(branches, [(1, 6), (1, 6), (8, 11)], strict=True):
        assert batch.positions[0, branch].tolist() == [last + 1 + i for i in range(len(branch))]
        for node in branch:
            seen = batch.visibility.mask[0, node].nonzero()[:, 0].tolist()
            assert seen == [*range(first, last + 1), *branch]
    assert batch.mention_spans.tolist() == [[[1, 7], [8, 12]]]
    assert batch.visibility.mask[0, 0].sum() == 13  # [CLS] sees no branch


@pytest.mark.parametrize("predicate", [True, False])
@pytest.mark.parametrize("max_branches", [0, 1, 3])
def test_trees_against_loops(
    predicate: bool,
    max_branches: int,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
    linked: list[LinkedText],
) -> None:
    view = KBERTView.of(
        small_graph, tokenizer, predicate=predicate, max_branches=max_branches, max_pieces=99,
        max_nodes=9999,
    )  # fmt: skip
    n_branches = 0
    for graph in graphs_of(linked[:16], small_graph, tokenizer, max_nodes=900):
        batch = view(graph)
        expected = oracle(graph, small_graph, max_branches if predicate else 99)
        if not predicate:
            once: dict[Any, list[str]] = {}
            for pieces, _, far in expected:
                tails = once.setdefault(tuple(pieces), [])
                if far not in tails and len(tails) < max_branches:
                    tails.append(far)
            expected = [(list(p), "", far) for p, tails in once.items() for far in tails]
        branches = branches_of(batch)
        n_words = int((graph.kinds == NodeKind.WORD).sum())
        naive = torch.zeros_like(batch.visibility.mask[0])
        naive[:n_words, :n_words] = True
        for branch, (pieces, relation, far) in zip(branches, expected, strict=True):
            tails = f"{relation} {far}".lower().replace(" ", "")
            assert spelled(batch, tokenizer, torch.tensor(branch)) == tails
            start = int(batch.positions[0, pieces[-1]]) + 1
            assert batch.positions[0, branch].tolist() == [*range(start, start + len(branch))]
            for one in branch:
                for other in [*branch, *pieces]:
                    naive[one, other] = naive[other, one] = True
            names = [NodeKind.RELATION, NodeKind.ENTITY]
            kinds = batch.node_kinds[0, branch].tolist()
            assert kinds == sorted(kinds, reverse=True)
            assert set(kinds) == set(names if predicate else names[1:])
        assert torch.equal(batch.visibility.mask[0], naive)
        n_branches += len(branches)
    assert (n_branches > 10) == (max_branches > 0)


def test_words_stand_where_every_view_has_them(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    view = KBERTView.of(small_graph, tokenizer)
    for graph in graphs_of(linked, small_graph, tokenizer):
        words, batch = words_of(graph), view(graph)
        n_words = words.node_ids.shape[1]
        assert torch.equal(batch.node_ids[:, :n_words], words.node_ids)
        assert torch.equal(batch.positions[:, :n_words], words.positions)
        assert (batch.node_kinds[0, n_words:] != NodeKind.WORD).all()


def test_the_ablations_read_facts_as_plain_words(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    """Sorted by position, the pieces spell the text with every branch behind its mention."""
    (graph,) = graphs_of([mentioning(["Q64", "near", "Q2"], small_graph)], small_graph, tokenizer)
    in_line = KBERTView.of(
        small_graph, tokenizer, max_pieces=99, soft_positions=False, visible_matrix=False
    )
    batch = in_line(graph)
    assert bool(batch.visibility.mask.all())
    assert spelled(batch, tokenizer, batch.positions[0].argsort()) == (
        "[CLS]berlincapitalofgermanycountrygermanynearbonncountrygermany[SEP]"
    )
    for other in graphs_of(linked[:16], small_graph, tokenizer):
        soft, hard = KBERTView.of(small_graph, tokenizer)(other), in_line(other)
        assert sorted(hard.positions[0].tolist()) == list(range(hard.node_ids.shape[1]))
        n_words = words_of(other).node_ids.shape[1]
        order = hard.positions[0, :n_words]
        assert bool((order.diff() > 0).all())  # words keep their order
        only = KBERTView.of(small_graph, tokenizer, visible_matrix=False)(other)
        assert torch.equal(only.positions, soft.positions)
        only = KBERTView.of(small_graph, tokenizer, soft_positions=False)(other)
        assert torch.equal(only.visibility.mask, soft.visibility.mask)


def test_every_mention_has_its_own_copy(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    text = mentioning(["Q64", "and", "Q64"], small_graph)
    (graph,) = graphs_of([text], small_graph, tokenizer)
    batch = KBERTView.of(small_graph, tokenizer)(graph)
    texts = [spelled(batch, tokenizer, torch.tensor(b)) for b in branches_of(batch)]
    assert len(texts) == 4
    assert texts[:2] == texts[2:]


def test_long_branches_are_cut_and_large_texts_lose_branches_not_words(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    text = mentioning(["Q90", "Q64", "Q183"], small_graph)
    (graph,) = graphs_of([text], small_graph, tokenizer)
    whole = KBERTView.of(small_graph, tokenizer, max_branches=3, max_pieces=4)(graph)
    assert [len(branch) for branch in branches_of(whole)] == [4] * 8
    n_words = words_of(graph).node_ids.shape[1]
    few = KBERTView.of(
        small_graph, tokenizer, max_branches=3, max_pieces=4, max_nodes=n_words + 19
    )(graph)
    owners = [int(few.visibility.mask[0, b[0]].nonzero()[0]) for b in branches_of(few)]
    starts = few.mention_spans[0, :, 0].tolist()
    assert [owners.count(start) for start in starts] == [2, 1, 1]  # best of each, then second
    none = KBERTView.of(small_graph, tokenizer, max_nodes=1)(graph)
    assert torch.equal(none.node_ids, words_of(graph).node_ids)


def test_an_incoming_fact_names_its_subject_first(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    text = mentioning(["the", "Q1471"], small_graph)  # Seine: tail of Paris, head of "country"
    (graph,) = graphs_of([text], small_graph, tokenizer, directions="both")
    batch = KBERTView.of(small_graph, tokenizer, max_pieces=99)(graph)
    texts = [spelled(batch, tokenizer, torch.tensor(b)) for b in branches_of(batch)]
    assert texts == ["countryfrance", "parislocatednexttobodyofwater"]
    kinds = batch.node_kinds[0, branches_of(batch)[1]].tolist()
    assert kinds == sorted(kinds)  # entity, then relation


@pytest.mark.parametrize("max_branches", [1, 2, 7])
@pytest.mark.parametrize("max_nodes", [50, 256])
def test_the_bound_holds(
    max_branches: int,
    max_nodes: int,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
    linked: list[LinkedText],
) -> None:
    view = KBERTView.of(
        small_graph, tokenizer, max_branches=max_branches, max_nodes=max_nodes, max_pieces=9
    )
    data = WordGraphData(
        linked, small_graph, tokenizer,
        builder=dataclasses.replace(BUILDER, policy="random", max_words=40, max_nodes=80),
        view=view, objectives={"mlm": {}},
    )  # fmt: skip
    tight = 0
    for i in range(len(data)):
        n_nodes = data.sample(i, epoch=1, seed=2).node_ids.shape[1]
        assert n_nodes <= data.n_nodes(i)
        tight += n_nodes == data.n_nodes(i)
    assert tight


def test_masked_words_are_of_the_trunk(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    kind = objective_kind("mlm")
    world = PreparationContext(small_graph, tokenizer, np.ones(small_graph.n_entities + 3))
    preparation = kind.preparation.of(kind.read("mlm", {"probability": 0.9}), world)
    view, n_injected = KBERTView.of(small_graph, tokenizer), 0
    for i, graph in enumerate(graphs_of(linked, small_graph, tokenizer)):
        before = view(graph)
        marked = preparation.mark(before, generator(0, "mlm", i))
        injected = before.node_kinds != NodeKind.WORD
        n_injected += int(injected.sum())
        assert (marked.node_labels[injected] == IGNORE).all()
        assert torch.equal(marked.node_ids[injected], before.node_ids[injected])
    assert n_injected > 100


def test_labels_of_words(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    text = mentioning(["the", "Q64"], small_graph)
    (graph,) = graphs_of([text], small_graph, tokenizer)
    batch = KBERTView.of(small_graph, tokenizer)(graph)
    labels = np.arange(9)  # [CLS] the berlin [SEP]
    for injected in (IGNORE, 1):
        labelled = label_words(batch, labels, injected=injected).node_labels[0]
        assert labelled[:9].tolist() == labels.tolist()
        assert len(labelled) > 9
        assert (labelled[9:] == injected).all()
    with pytest.raises(BatchError, match="8 labels for 9 word pieces"):
        label_words(batch, labels[:8])


def test_labels_read_as_within_a_sentence(small_graph: KnowledgeGraph) -> None:
    """A byte-level tokenizer starts a word with its blank; the label's first piece has it."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    inner.train_from_iterator([" Paris Paris", "Paris"] * 9, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    view = KBERTView.of(small_graph, tokenizer)
    pieces = view.pieces(NodeKind.ENTITY, small_graph.entities.id("Q90"))
    assert tokenizer.decode(pieces) == " Paris"


def test_it_pickles_without_what_it_remembers(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    (graph,) = graphs_of([mentioning(["Q90"], small_graph)], small_graph, tokenizer)
    view = KBERTView.of(small_graph, tokenizer)
    batch, empty = view(graph), len(pickle.dumps(KBERTView.of(small_graph, tokenizer)))
    again = pickle.loads(pickle.dumps(view))
    assert len(pickle.dumps(view)) == empty
    assert torch.equal(again(graph).node_ids, batch.node_ids)
    assert again.fingerprint == view.fingerprint


def test_what_it_shows_is_in_its_fingerprint(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    changes = [{}, {"predicate": False}, {"max_branches": 1}, {"max_pieces": 3}, {"max_nodes": 9}]
    changes += [{"soft_positions": False}, {"visible_matrix": False}]
    views = [KBERTView.of(small_graph, tokenizer, **change) for change in changes]
    other = small_graph.with_triples(small_graph.triples[:3], note="three")
    views.append(KBERTView.of(other, tokenizer))
    assert len({view.fingerprint for view in views}) == len(views)


def test_what_it_cannot_read_is_refused(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    text = mentioning(["Q90"], small_graph)
    replaced = build(text, tokenizer, small_graph, generator=generator(0), config=BuilderConfig())
    with pytest.raises(BatchError, match="replace_mentions=False"):
        KBERTView.of(small_graph, tokenizer)(replaced)
    other = graph_from_records([Triple("a", "b", "c")])
    with pytest.raises(BatchError, match=other.id_space_hash):
        KBERTView.of(other, tokenizer)(replaced)
    with pytest.raises(ConfigError, match=r"max_branches -1.*max_pieces 0.*max_nodes 0"):
        KBERTView.of(small_graph, tokenizer, max_branches=-1, max_pieces=0, max_nodes=0)
    slow = type("Slow", (), {"is_fast": False})()
    with pytest.raises(HostError, match="Slow"):
        KBERTView.of(small_graph, slow)


def test_what_was_encoded_before_is_not_part_of_the_view(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    view = KBERTView.of(small_graph, tokenizer)
    before = view.fingerprint
    tokenizer("the old city", truncation=True, max_length=3, padding="max_length")
    assert view.fingerprint == before
    assert KBERTView.of(small_graph, tokenizer, max_branches=1).fingerprint != before
