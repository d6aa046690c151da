"""A view's options go wherever the view goes: pre-training, fine-tuning, encoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from typer.testing import CliRunner, Result

from entity_linking import LinkedText, Mention
from entity_linking.mentions import Candidate, Link
from kept.apps.cli import app
from kept.auto import AutoEncoder, saved_view
from kept.errors import BatchError, CheckpointError, ConfigError, NoKnowledgeError
from kept.methods import METHODS
from kept.training.finetuning.assembly import assemble
from kept.training.finetuning.config import FinetuneConfig
from kept.training.pretraining.config import absolute, own_vectors
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_everything

KAR = {"width": 8, "n_heads": 2, "feed_forward": 12, "scorer_width": 6}


def kept(*flags: object) -> Result:
    return CliRunner().invoke(app, [*map(str, flags)])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    folder = tmp_path_factory.mktemp("views")
    settings = write_everything(folder, small_graph)
    settings["training"] |= {"steps": 2}
    (folder / "run.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    texts = [f"{'old' if i % 2 else 'near'} Paris is {'abcdefgh'[i]}" for i in range(8)]
    table = "\n".join(f"{'o' if 'old' in text else 'n'}\t{text}" for text in texts)
    (folder / "texts.tsv").write_text(table, encoding="utf-8")
    return folder


def finetune_config(world: Path, **values: Any) -> FinetuneConfig:
    fields = {
        "task": "classification", "format": "tsv", "train": world / "texts.tsv", "link": True,
        "kg": world / "kg", "host": str(world / "host"), "dev_share": 0.3,
        "training": {"steps": 1, "batch_size": 4, "device": "cpu", "threads": 1},
    }  # fmt: skip
    return FinetuneConfig.model_validate(fields | values).with_absolute_paths()


def test_every_view_names_its_options() -> None:
    names = {name: METHODS[name].view.option_names() for name in METHODS}
    assert names["colake"] == ["weigh_links", "reach"]
    assert (names["kbert"][0], names["kbert"][-1]) == ("predicate", "incoming")
    assert names["ernie"] == ["min_confidence", "weigh_links"]
    assert names["none"] == []


def test_branches_in_fine_tuning_and_after(
    world: Path, tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    with pytest.raises(NoKnowledgeError, match=r"view\.max_branches"):
        assemble(finetune_config(world, method="kbert", view={"max_branches": 0}))
    sizes = {}
    for most in (1, 2):
        run = assemble(finetune_config(world, method="kbert", view={"max_branches": most}))
        sizes[most] = [
            run.train.sample(i, epoch=0, seed=0).node_ids.shape[1] for i in range(len(run.train))
        ]
        assert len(run.evaluation["dev"]) > 0
    assert all(one < two for one, two in zip(*sizes.values(), strict=True))
    plain = assemble(finetune_config(world, method="kbert"))
    assert plain.config.view == {}
    assert plain.train.view.max_branches == 2

    config = finetune_config(world, method="kbert", view={"max_branches": 1})
    (tmp_path / "run.yaml").write_text(config.model_dump_json(), encoding="utf-8")
    result = kept("finetune", "-c", tmp_path / "run.yaml", "-o", tmp_path / "run")
    assert result.exit_code == 0, result.output
    view = json.loads((tmp_path / "run/finetune.json").read_text())["view"]
    assert view["max_branches"] == 1
    saved = AutoEncoder.from_pretrained(tmp_path / "run")
    assert saved.view == view
    encoders = {
        most: AutoEncoder.from_pretrained(tmp_path / "run", view={"max_branches": most})
        .encode("Paris", small_graph)
        .sentences
        for most in (0, 1)
    }
    assert torch.equal(saved.encode("Paris", small_graph).sentences, encoders[1])
    assert not torch.equal(encoders[0], encoders[1])


def test_confidence_from_pre_training_on(
    world: Path, tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    """Links of the text have 0.5, those that are found 0.69: with 0.8 no entity is shown."""
    flags = ("-c", world / "run.yaml", "--method", "ernie", "--objective", "mlm")
    for least in (0.4, 0.8):
        out = tmp_path / str(least)
        result = kept("pretrain", *flags, "--set", f"view.min_confidence={least}", "-o", out)
        assert result.exit_code == 0, result.output
        assert saved_view(out) == {"min_confidence": least}
    candidate = Candidate("Q90", 1.0, 1.0)
    text = LinkedText("old Paris", (Link(Mention(4, 9), (candidate,), "Q90", 0.5),))
    entities = {}
    for least in (0.4, 0.8):
        (encoded,) = AutoEncoder.from_pretrained(tmp_path / str(least)).encode([text], small_graph)
        entities[least] = encoded.entities.names
    assert entities == {0.4: ("Q90",), 0.8: ()}
    inherited = assemble(finetune_config(world, model=tmp_path / "0.4"))
    assert inherited.config.view == {"min_confidence": 0.4}
    assert inherited.train.view.min_confidence == 0.4
    with pytest.raises(NoKnowledgeError, match="the options under `view`"):
        assemble(finetune_config(world, model=tmp_path / "0.8"))
    assembled = assemble(finetune_config(world, model=tmp_path / "0.8", view={}))
    assert assembled.train.view.min_confidence == 0.3


def test_two_graphs_from_pre_training_on(
    world: Path, tmp_path: Path, small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world)
    settings = yaml.safe_load((world / "run.yaml").read_text()) | {
        "method": "knowbert",
        "options": {"kars": [KAR, {**KAR, "name": "again", "kg": "kg"}], "vector_epochs": 1},
        "view": {"further": [{"kg": "kg"}], "max_candidates": 5},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    result = kept("pretrain", "-c", tmp_path / "run.yaml", "-o", tmp_path / "run")
    assert result.exit_code == 0, result.output
    monkeypatch.chdir(tmp_path)
    auto = AutoEncoder.from_pretrained(tmp_path / "run")
    assert auto.view["further"] == [{"kg": str((world / "kg").resolve())}]
    assert auto.encode("old Paris", small_graph).sentences.isfinite().all()
    with pytest.raises(BatchError, match="mentions of several graphs need mention_graphs"):
        AutoEncoder.from_pretrained(tmp_path / "run", view={}).encode("old Paris", small_graph)
    run = assemble(finetune_config(world, model=tmp_path / "run"))
    numbers = run.train.sample(0, epoch=0, seed=0).mention_graphs
    assert numbers is not None
    assert set(numbers[0].tolist()) == {0, 1}


def test_unknown_options_and_faulty_files_are_named(
    world: Path, tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    host, faulty = world / "host", {"max_branch": 3}
    with pytest.raises(ConfigError, match=r"no option 'max_branch'; it has predicate, max_bran"):
        AutoEncoder.from_host("kbert", host, small_graph, view=faulty)
    with pytest.raises(ConfigError, match=r"KBERTView has no option 'max_branch'"):
        assemble(finetune_config(world, method="kbert", view=faulty))
    (tmp_path / "finetune.json").write_text('{"view": 3}', encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"finetune\.json is not what a run wrote"):
        saved_view(tmp_path)
    assert saved_view(host) == {}


def test_paths_in_options_do_not_depend_on_where_a_run_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kar = {"vectors": "table", "vectors_from": "w2v.txt", "kg": "other"}
    options = absolute({"vectors": "scorer", "kars": [kar], "width": 3})
    assert options == {
        "vectors": str(tmp_path / "scorer"),
        "kars": [
            {
                "vectors": "table",
                "vectors_from": str(tmp_path / "w2v.txt"),
                "kg": str(tmp_path / "other"),
            }
        ],
        "width": 3,
    }
    assert absolute({"vectors": None}) == {"vectors": None}


def test_a_word_of_the_method_is_no_path_even_where_a_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-BERT's own vectors are called "facts"; so may a folder in the working directory be."""
    (tmp_path / "facts").mkdir()
    monkeypatch.chdir(tmp_path)
    assert absolute({"vectors": "facts"}, words=own_vectors("ebert")) == {"vectors": "facts"}
    named = str(tmp_path / "facts")
    assert absolute({"vectors": "facts"}, words=own_vectors("ernie")) == {"vectors": named}
    fields = {"task": "typing", "format": "tagme", "train": "train.json", "kg": "kg"}
    recipe = fields | {"method": "ebert", "options": {"vectors": "facts"}}
    recipe["training"] = {"steps": 1, "batch_size": 1}
    config = FinetuneConfig.model_validate(recipe).with_absolute_paths()
    assert config.options == {"vectors": "facts"}
