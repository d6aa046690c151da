"""A word in two sentences by the cosine of its states: places, thresholds, answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.lexical.contexts import (
    N_FITTED,
    answers_of,
    best_threshold,
    sides_of,
    word_states,
)
from experiments.lexical.words import open_host
from kept.tasks.datasets.glue import read_wic
from kg_loaders.damage import DamageReport
from tests.kept.training.tiny_pretraining import write_host

ROWS = (
    ("Word: lie. Sentence 1: Paris lies in France. Sentence 2: It lies near the Seine.", 1),
    ("Word: old. Sentence 1: The old people. Sentence 2: Paris is old.", 0),
)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "wic.jsonl"
    lines = [json.dumps({"text": text, "label": label}) for text, label in ROWS]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_the_word_is_found_in_both_sentences(pairs: Path) -> None:
    for example, word in zip(read_wic(pairs, DamageReport()), ("lies", "old"), strict=True):
        assert [text[start:end] for text, start, end in sides_of(example)] == [word, word]


def test_a_state_is_the_mean_of_the_words_own_pieces(tmp_path: Path, pairs: Path) -> None:
    host, tokenizer = open_host(str(write_host(tmp_path / "host")))
    (text, start, end), other = sides_of(next(iter(read_wic(pairs, DamageReport()))))
    actual = word_states(host, tokenizer, [(text, start, end), other])
    coded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    places = [i for i, (a, b) in enumerate(coded.pop("offset_mapping")[0].tolist())
              if b > a and a < end and b > start]  # fmt: skip
    with torch.no_grad():
        states = host(**coded).last_hidden_state[0]
    torch.testing.assert_close(actual[0], states[places].mean(0), rtol=1e-4, atol=1e-5)


def test_the_threshold_is_the_best_of_all() -> None:
    draws = np.random.default_rng(0)
    for _ in range(20):
        cosines, same = draws.random(12), draws.random(12) < 0.5
        share = np.mean((cosines > best_threshold(cosines, same)) == same)
        tried = [np.mean((cosines > t) == same) for t in (-1.0, *cosines)]
        assert share == max(tried)


def test_pairs_that_fit_the_threshold_are_not_asked(tmp_path: Path, pairs: Path) -> None:
    host = write_host(tmp_path / "host")
    examples = list(read_wic(pairs, DamageReport())) * (N_FITTED // 2 + 5)
    record = answers_of(str(host), examples)
    assert len(record["right"]) == len(record["gold"]) == len(record["group"]) == 10
    assert set(record["group"]) <= {"lies", "old"}
    assert record["right"] == "1" * 10
