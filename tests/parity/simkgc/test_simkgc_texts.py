"""SimKGC's preprocessing, texts, word pieces and batches against the original's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kept.kge.simkgc.benchmarks import Benchmark, freebase_relation
from kept.kge.simkgc.texts import name_and_description, tokenise, wordnet_name
from kept.kge.simkgc.training import (
    with_inverses,
)
from tests.parity.simkgc.simkgc_golden import Golden, tasks_of

METHOD = "simkgc"
PARAMETERS = {"task": tasks_of}


@pytest.fixture(scope="module")
def task(request: pytest.FixtureRequest) -> str:
    result: str = request.param
    return result


# ---- preprocessing and texts ---------------------------------------------------------------------
def test_preprocessing(golden: Golden, task: str, compared: Any) -> None:
    expected = golden.read(f"preprocess_{task}")["processed"]
    result = golden.world(task, is_linked=False).benchmark
    assert isinstance(result, Benchmark)
    listed = dict(result.relations)
    if not task.startswith("wiki5m"):  # the file names those of training alone
        trained = {relation for _, relation, _ in result.splits["train"]}
        listed = {name: text for name, text in listed.items() if text in trained}
    compared.equal("simkgc relations", listed, expected["relations.json"])
    entities = [
        {"entity_id": e, "entity": result.names[e], "entity_desc": result.descriptions[e]}
        for e in result.names
    ]
    compared.equal("simkgc entities", entities, expected["entities.json"])
    for split, rows in result.splits.items():
        messages = [(row["head_id"], row["relation"], row["tail_id"])
                for row in expected[f"{split}.txt.json"]]  # fmt: skip
        compared.equal(f"simkgc {split}", rows, messages)


def test_texts_of_relations(golden: Golden, compared: Any) -> None:
    for name, text in golden.read("relation_text_fb15k237"):
        compared.equal("simkgc relation text", freebase_relation(name), text)


def test_texts_of_entities(golden: Golden, task: str, compared: Any) -> None:
    cases = golden.read(f"text_cases_{task}")
    for name, description, text in cases["concat_name_desc"]:
        compared.equal("simkgc named", name_and_description(name, description), text)
    parse = wordnet_name if task == "wn18rr" else str
    for name, text in cases["parse_entity_name"]:
        compared.equal("simkgc names", parse(name), text)


def test_word_pieces_of_triples(golden: Golden, task: str, compared: Any) -> None:
    worlds = {linked: golden.world(task, is_linked=linked) for linked in (False, True)}
    for one in golden.read(f"tokenization_{task}")["examples"]:
        world, others = worlds[one["use_link_graph"]], None
        row = world.rows([(one["head_id"], one["relation"], one["tail_id"])])[0].tolist()
        others = (None, None) if one["is_test"] else (row[2], row[0])
        head = world.texts.entity(row[0], without=others[0])
        tail = world.texts.entity(row[2], without=others[1])
        relation = world.texts.relation(row[1])
        compared.equal("simkgc pair", [head, relation], one["hr_text"])
        compared.equal("simkgc head", head, one["head_text"])
        compared.equal("simkgc tail", tail, one["tail_text"])
        for name, text, second in (("hr", head, relation), ("head", head, None),
                                   ("tail", tail, None)):  # fmt: skip
            seconds = None if second is None else [second]
            n = one["max_num_tokens"]
            tokens = tokenise(golden.tokenizer, [text], seconds, n_tokens=n)
            compared.equal("simkgc ids", tokens.ids[0].tolist(), one[f"{name}_token_ids"])
            compared.equal("simkgc types", tokens.types[0].tolist(), one[f"{name}_token_type_ids"])


def test_word_pieces_of_entities_and_free_texts(golden: Golden, task: str, compared: Any) -> None:
    data = golden.read(f"tokenization_{task}")
    worlds = {linked: golden.world(task, is_linked=linked) for linked in (False, True)}
    for one in data["entities"]:
        world = worlds[one["use_link_graph"]]
        text = world.texts.entity(world.entities.index(one["entity_id"]))
        compared.equal("simkgc entity", text, one["tail_text"])
    for one in data["free"]:
        seconds = None if one["text_pair"] is None else [one["text_pair"]]
        tokens = tokenise(golden.tokenizer, [one["text"]], seconds, n_tokens=one["max_num_tokens"])
        compared.equal("simkgc free", tokens.ids[0].tolist(), one["input_ids"])
        compared.equal("simkgc free types", tokens.types[0].tolist(), one["token_type_ids"])
    world = worlds[True]
    for name, key, limit in (("all", "link_graph", None), ("first", "neighbor_ids", 10)):
        for entity, others in data[key].items():
            actual = world.links.of(world.entities.index(entity))[:limit]
            names = [world.entities[i] for i in actual.tolist()]
            compared.equal(f"simkgc links {name}", names, others)


# ---- batches -------------------------------------------------------------------------------------
def test_batches_and_masks(golden: Golden, compared: Any) -> None:
    inputs, step = golden.load("inputs"), golden.step(torch.float32)
    world = golden.world(golden.training["task"], is_linked=golden.training["use_link_graph"])
    loaded = with_inverses(world.train, len(world.relations))
    for number, rows in enumerate(golden.batches):
        places = [one["index_in_loaded_train"] for one in golden.training["batches"][number]]
        compared.equal("simkgc loaded", loaded[places].tolist(), rows.tolist())
        heads = [step.texts.entity(h, without=t) for h, _, t in rows.tolist()]
        tails = [step.texts.entity(t, without=h) for h, _, t in rows.tolist()]
        relations = [step.texts.relation(r) for r in rows[:, 1].tolist()]
        n = golden.training["max_num_tokens"]
        for name, texts, seconds in (("hr", heads, relations), ("tail", tails, None),
                                     ("head", heads, None)):  # fmt: skip
            tokens = tokenise(golden.tokenizer, texts, seconds, n_tokens=n)
            for key, value in (("token_ids", tokens.ids), ("token_type_ids", tokens.types),
                               ("mask", tokens.mask.to(torch.uint8))):  # fmt: skip
                expected = inputs[f"batch{number}.{name}_{key}"]
                compared.equal(f"simkgc {key}", value.tolist(), expected.tolist())
        for name, mask in (("triplet_mask", step.known.mask(rows)),
                           ("self_negative_mask", step.known.head_mask(rows))):  # fmt: skip
            expected = inputs[f"batch{number}.{name}"]
            compared.equal(f"simkgc {name}", mask.tolist(), expected.tolist())
    for name in (key for key in inputs if key.startswith("pre_batch_mask")):
        row, column = (int(part.removeprefix("row_").removeprefix("col_").removeprefix("batch"))
                       for part in name.split(".")[1:])  # fmt: skip
        mask = step.known.competing(golden.batches[row], golden.batches[column][:, 2])
        compared.equal("simkgc pre-batch mask", mask.tolist(), inputs[name].tolist())
