"""A model that follows a graph which grew: old rows bitwise, new ones marked, same answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from entity_linking.mentions import LinkedText
from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.knowbert import KnowBERT
from kept.encoders.subgraph.base import SubgraphEncoder
from kept.errors import CheckpointError, ConfigError
from kept.graphs.builder import BuilderConfig, build_many
from kept.heads.model import KnowledgeForTask
from kept.inputs.views import builder_for
from kept.methods import METHODS
from kept.model_files import EXTENDED, NEW_ROWS, verify_model
from kept.objectives.model import KnowledgeForPreTraining
from kept.tasks.kinds import SINGLE
from kept.training.extending import STARTS, extend
from kept.training.extending.extend import write_extension
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.errors import ExistsError, GraphMismatchError
from kg_loaders.records import Record
from kg_loaders.stored_blocks import blocks_of
from tests.kept.tiny_hosts import method_encoder, tiny_host, untaught_encoder

SILENT = (
    Text("A0", TextKind.LABEL, "old city", "en"),
    Text("P0", TextKind.LABEL, "near", "en", is_relation=True),
)
"""An entity and a relation that come first by name, and stand in no fact."""


def grown(graph: KnowledgeGraph, *records: Record) -> KnowledgeGraph:
    languages = graph.manifest.languages
    return graph_from_records([*blocks_of(graph), *records], languages=languages)


def saved(
    name: str, graph: KnowledgeGraph, tokenizer: Any, folder: Path, *, trained: bool = False
) -> KnowledgeForPreTraining:
    """A model of a method with its objectives, and the folder of a run around it."""
    make = method_encoder if trained else untaught_encoder
    model = KnowledgeForPreTraining.of(make(name, graph, tokenizer), METHODS[name].objectives)
    with torch.no_grad():
        for table in model.row_tables():  # no two rows are alike, as after training
            rows = model.get_parameter(table.name)
            rows += torch.randn(rows.shape, generator=torch.Generator().manual_seed(7))
    graph.save(folder / "kg", force=True)
    (folder / "run").mkdir(parents=True)
    settings = {"method": name, "kg": str(folder / "kg"), "graph": {}, "view": {}}
    (folder / "run/pretrain.json").write_text(json.dumps(settings))
    model.tokenizer = tokenizer
    model.save_pretrained(folder / "run")
    return model.eval()


def outputs(
    model: KnowledgeForPreTraining, graph: KnowledgeGraph, tokenizer: Any, texts: list[LinkedText]
) -> Tensor:
    name = next(name for name, line in METHODS.items() if line.encoder is type(model.encoder))
    config = builder_for(METHODS[name], BuilderConfig(max_neighbours=2, policy="degree"), {})
    view = METHODS[name].view.of(graph, tokenizer)
    batches = [view(g) for g in build_many(texts, tokenizer, graph, seed=0, config=config)]
    with torch.no_grad():
        return model.encoder(KnowledgeBatch.stack(batches)).node_states


@pytest.mark.parametrize("name", METHODS)
def test_every_method_follows(
    name: str, small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText], tmp_path: Path
) -> None:
    model = saved(name, small_graph, tokenizer, tmp_path)
    larger = grown(small_graph, *SILENT)
    if isinstance(model.encoder, SubgraphEncoder):
        with pytest.raises(GraphMismatchError, match="relations as types of edges"):
            extend(tmp_path / "run", larger)
        return
    done = extend(tmp_path / "run", larger)
    after, fresh = done.model, untaught_encoder(name, larger, tokenizer)
    wanted = KnowledgeForPreTraining.of(fresh, METHODS[name].objectives).state_dict()
    weights, before = after.state_dict(), model.state_dict()
    assert {k: v.shape for k, v in weights.items()} == {k: v.shape for k, v in wanted.items()}
    tables = {table.name: table for table in model.row_tables()}
    for key, value in before.items():
        table = tables.get(key)
        if table is None:
            assert torch.equal(weights[key], value), key
            continue
        ids = larger.entities if table.of == "entity" else larger.relations
        old = small_graph.entities if table.of == "entity" else small_graph.relations
        places = torch.from_numpy(ids.ids(old.array)).long() + table.n_special
        assert torch.equal(weights[key][places], value[table.n_special :]), key
        assert torch.equal(weights[key][: table.n_special], value[: table.n_special]), key
        assert weights[key].isfinite().all()
        assert (weights[key][table.n_special] != 0).any(), "the new one comes first"
    after.require_graph(larger)
    assert [(of, n) for of, n, _ in done.new_rows] == [("entity", "A0"), ("relation", "P0")]
    texts = [text for text in linked if len(text.links) > 1][:4]
    assert isinstance(after, KnowledgeForPreTraining)
    same = outputs(model, small_graph, tokenizer, texts), outputs(after, larger, tokenizer, texts)
    assert torch.equal(*same)


def test_methods_with_rows_are_those_that_are_known() -> None:
    """So that a new table is not forgotten: the test above compares its size."""
    without = KnowledgeEncoder.row_tables
    holding = {name for name, line in METHODS.items() if line.encoder.row_tables is not without}
    with_rows = {"colake", "ernie", "ebert", "ktnet", "knowbert", "luke", "qagnn", "greaselm"}
    assert holding == with_rows


def test_the_folder_is_a_run(small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path) -> None:
    saved("colake", small_graph, tokenizer, tmp_path)
    first, second = grown(small_graph, *SILENT), None
    first.save(tmp_path / "kg2")
    write_extension(
        extend(tmp_path / "run", first), tmp_path / "run", tmp_path / "kg2", tmp_path / "run2"
    )
    verify_model(tmp_path / "run2")
    model = KnowledgeForPreTraining.from_pretrained(tmp_path / "run2", graph=first)
    assert model.config.n_entities == first.n_entities
    settings = json.loads((tmp_path / "run2/pretrain.json").read_text())
    assert settings["kg"] == str(tmp_path / "kg2")
    second = grown(first, Triple("Z9", "P36", "Q90"))
    second.save(tmp_path / "kg3")
    again = extend(tmp_path / "run2", second)
    write_extension(again, tmp_path / "run2", tmp_path / "kg3", tmp_path / "run3")
    history = json.loads((tmp_path / "run3" / EXTENDED).read_text())["extensions"]
    assert [each["n_new_entities"] for each in history] == [1, 1]
    rows = [json.loads(line) for line in (tmp_path / "run3" / NEW_ROWS).read_text().splitlines()]
    assert [row["name"] for row in rows] == ["A0", "P0", "Z9"]
    with pytest.raises(ExistsError, match="replace it with --force"):
        write_extension(again, tmp_path / "run2", tmp_path / "kg3", tmp_path / "run3")
    with pytest.raises(ExistsError, match="no extended run"):
        write_extension(again, tmp_path / "run2", tmp_path / "kg3", tmp_path / "run", force=True)


def test_a_task_keeps_its_head(small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path) -> None:
    encoder = untaught_encoder("ernie", small_graph, tokenizer)
    model = KnowledgeForTask.of(encoder, "pooled", ["a", "b"], problem_type=SINGLE)
    model.tokenizer = tokenizer
    model.save_pretrained(tmp_path / "run")
    larger = grown(small_graph, *SILENT)
    done = extend(tmp_path / "run", larger, before=small_graph)
    assert isinstance(done.model, KnowledgeForTask)
    assert torch.equal(done.model.head.classes.weight, model.head.classes.weight)


def test_a_kar_of_wordnet_learns_parts_of_speech(tokenizer: Any, tmp_path: Path) -> None:
    graph = graph_from_records([Triple("00001740-n", "hypernym", "00001930-n")])
    kar = {"vectors": "parts", "vector_width": 6, "part_width": 4, "width": 8, "n_heads": 2}
    host = tiny_host(n_words=len(tokenizer))
    model = KnowBERT.from_host(host, graph, kars=[kar])
    model.tokenizer = tokenizer
    model.save_pretrained(tmp_path / "run")
    larger = grown(graph, Triple("00000001-v", "entailment", "00001930-n"))
    after = extend(tmp_path / "run", larger, before=graph).model
    assert isinstance(after, KnowBERT)
    assert after.linker("kg").entities.parts.tolist()[N_SPECIAL_ROWS:] == [2, 1, 1]
    after.save_pretrained(tmp_path / "again")
    KnowBERT.from_pretrained(tmp_path / "again", graph=larger)


# ---- refusals ------------------------------------------------------------------------------------
def test_what_makes_no_sense_is_refused(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    saved("colake", small_graph, tokenizer, tmp_path)
    run, larger = tmp_path / "run", grown(small_graph, *SILENT)
    with pytest.raises(GraphMismatchError, match="nothing grew"):
        extend(run, small_graph)
    with pytest.raises(GraphMismatchError, match=r"lacks entities of the run.s .*train again"):
        extend(run, graph_from_records([Triple("Q90", "P36", "Q142")]))
    with pytest.raises(ConfigError, match="no start 'neighbors'; did you mean neighbours"):
        extend(run, larger, start="neighbors")
    with pytest.raises(GraphMismatchError, match="made with the id space"):
        extend(run, larger, before=larger)
    (tmp_path / "kg").rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="name its folder with --before"):
        extend(run, larger)
    settings = json.loads((run / "pretrain.json").read_text())
    (run / "pretrain.json").write_text(json.dumps(settings | {"host": "another"}))
    with pytest.raises(CheckpointError, match="were written"):
        extend(run, larger)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="holds no finished model"):
        extend(tmp_path / "empty", larger)


def test_a_control_is_refused(small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/finetune.json").write_text(json.dumps({"knowledge": "shuffled"}))
    model = untaught_encoder("ernie", small_graph, tokenizer)
    model.save_pretrained(tmp_path / "run")
    with pytest.raises(ConfigError, match="a control, whose graph is none that grows"):
        extend(tmp_path / "run", grown(small_graph, *SILENT), before=small_graph)


def test_types_that_a_sensebert_has_no_vector_of(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    saved("sensebert", small_graph, tokenizer, tmp_path)
    with pytest.raises(GraphMismatchError, match="senses that this SenseBERT has vectors of"):
        extend(tmp_path / "run", grown(small_graph, Text("Q90", TextKind.TYPE, "brand new type")))


def test_starts_are_named_in_the_rows(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    saved("ernie", small_graph, tokenizer, tmp_path)
    larger = grown(small_graph, *SILENT, Triple("B0", "P36", "Q90"))
    for start in STARTS:
        done = extend(tmp_path / "run", larger, start=start)
        used = {name: each for of, name, each in done.new_rows if of == "entity"}
        reached = start in ("neighbours", "translations")
        assert used["B0"] == (start if reached or start == "names" else used["B0"])
        assert used["A0"] != start if reached else used["A0"] == start or start == "descriptions"
        assert done.tables[0].likeness.keys() == STARTS.keys()


def test_frozen_tables_stay_frozen_and_others_are_trained(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    """Whether a table is trained is not the extension's to decide; ERNIE's is not, CoLAKE's is."""
    larger = grown(small_graph, *SILENT)
    is_trained = {}
    for name in ("ernie", "colake"):
        model = saved(name, small_graph, tokenizer, tmp_path / name)
        after = extend(tmp_path / name / "run", larger).model
        for table in model.row_tables():
            is_trained[name] = model.get_parameter(table.name).requires_grad
            assert after.get_parameter(table.name).requires_grad == is_trained[name], table.name
    assert is_trained == {"ernie": False, "colake": True}
