"""QA-GNN's graph, nodes, relevance, edges and texts against the original's preparation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import RobertaProcessing
from torch import Tensor
from transformers import (
    BertTokenizerFast,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from kept.batches import N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch, Role
from kept.graphs.relevance import RelevanceScorer, context_of
from kept.graphs.subgraphs import EXTRAS, edges_among, neighbours_in
from kept.graphs.views.subgraph import in_order, places_of
from kept.layers.typed_graph import n_edge_types, place_types, typed_graph
from kg_loaders import KnowledgeGraph
from tests.parity.subgraph import subgraph_golden as golden
from tests.reference import original_qagnn as original

METHOD = "qagnn"
SCORE = 1e-5
OTHERS = {
    "1hop_neighbours": ("neighbours", ()),
    "1hop_neighbours_without_relatedto": ("neighbours", ("relatedto",)),
    "2hop_qa_pair": ("common_of_both", ()),
    "2hop_all_pair": ("common", ()),
    "2step_relax_all_pair": ("two_steps", ()),
    "3hop_qa_pair": ("three_hops", ()),
}
"""The original's other choices of nodes: ours, and relations that do not count."""


@pytest.fixture(scope="module")
def facts(folder: Path) -> Any:
    return golden.read(folder, "graph_preparation")


def graph_of(facts: Any, *, pruned: bool = True) -> KnowledgeGraph:
    """The original's graph, all its concepts and relations in its order."""
    names, relations = facts["concepts"], facts["relations"]
    edges = facts["graph_edges_src_dst_rel_weight"]["pruned" if pruned else "unpruned"]
    triples = [(names[s], relations[r], names[t]) for s, t, r, _ in edges if r < len(relations)]
    return KnowledgeGraph.from_triples(triples)


def test_assertions(facts: Any) -> None:
    lines = list(original.extract(facts["assertions"]))
    assert [list(line) for line in lines] == facts["extracted"]
    names = original.concepts(lines)
    assert names == facts["concepts"]
    assert {line[0] for line in lines} <= {*facts["relations"]} <= {*original.RELATIONS}
    for name, edges in facts["graph_edges_src_dst_rel_weight"].items():
        ours = original.edges(lines, names, facts["relations"], pruned=name == "pruned")
        assert ours == sorted(edges), name


def linked(facts: Any, number: int) -> tuple[list[str], list[str]]:
    """Concepts of question and answer; one of both is the answer's."""
    row, names = facts["grounded"][number], set(facts["concepts"])
    answer = [name for name in row["ac"] if name in names]
    return [name for name in row["qc"] if name in names and name not in answer], answer


def extras(
    facts: Any, graph: KnowledgeGraph, number: int, kind: str = "common", without: Any = ()
) -> set[str]:
    """By name, what our choice of entities adds; a concept without an edge has no neighbour."""
    question, answer = (
        [i for i in map(graph.entities.find, names) if i is not None]
        for names in linked(facts, number)
    )
    dropped = [i for i in map(graph.relations.find, without) if i is not None]
    near = neighbours_in(graph, without=dropped)
    added = EXTRAS[kind](question, answer, near) - {*question, *answer}
    return {graph.entities.name(i) for i in added}


def test_nodes(facts: Any) -> None:
    graph = graph_of(facts)
    assert len(facts["examples"]) == len(facts["grounded"])
    for number, example in enumerate(facts["examples"]):
        names = [facts["concepts"][i] for i in example["concepts"]]
        question, answer = linked(facts, number)
        by_id = facts["concepts"].index
        assert names[: len(question)] == sorted(set(question), key=by_id)
        assert names[len(question) :][: len(set(answer))] == sorted(set(answer), key=by_id)
        assert {*names} - {*question, *answer} == extras(facts, graph, number)


def test_other_choices_of_nodes(facts: Any) -> None:
    graph = graph_of(facts)
    for number, choices in facts["other_neighbourhoods"].items():
        question, answer = linked(facts, int(number))
        both = {*question, *answer}
        assert choices
        assert {*choices} <= {*OTHERS}
        for name, ids in choices.items():
            kind, without = OTHERS[name]
            names = {facts["concepts"][i] for i in ids}
            assert names - both == extras(facts, graph, int(number), kind, without), (number, name)


