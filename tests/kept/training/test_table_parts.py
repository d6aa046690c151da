"""A table that is made in parts has the rows of one that is made whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoTokenizer

from kept.errors import CheckpointError
from kept.kge.scorers import make_scorer
from kept.kge.trained import save_scorer
from kept.kge.vectors import entity_vectors, vector_rows
from kept.layers import part_table
from kept.layers.part_table import PartTable, entity_table, held_rows, put_rows, rows_in_parts
from kept.model_files import seal_model
from kept.training.costs import memory_forecast
from kept.training.finetuning import assembly as finetuning
from kept.training.finetuning.config import FinetuneConfig
from kept.training.pretraining.assembly import assemble
from kept.training.pretraining.config import PretrainConfig
from kept.training.processes.sharded_table import entity_tables
from kg_loaders import KnowledgeGraph
from tests.kept.training.test_processes import runs_of
from tests.kept.training.test_shards import WITH_TABLES
from tests.kept.training.tiny_pretraining import write_everything

VECTORS = {"ernie": {"vectors": "scorer"}, "ktnet": {"vectors": "scorer"},
           "knowbert": {"kars": [{"vectors_from": "scorer"}]}}  # fmt: skip
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in WITH_TABLES},
    **{f"{name}, scorer": (name, options) for name, options in VECTORS.items()},
    "colake, host": ("colake", {"entity_table": "host"}),
    "ernie, standard": ("ernie", {"vectors": "scorer", "standardise": True, "scale": "host"}),
    "ebert, facts": ("ebert", {"vectors": "facts"}),
}


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize(
    ("n_rows", "width"), [(16, 1), (15, 1), (33, 3), (32, 5), (100, 7), (3, 2), (65, 16)]
)
def test_a_part_draws_what_the_whole_draws(
    n_rows: int, width: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_table, "ROWS_AT_ONCE", 16)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first = nn.Embedding(n_rows, width).weight.detach()
        second = nn.init.normal_(torch.empty(n_rows, width), 0.0, 0.02)
        after = torch.rand(3)
        for rank in range(n):
            torch.manual_seed(1)
            part = PartTable(n_rows, width, rank=rank, n=n)
            assert torch.equal(part.weight, first[rank::n])
            part.draw(0.02)
            assert torch.equal(part.weight, second[rank::n])
            assert torch.equal(torch.rand(3), after)


def test_rows_are_put_by_the_number_that_they_have_in_the_whole() -> None:
    whole, values = nn.Embedding(11, 2), torch.arange(22.0).view(11, 2)
    put_rows(whole, torch.tensor([10, 0, 7]), values[[10, 0, 7]])
    for rank in range(3):
        with rows_in_parts(rank, 3):
            part = entity_table(11, 2)
        assert isinstance(part, PartTable)
        for start in (0, 3, 4, 5, 11, 20):
            held = [row for rows in held_rows(part, start, 2) for row in rows.tolist()]
            assert held == [row for row in range(start, 11) if row % 3 == rank]
        put_rows(part, torch.arange(11), whole.weight)
        assert torch.equal(part.weight, whole.weight[rank::3])
        with pytest.raises(RuntimeError, match="cannot be read"):
            part(torch.tensor([0]))
    assert type(entity_table(11, 2)) is nn.Embedding


def of_process(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "2")


def require_parts(model: nn.Module, whole: nn.Module, rank: int) -> None:
    """All weights of `whole`, but of entities the rows of the process."""
    tables = entity_tables(model)
    assert tables.keys() == entity_tables(whole).keys()
    held = model.state_dict()
    assert held.keys() == whole.state_dict().keys()
    for name, value in whole.state_dict().items():
        is_part = name.removesuffix(".weight") in tables
        assert torch.equal(held[name], value[rank::2] if is_part else value), name
    for name, parameter in whole.named_parameters():
        assert model.get_parameter(name).requires_grad == parameter.requires_grad


@pytest.mark.parametrize("case", CASES)
def test_every_method_is_made_and_opened_in_parts(
    case: str, tmp_path: Path, small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = make_scorer(
        "complex", n_entities=small_graph.n_entities, n_relations=small_graph.n_relations,
        width=8, generator=torch.Generator().manual_seed(2),
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    save_scorer(Path("scorer"), scorer, small_graph, {})
    name, options = CASES[case]
    if name in VECTORS and not options:
        options = {"vector_epochs": 1}
    if "kars" in options:
        options = {"kars": [{**options["kars"][0], "width": 8, "n_heads": 2}]}
    fields = write_everything(tmp_path, small_graph) | {"method": name, "options": options}
    training = fields["training"] | {"shard": ["tables"]}
    whole, _ = assemble(PretrainConfig.read(None, fields))
    forecasts = []
    for rank in range(2):
        of_process(rank, monkeypatch)
        model, _ = assemble(PretrainConfig.read(None, fields | {"training": training}))
        require_parts(model, whole, rank)
        forecasts.append(memory_forecast(model, PretrainConfig.read(
            None, fields | {"training": training}).training, n_processes=2).total)  # fmt: skip
    assert max(forecasts) < memory_forecast(whole, PretrainConfig.read(None, fields).training).total
    whole.save_pretrained(tmp_path / "run")
    going = fields | {"start_from": str(tmp_path / "run"), "options": {}}
    monkeypatch.delenv("WORLD_SIZE")
    opened, _ = assemble(PretrainConfig.read(None, going))
    of_process(1, monkeypatch)
    model, _ = assemble(PretrainConfig.read(None, going | {"training": training}))
    require_parts(model, opened, 1)


def test_a_task_begins_with_parts_of_a_model(
    tmp_path: Path, small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = write_everything(tmp_path, small_graph)
    task = runs_of(fields, tmp_path)["classification"] | {"knowledge": "true", "link": True}
    task["graph"] = {"max_words": 16, "max_nodes": 32}  # a window holds "Paris" whole
    trained, _ = assemble(PretrainConfig.read(None, fields))
    trained.save_pretrained(tmp_path / "run")
    AutoTokenizer.from_pretrained(fields["host"]).save_pretrained(tmp_path / "run")
    seal_model(tmp_path / "run")
    for changes in ({}, {"model": str(tmp_path / "run"), "method": None, "host": None}):
        values = {name: v for name, v in (task | changes).items() if v is not None}
        monkeypatch.delenv("WORLD_SIZE", raising=False)
        whole = finetuning.assemble(FinetuneConfig.read(None, values)).model
        of_process(1, monkeypatch)
        shared = values | {"training": values["training"] | {"shard": ["tables"]}}
        require_parts(finetuning.assemble(FinetuneConfig.read(None, shared)).model, whole, 1)


def test_vectors_by_the_row_are_those_of_the_whole(
    tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    folder, n = tmp_path / "scorer", small_graph.n_entities
    scorer = make_scorer(
        "transe", n_entities=n, n_relations=small_graph.n_relations, width=6,
        generator=torch.Generator().manual_seed(2),
    )  # fmt: skip
    save_scorer(folder, scorer, small_graph, {})
    for standardise in (False, True):
        how: dict[str, Any] = {"width": 6, "seed": 1, "path": folder, "standardise": standardise}
        whole, rows = entity_vectors(small_graph, **how), vector_rows(small_graph, **how)
        assert torch.equal(rows.at(torch.tensor([n + 2, 0, 4, 1])), whole[[n + 2, 0, 4, 1]])
    torch.testing.assert_close(float(entity_vectors(
        small_graph, width=6, seed=1, path=folder)[3:].norm(dim=1).mean()), 1.0)  # fmt: skip
    (folder / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(CheckpointError):
        vector_rows(small_graph, width=6, seed=1, path=folder)
