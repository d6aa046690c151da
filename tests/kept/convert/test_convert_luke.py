"""LUKE's folders: what is in them, rows of a graph, titles in several languages, and faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    LukeConfig,
    LukeForEntityClassification,
    LukeForEntityPairClassification,
    LukeForEntitySpanClassification,
    LukeForSequenceClassification,
    LukeModel,
)

from kept.batches import MASK_ROW, N_SPECIAL_ROWS, PAD_ROW, UNKNOWN_ROW
from kept.convert.luke import CONFIG, USUAL, VOCABULARY, back_to_original, convert
from kept.encoders.luke import LUKE
from kept.errors import CheckpointError, ConfigError
from kept.heads.model import KnowledgeForTask
from kept.tasks.kinds import MULTI
from kg_loaders import KnowledgeGraph
from tests.kept.convert.releases import SIZES, luke_release

TITLES = {
    "[MASK]": 0, "[PAD]": 1, "[UNK]": 2, "en:Tokyo": 3, "ja:東京": 3, "en:Berlin": 4,
    "de:Berlin": 4,
}  # fmt: skip
TABLE = "luke.entity_embeddings.entity_embeddings.weight"


def written(folder: Path, kind: type[Any], **changes: Any) -> dict[str, torch.Tensor]:
    """A model of transformers in a folder."""
    torch.manual_seed(0)
    config = LukeConfig(**SIZES, entity_vocab_size=7, entity_emb_size=6, num_labels=3, **changes)
    model = kind(config)
    model.save_pretrained(folder)
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (LukeForEntityClassification, {"n_targets": 1, "bias": True, "read": "entity"}),
        (LukeForEntityPairClassification, {"n_targets": 2, "bias": False, "read": "entity"}),
        (LukeForEntitySpanClassification, {"each": True, "bias": True, "read": "span"}),
    ],
)
def test_a_classifier_becomes_the_head_of_entities_and_goes_back(
    kind: type[Any], options: dict[str, Any], tmp_path: Path
) -> None:
    state = written(tmp_path, kind)
    model = convert(tmp_path, multi_label=True)
    assert isinstance(model, KnowledgeForTask)
    assert model.config.head["name"] == "entities"
    assert {name: model.config.head[name] for name in options} == options
    assert model.config.problem_type == MULTI
    assert model.config.num_labels == 3
    back = back_to_original(model)
    assert back.keys() == state.keys()
    assert all(back[name].equal(value) for name, value in state.items())


def test_a_bare_model_becomes_the_encoder(tmp_path: Path) -> None:
    state = written(tmp_path, LukeModel)
    model = convert(tmp_path)
    assert isinstance(model, LUKE)
    back = back_to_original(model)
    assert {name.removeprefix("luke.") for name in back} == state.keys()
    assert all(back[f"luke.{name}"].equal(value) for name, value in state.items())


def test_titles_of_several_languages_share_a_row(tmp_path: Path) -> None:
    """mLUKE: a graph takes the row by the title in any of its languages."""
    state = luke_release(tmp_path / "release", TITLES)
    graph = KnowledgeGraph.from_triples(
        [("Q1490", "P31", "Q64")], {"Q1490": "東京", "Q64": "Berlin"}
    )
    graph.save(tmp_path / "kg")
    rows = {
        graph.entities.name(i): row
        for i, row in enumerate(
            convert(
                tmp_path / "release", kg=tmp_path / "kg", language="ja", absent="unknown"
            ).encoder.entity_vectors.weight[N_SPECIAL_ROWS:]
        )
    }
    assert rows["Q1490"].equal(state[TABLE][TITLES["en:Tokyo"]])
    assert rows["Q64"].equal(state[TABLE][TITLES["[UNK]"]])  # no title in Japanese
    with pytest.raises(CheckpointError, match=r"1 of 2 entities .* 'Q64' first; absent=unknown"):
        convert(tmp_path / "release", kg=tmp_path / "kg", language="ja")
    with pytest.raises(ConfigError, match="absent is 'drop'"):
        convert(tmp_path / "release", kg=tmp_path / "kg", absent="drop")


def test_special_rows_go_by_their_titles(tmp_path: Path) -> None:
    state = luke_release(tmp_path, TITLES)
    ours = convert(tmp_path).encoder.entity_vectors.weight
    for row, title in ((UNKNOWN_ROW, "[UNK]"), (PAD_ROW, "[PAD]"), (MASK_ROW, "[MASK]")):
        assert ours[row].equal(state[TABLE][TITLES[title]])
    assert ours[N_SPECIAL_ROWS:].equal(state[TABLE][3:])


def test_missing_query_maps_are_copies_of_the_words(tmp_path: Path) -> None:
    """As the authors load a pre-trained model, whose attention is plain."""
    written(tmp_path, LukeModel, use_entity_aware_attention=False)
    settings = json.loads((tmp_path / CONFIG).read_text(encoding="utf-8"))
    settings["use_entity_aware_attention"] = True
    (tmp_path / CONFIG).write_text(json.dumps(settings), encoding="utf-8")
    model = convert(tmp_path)
    for queries, layer in zip(model.queries, model.host.encoder.layer, strict=True):
        attention = layer.attention.self.query
        for mapping in queries.children():
            assert mapping.weight.equal(attention.weight)
            assert mapping.bias.equal(attention.bias)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (VOCABULARY, '{"[PAD]": 0, "[UNK]": 1}', r"lacks \['\[MASK\]'\]"),
        (VOCABULARY, json.dumps({**USUAL, "Rome": 99}), "names row 99 of 7"),
        (VOCABULARY, json.dumps({**USUAL, "Rome": "x"}), "the row of 'Rome' is 'x', no number"),
        (VOCABULARY, json.dumps({**USUAL, "Rome": -1}), "'Rome' is -1, below 0"),
        (VOCABULARY, "[]", "holds a list, not a mapping"),
        (CONFIG, '{"model_type": "roberta"}', "model_type 'roberta' and lacks"),
    ],
)
def test_damaged_files_are_named(file: str, text: str, message: str, tmp_path: Path) -> None:
    written(tmp_path, LukeModel)
    (tmp_path / file).write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=message):
        convert(tmp_path)


def test_other_models_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "other", LukeForSequenceClassification)
    with pytest.raises(CheckpointError, match=r"a classifier of \['LukeForSequenceClass"):
        convert(tmp_path / "other")
    written(tmp_path / "relu", LukeModel, hidden_act="relu")
    with pytest.raises(CheckpointError, match="hidden_act is 'relu'"):
        convert(tmp_path / "relu")
    written(tmp_path / "short", LukeModel)
    weights = tmp_path / "short" / "model.safetensors"
    state = load_file(weights)
    del state["pooler.dense.bias"]
    save_file({**state, "odd": torch.zeros(1)}, weights)
    with pytest.raises(CheckpointError, match=r"missing \['host.pooler.dense.bias'\], unexpected"):
        convert(tmp_path / "short")
