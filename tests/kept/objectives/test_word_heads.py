"""A run that begins with another brings its head over words, whichever objective holds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from kept.errors import CheckpointError
from kept.objectives.model import KnowledgeForPreTraining
from kept.objectives.word_heads import copy_mlm_head, head_over_words
from kept.training.pretraining.assembly import assemble
from kept.training.pretraining.config import PretrainConfig
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import method_encoder
from tests.kept.training.tiny_pretraining import write_everything

HOLDERS = ("mlm", "stated_words", "replaced_words")


def new_model(objective: str, graph: KnowledgeGraph, tokenizer: Any) -> KnowledgeForPreTraining:
    encoder = method_encoder("kbert", graph, tokenizer)
    model = KnowledgeForPreTraining.of(encoder, {objective: {}})
    if (head := head_over_words(model)) is not None:
        with torch.no_grad():
            head.bias.normal_()
    return model


@pytest.mark.parametrize("trained", HOLDERS)
@pytest.mark.parametrize("started", HOLDERS)
def test_every_objective_with_a_head_over_words_hands_it_on(
    trained: str, started: str, small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    first = new_model(trained, small_graph, tokenizer)
    first.save_pretrained(tmp_path)
    model = new_model(started, small_graph, tokenizer)
    assert copy_mlm_head(tmp_path, model)
    old, new = head_over_words(first), head_over_words(model)
    assert old is not None
    assert new is not None
    assert all(torch.equal(v, new.state_dict()[n]) for n, v in old.state_dict().items())


@pytest.mark.parametrize(
    ("trained", "started"), [("relation_pairs", "mlm"), ("mlm", "relation_pairs")]
)
def test_without_a_head_over_words_nothing_is_handed_on(
    trained: str, started: str, small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    new_model(trained, small_graph, tokenizer).save_pretrained(tmp_path)
    model = new_model(started, small_graph, tokenizer)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert not copy_mlm_head(tmp_path, model)
    assert all(torch.equal(v, before[n]) for n, v in model.state_dict().items())


def test_a_head_of_another_size_is_refused(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    first = new_model("mlm", small_graph, tokenizer)
    first.save_pretrained(tmp_path)
    model = new_model("mlm", small_graph, tokenizer)
    head = head_over_words(model)
    assert head is not None
    head.bias = torch.nn.Parameter(torch.zeros(len(head.bias) + 1))
    with pytest.raises(
        CheckpointError, match=r"head over words in .* the host that it was trained"
    ):
        copy_mlm_head(tmp_path, model)


def test_start_from_brings_the_head(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    settings = write_everything(tmp_path, small_graph) | {"method": "kbert"}
    first, _ = assemble(PretrainConfig.model_validate(settings | {"objectives": {"mlm": {}}}))
    head = head_over_words(first)
    assert head is not None
    with torch.no_grad():
        head.bias.normal_()
    first.save_pretrained(tmp_path / "first")
    further = settings | {
        "objectives": {"replaced_words": {}}, "start_from": str(tmp_path / "first")
    }  # fmt: skip
    model, _ = assemble(PretrainConfig.model_validate(further))
    copied = head_over_words(model)
    assert copied is not None
    assert torch.equal(copied.bias, head.bias)