# ---- relevance ----------------------------------------------------------------------------------
def byte_level(vocabulary: dict[str, int]) -> PreTrainedTokenizerFast:
    """RoBERTa's tokenizer of one-character pieces."""
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.post_processor = RobertaProcessing(
        ("</s>", vocabulary["</s>"]), ("<s>", vocabulary["<s>"]), add_prefix_space=False,
        trim_offsets=False,
    )  # fmt: skip
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<unk>", pad_token="<pad>", cls_token="<s>",
        sep_token="</s>", mask_token="<mask>", bos_token="<s>", eos_token="</s>",
    )  # fmt: skip


def test_relevance(folder: Path, facts: Any) -> None:
    config = golden.read(folder, "config")
    model = RobertaForMaskedLM(RobertaConfig(**config["scorer"]))
    state = golden.load(folder, "scorer_state_dict")
    state["lm_head.decoder.weight"] = state["roberta.embeddings.word_embeddings.weight"]
    state["lm_head.decoder.bias"] = state["lm_head.bias"]
    model.load_state_dict(state, strict=True)
    with torch.no_grad():  # torch 1.8 read zeros for the padding, whatever its row
        model.roberta.embeddings.word_embeddings.weight[config["scorer"]["pad_token_id"]] = 0
    scorer = RelevanceScorer(model, byte_level(config["roberta_vocabulary"]), batch_size=5)
    for number, example in enumerate(facts["examples"]):
        question, choice = divmod(number, config["num_choice"])
        statement = facts["statements"][question]["question"]
        context = context_of([statement["stem"], statement["choices"][choice]["text"]])
        ids = sorted({*example["concepts"]})
        names = [facts["concepts"][i].replace("_", " ") for i in ids]
        texts = [context, *(f"{context} {name}." for name in names)]
        assert sorted(texts) == sorted(example["scored_texts"])
        for text, tokens in zip(example["scored_texts"], example["scored_token_ids"], strict=True):
            assert scorer.tokenizer(text)["input_ids"] == tokens
        theirs = dict(example["cid2score_high_to_low"])
        expected = torch.tensor([theirs[i] for i in (-1, *ids)])
        ours = torch.tensor(scorer.scores(texts))
        torch.testing.assert_close(ours, expected, rtol=SCORE, atol=0)
        relevance = torch.tensor(scorer.relevance(context, names))
        torch.testing.assert_close(relevance, expected[1:] - expected[0], rtol=SCORE, atol=2e-3)


# ---- what the loader makes of it ----------------------------------------------------------------
def rows_of(facts: Any, example: Any, n_places: int) -> dict[str, Tensor]:
    """Our fields of one example, its concepts by their own numbers."""
    scores = dict(example["cid2score_high_to_low"])
    roles = [
        Role.QUESTION if q else Role.ANSWER if a else Role.OTHER
        for q, a in zip(example["qmask"], example["amask"], strict=True)
    ]
    n_linked = sum(role != Role.OTHER for role in roles)
    linked, extras = example["concepts"][:n_linked], example["concepts"][n_linked:]
    order = in_order(linked, sorted(extras), scores)
    assert order == example["concepts"]
    kept_ones = order[: n_places - 1]
    heads_tails = [(s, r, t) for r, s, t in example["edges_rel_src_dst"]]
    edges = [edge for edge in heads_tails if max(edge[0], edge[2]) < len(kept_ones)]
    edges_ = torch.tensor(edges, dtype=torch.int64).view(1, -1, 3)
    return {
        "subgraph_ids": torch.tensor([kept_ones]) + N_SPECIAL_ROWS,
        "subgraph_roles": torch.tensor([[int(role) for role in roles[: len(kept_ones)]]]),
        "subgraph_scores": torch.tensor([[scores[i] - scores[-1] for i in kept_ones]]),
        "subgraph_edges": edges_,
    }


def batch_of(folder: Path, facts: Any) -> KnowledgeBatch:
    """All examples as a batch that our own stacking pads."""
    n_places = golden.read(folder, "config")["max_node_num"]
    rows = [
        golden.no_words(1).replace(**rows_of(facts, example, n_places))
        for example in facts["examples"]
    ]
    return KnowledgeBatch.stack(rows)


