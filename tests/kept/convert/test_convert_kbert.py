"""K-BERT's and UER's files: every kind of them, strictly, with the tokenizer if there is one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoTokenizer

from kept.convert import kbert as keys
from kept.encoders.kbert import KBERT
from kept.errors import CheckpointError, ConfigError
from kept.heads.model import KnowledgeForTask
from kept.tasks.kinds import TAGGING
from kg_loaders import KnowledgeGraph
from tests.kept.convert import releases

GOLDEN = releases.GOLDEN / "kbert"
WIDTH = 48


@pytest.fixture(scope="module")
def classifier() -> dict[str, Tensor]:
    return load_file(GOLDEN / "state_dict.safetensors")


@pytest.fixture(scope="module")
def body(classifier: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k: v for k, v in classifier.items() if not k.startswith("output_layer")}


@pytest.fixture(scope="module")
def pretraining_heads() -> dict[str, Tensor]:
    """`target.*` as UER's pre-training writes it."""
    n_words = json.loads((GOLDEN / "config.json").read_text())["vocab_size"]
    sizes = {
        "mlm_linear_1": (WIDTH, WIDTH), "mlm_linear_2": (n_words, WIDTH),
        "nsp_linear_1": (WIDTH, WIDTH), "nsp_linear_2": (2, WIDTH),
    }  # fmt: skip
    heads = {f"target.{name}.weight": torch.full(size, 0.25) for name, size in sizes.items()}
    heads |= {f"target.{name}.bias": torch.full(size[:1], 0.5) for name, size in sizes.items()}
    return heads | {f"target.layer_norm.{n}": torch.ones(WIDTH) for n in ("gamma", "beta")}


def written(folder: Path, state: dict[str, Tensor]) -> Path:
    path = folder / "model.bin"
    torch.save(state, path)
    return path


def test_a_classifier(classifier: dict[str, Tensor], tmp_path: Path) -> None:
    path = written(tmp_path, classifier)
    model = keys.convert(path, n_heads=4, labels="bad, fair, good", pooling="mean")
    assert isinstance(model, KnowledgeForTask)
    assert model.config.id2label == {0: "bad", 1: "fair", 2: "good"}
    assert (model.head.pooling, model.head.over) == ("mean", "all")
    assert model.config.host.num_attention_heads == 4
    model.save_pretrained(tmp_path / "out")
    again = KnowledgeForTask.from_pretrained(tmp_path / "out")
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
    assert again.config.to_dict()["layer_norm"] == "uer"
    assert again.encoder.config.segment_offset == 1
    assert sorted(f.suffix for f in (tmp_path / "out").iterdir()) == [
        ".json",
        ".json",
        ".safetensors",
    ]


def test_an_encoder_after_pre_training(
    body: dict[str, Tensor], pretraining_heads: dict[str, Tensor], tmp_path: Path
) -> None:
    model = keys.convert(written(tmp_path, body | pretraining_heads), n_heads=4)
    assert isinstance(model, KBERT)
    assert (model.host.pooler.dense.weight == 0.25).all()
    encoder = keys.convert(written(tmp_path, body), n_heads=4)
    assert isinstance(encoder, KBERT)
    assert encoder.host.pooler is None
    model.save_pretrained(tmp_path / "out")
    again = KBERT.from_pretrained(tmp_path / "out")
    assert (again.host.pooler.dense.bias == 0.5).all()


def test_a_tagger_keeps_its_pre_training_heads(
    body: dict[str, Tensor], pretraining_heads: dict[str, Tensor], tmp_path: Path
) -> None:
    head = load_file(GOLDEN / "tagger_head.safetensors")
    model = keys.convert(written(tmp_path, body | pretraining_heads | head), n_heads=4)
    assert isinstance(model, KnowledgeForTask)
    assert model.config.problem_type == TAGGING
    assert torch.equal(model.head.classes.weight, head["output_layer.weight"])


def test_every_odd_weight_is_named(classifier: dict[str, Tensor], tmp_path: Path) -> None:
    odd = classifier | {"target.output_layer.weight": torch.zeros(2)}
    with pytest.raises(CheckpointError, match=r"not know: \['target.output_layer.weight'\]"):
        keys.convert(written(tmp_path, odd), n_heads=4)
    name = "encoder.transformer.1.layer_norm_2.beta"
    short = {k: v for k, v in classifier.items() if k != name}
    with pytest.raises(CheckpointError, match=r"missing .*layer\.1\.output\.LayerNorm\.bias"):
        keys.convert(written(tmp_path, short), n_heads=4)
    gap = {k: v for k, v in classifier.items() if ".1." not in k or "transformer" not in k}
    with pytest.raises(CheckpointError, match=r"missing .*layer\.1\.attention"):
        keys.convert(written(tmp_path, gap), n_heads=4)
    with pytest.raises(CheckpointError, match="not a UER encoder"):
        keys.convert(written(tmp_path, {"weight": torch.zeros(2)}))


def test_faulty_options(classifier: dict[str, Tensor], tmp_path: Path) -> None:
    path = written(tmp_path, classifier)
    with pytest.raises(ConfigError, match="n_heads is 7"):
        keys.convert(path, n_heads=7)
    with pytest.raises(ConfigError, match="2 labels for a head of 3 classes"):
        keys.convert(path, n_heads=4, labels="a,b")


def test_no_state_dict(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    torch.save([torch.zeros(2)], path)
    with pytest.raises(CheckpointError, match="does not hold a state dict"):
        keys.convert(path)


def test_the_vocabulary_is_saved_with_the_model(
    classifier: dict[str, Tensor], tmp_path: Path
) -> None:
    path = written(tmp_path, classifier)
    model = keys.convert(path, n_heads=4, vocabulary=GOLDEN / "vocab.txt")
    model.save_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    lines = (GOLDEN / "vocab.txt").read_text().splitlines()
    ids = [lines.index(token) for token in ("[CLS]", "北", "京", "T", "[UNK]", "[SEP]")]
    assert tokenizer("北京T Z").input_ids == ids
    small = tmp_path / "small.txt"
    small.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(CheckpointError, match="164 tokens"):
        keys.convert(path, n_heads=4, vocabulary=small)
    small.write_text("[PAD]\n[UNK]\na\na\n")
    with pytest.raises(CheckpointError, match=r"twice, or lacks \['\[CLS\]'"):
        keys.convert(path, n_heads=4, vocabulary=small)
    with pytest.raises(CheckpointError, match="cannot be read"):
        keys.convert(path, n_heads=4, vocabulary=tmp_path / "nowhere")


def test_it_reads_whatever_graph(
    body: dict[str, Tensor], small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    path = written(tmp_path, body)
    small_graph.save(tmp_path / "kg")
    keys.convert(path, n_heads=4, kg=tmp_path / "kg").save_pretrained(tmp_path / "with")
    keys.convert(path, n_heads=4).save_pretrained(tmp_path / "without")
    named, unnamed = (
        KBERT.from_pretrained(tmp_path / name, graph=small_graph) for name in ("with", "without")
    )
    assert named.config.id_space_hash == small_graph.id_space_hash != unnamed.config.id_space_hash
