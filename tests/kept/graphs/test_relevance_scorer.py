"""`RelevanceScorer.open`: a masked language model in a folder, and what is no such folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM, BertModel

from kept.errors import ConfigError
from kept.graphs.relevance import RelevanceScorer
from kept.graphs.views import SubgraphView
from kg_loaders import KnowledgeGraph


def write(folder: Path, kind: type[Any], tokenizer: Any) -> Any:
    torch.manual_seed(0)
    model = kind(
        BertConfig(
            vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=16, max_position_embeddings=32, initializer_range=0.5,
        )
    )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model.eval()


@torch.no_grad()
def test_what_it_opens_scores_as_the_model(tmp_path: Path, tokenizer: Any) -> None:
    model = write(tmp_path, BertForMaskedLM, tokenizer)
    texts = ["the old city", "the old city of berlin by the river", "old"]
    expected = []
    for text in texts:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        loss = F.cross_entropy(model(input_ids=ids).logits[0], ids[0], reduction="sum")
        expected.append(-float(loss))
    scorer = RelevanceScorer.open(tmp_path, batch_size=2)
    assert scorer.scores(texts) == pytest.approx(expected, rel=1e-5)
    assert len({round(score, 3) for score in expected}) == len(texts)
    one, other = scorer.relevance("the old", ["city", "river"])
    with_names = scorer.scores(["the old", "the old city.", "the old river."])
    assert [one, other] == pytest.approx([score - with_names[0] for score in with_names[1:]])


def test_a_text_beyond_the_model_is_cut(tmp_path: Path, tokenizer: Any) -> None:
    write(tmp_path, BertForMaskedLM, tokenizer)
    scorer = RelevanceScorer.open(tmp_path)
    long, longer = (" ".join(["old"] * n) for n in (40, 60))
    assert scorer.scores([long]) == pytest.approx(scorer.scores([longer]))


def test_what_is_no_such_folder_is_refused(
    tmp_path: Path, tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    with pytest.raises(ConfigError, match=r"relevance is .*absent.*is not a folder"):
        RelevanceScorer.open(tmp_path / "absent")
    write(tmp_path / "bare", BertModel, tokenizer)
    with pytest.raises(ConfigError, match=r"has no head over masked words \(it lacks cls\."):
        RelevanceScorer.open(tmp_path / "bare")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"relevance .*empty: .*cannot be opened"):
        RelevanceScorer.open(tmp_path / "empty")
    view = SubgraphView(small_graph, relevance=str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match="is not a folder"):
        assert view._scorer
