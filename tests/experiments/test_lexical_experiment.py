"""Word similarity before and after: what is read, what is compared, what the table says."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.lexical.words import main, read_scores, similarities
from kept import hosts
from kept.training.loop import train
from kept.training.pretraining.assembly import assemble
from kept.training.pretraining.config import PretrainConfig
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_everything, write_host

PAIRS = (
    "word 1\tword 2\tscore\nold\tnear\t2\nlies\tin\t7.5\npeople\tcapital\t4\nfrance\tfrench\t9\n"
)


def test_pairs_after_a_head(tmp_path: Path) -> None:
    file = tmp_path / "pairs.txt"
    file.write_text(PAIRS, encoding="utf-8")
    pairs, scores = read_scores(file)
    assert pairs[:2] == [("old", "near"), ("lies", "in")]
    assert scores.tolist() == [2, 7.5, 4, 9]


@torch.no_grad()
def test_similarities_are_cosines_of_mean_pieces(tmp_path: Path) -> None:
    folder = str(write_host(tmp_path / "host"))
    host, tokenizer = hosts.load_host(folder), hosts.load_tokenizer(folder)
    vectors = []
    for word in ("old", "nearby"):
        states = host(**tokenizer(word, return_tensors="pt")).last_hidden_state[0, 1:-1]
        vectors.append(states.mean(0))
    wanted = torch.cosine_similarity(*vectors, dim=0).item()
    actual = similarities(folder, [("old", "nearby"), ("old", "old")])
    np.testing.assert_allclose(actual, [wanted, 1], atol=1e-6)


def test_a_run_with_its_host(
    tmp_path: Path,
    small_graph: KnowledgeGraph,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fields = write_everything(tmp_path, small_graph) | {"method": "libert"}
    config = PretrainConfig.read(None, fields)
    model, data = assemble(config)
    train(model, data, config.training, tmp_path / "run")
    hosts.load_tokenizer(fields["host"]).save_pretrained(tmp_path / "run")
    (tmp_path / "pairs.txt").write_text(PAIRS, encoding="utf-8")
    monkeypatch.setattr(
        sys, "argv",
        ["x", str(tmp_path / "pairs.txt"), fields["host"], str(tmp_path / "run"),
         "--kg", fields["kg"]],
    )  # fmt: skip
    main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "pairs.txt: 4 all, 0 joined, 4 not joined"
    assert [line.split(" | ")[0] for line in lines[4:]] == ["| host"] * 2 + ["| run"] * 2