def test_inputs(folder: Path, facts: Any) -> None:
    config, inputs = golden.read(folder, "config"), golden.load(folder, "inputs")
    batch = batch_of(folder, facts)
    ids = golden.of_all(inputs["concept_ids"])
    lengths = golden.of_all(inputs["adj_lengths"])
    n_ours = batch.subgraph_ids.shape[1]
    is_real = ~golden.padded(lengths, n_ours + 1)
    assert is_real[:, 1:].equal(batch.subgraph_ids != PAD_ROW)
    real = is_real[:, 1:]
    ours = batch.subgraph_ids - N_SPECIAL_ROWS + 1
    assert torch.equal(ours[real], ids[:, 1 : n_ours + 1][real])
    types = golden.of_all(inputs["node_type_ids"])
    assert torch.equal(place_types(batch), types[:, : n_ours + 1])
    scores = golden.of_all(inputs["node_scores"])[..., 0]
    relative = (scores[:, 1:] - scores[:, :1])[:, :n_ours]
    torch.testing.assert_close(batch.subgraph_scores[real], relative[real], atol=1e-4, rtol=1e-6)
    graph = typed_graph(batch, n_relations=config["n_rel"], all_entities=False, with_padding=False)
    assert n_edge_types(config["n_rel"], all_entities=False) == config["n_etype"]
    assert golden.edges_by_row(graph, n_ours + 1, len(ids)) == golden.edges_of_rows(inputs)


def test_edges_among_entities(facts: Any) -> None:
    graph = graph_of(facts)
    relations = facts["relations"]
    for example in facts["examples"]:
        names = [facts["concepts"][i] for i in example["concepts"]]
        known = [name for name in names if graph.entities.find(name) is not None]
        ids = torch.tensor([graph.entities.find(name) for name in known]).numpy()
        ours = sorted(
            (relations.index(graph.relations.name(r)), names.index(known[s]), names.index(known[t]))
            for s, r, t in edges_among(graph, ids).tolist()
        )
        assert ours == sorted(map(tuple, example["edges_rel_src_dst"]))


def test_places(facts: Any) -> None:
    """What our view makes of linked entities and extras is the original's order."""
    graph = graph_of(facts)
    for number in range(len(facts["examples"])):
        question, answer = linked(facts, number)
        ids = [
            [i for i in map(graph.entities.find, names) if i is not None]
            for names in (question, answer)
        ]
        entities, roles = places_of(*ids)
        assert entities == [*sorted({*ids[0]} - {*ids[1]}), *sorted({*ids[1]})]
        assert roles == [Role.QUESTION] * len({*ids[0]} - {*ids[1]}) + [Role.ANSWER] * len(
            {*ids[1]}
        )


# ---- texts --------------------------------------------------------------------------------------
def bert(vocabulary: list[str], path: Path) -> BertTokenizerFast:
    file = path / "vocab.txt"
    file.write_text("\n".join(vocabulary), encoding="utf-8")
    return BertTokenizerFast(vocab=str(file), do_lower_case=True)


def text_kinds(folder: Path) -> list[str]:
    names = golden.part(golden.load(folder, "inputs"), "text.")
    return sorted({name.split(".")[0] for name in names})


PARAMETERS = {"kind": text_kinds}


@pytest.fixture(scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    """A family of language models, and "short" where texts are cut."""
    chosen: str = request.param
    return chosen


def test_texts(folder: Path, facts: Any, kind: str, tmp_path: Path) -> None:
    config, inputs = golden.read(folder, "config"), golden.load(folder, "inputs")
    is_roberta = kind.startswith("roberta")
    tokenizer = (
        byte_level(config["roberta_vocabulary"])
        if is_roberta
        else bert(config["bert_vocabulary"], tmp_path)
    )
    length = config["short_max_seq_len" if kind.endswith("short") else "max_seq_len"]
    rows = [
        original.text_row(tokenizer, statement, choice["text"], length, roberta=is_roberta)
        for statement in facts["statements"]
        for choice in statement["question"]["choices"]
    ]
    names = ("input_ids", "input_mask", "segment_ids", "output_mask")
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        theirs = golden.of_all(inputs[f"text.{kind}.{name}"])
        assert torch.equal(torch.tensor(column).to(theirs.dtype), theirs), name
