"""Hosts as encoders; saving with a card; pushing to a hub and opening from there."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from kept.auto import AutoEncoder
from kept.auto.card import About
from kept.errors import CheckpointError, ConfigError, HostError
from kept.graphs.builder import BuilderConfig
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.errors import ExistsError
from tests.kept.fake_hub import FakeHub
from tests.kept.tiny_hosts import method_encoder, tiny_host

TEXTS = ["the old city of Paris", "a river"]


@pytest.fixture
def auto(small_graph: KnowledgeGraph, tokenizer: Any) -> AutoEncoder:
    encoder = method_encoder("kbert", small_graph, tokenizer)
    return AutoEncoder(
        encoder, tokenizer, builder=BuilderConfig(max_words=40), view={"max_branches": 1}
    )


def test_a_host_reads_words_alone(host: Path, small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    alone = AutoEncoder.from_pretrained(host)
    plain = alone.encode(TEXTS)
    assert torch.equal(plain.sentences, alone.encode(TEXTS, kg=small_graph).sentences)
    assert len(plain[0].mentions) == 0
    alone.save_pretrained(tmp_path / "saved")
    again = AutoEncoder.from_pretrained(tmp_path / "saved")
    assert torch.equal(plain.sentences, again.encode(TEXTS).sentences)
    card = (tmp_path / "saved" / "README.md").read_text(encoding="utf-8")
    assert f"| host | {host.name}: bert, 2 layers, 16 wide |" in card
    assert "| graph | none: the language model alone |" in card


def test_what_is_saved_encodes_the_same(
    auto: AutoEncoder, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    auto.save_pretrained(tmp_path / "saved")
    again = AutoEncoder.from_pretrained(tmp_path / "saved")
    assert (again.builder, again.view) == (auto.builder, auto.view)
    one, other = (each.encode(TEXTS, kg=small_graph) for each in (auto, again))
    assert torch.equal(one.sentences, other.sentences)
    with pytest.raises(ExistsError, match="force"):
        auto.save_pretrained(tmp_path / "saved")
    auto.save_pretrained(tmp_path / "saved", force=True)
    settings = tmp_path / "saved" / "encoder.json"
    settings.write_text(settings.read_text().replace("40", "41"), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"encoder\.json was altered"):
        AutoEncoder.from_pretrained(tmp_path / "saved")


def test_the_card_says_what_is_known_and_what_is_not(
    auto: AutoEncoder, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    auto.save_pretrained(tmp_path / "bare")
    card = (tmp_path / "bare" / "README.md").read_text(encoding="utf-8")
    assert small_graph.content_hash in card
    for row in ("licence of the graph", "linker", "coverage", "licence of the model"):
        assert f"| {row} | not known |" in card
    assert "| controls' verdict | not known: no comparison" in card
    assert "| leaks | not known: no audit" in card
    assert "license:" not in card
    comparison, audit = tmp_path / "wiki80.json", tmp_path / "audit.json"
    values = {"experiment": {"name": "wiki80"}, "verdicts": {"kbert": "not | shown"}, "missing": []}
    comparison.write_text(json.dumps(values), encoding="utf-8")
    audit.write_text('[{"check": "tested triple in the graph", "n_checked": 9, "n_found": 2}]')
    licensed = copy.copy(small_graph)
    vars(licensed)["manifest"] = msgspec.structs.replace(
        small_graph.manifest, licence="CC0-1.0 <b>", sources=("/home/me/facts.tsv",)
    )
    about = About(graph=licensed, comparison=comparison, audit=audit, linker="by names",
                  licence="apache-2.0")  # fmt: skip
    auto.save_pretrained(tmp_path / "told", about=about)
    card_text = (tmp_path / "told" / "README.md").read_text(encoding="utf-8")
    for line in (
        "license: apache-2.0", r"| licence of the graph | CC0-1.0 \<b\> |", "| linker | by names |",
        "| sources of the graph | facts.tsv |", r"| controls' verdict | on wiki80: not \| shown |",
        "| leaks | tested triple in the graph: 2 of 9 |",
    ):  # fmt: skip
        assert line in card_text, line


def test_a_card_tells_nothing_of_another_graph_or_file(auto: AutoEncoder, tmp_path: Path) -> None:
    other = graph_from_records([Triple("Q1", "P1", "Q2")])
    with pytest.raises(ConfigError, match=other.content_hash):
        auto.save_pretrained(tmp_path / "a", about=About(graph=other))
    (tmp_path / "odd.json").write_text("[]")
    for about in (About(comparison=tmp_path / "odd.json"), About(audit=tmp_path / "gone.json")):
        with pytest.raises(CheckpointError, match="is not what `kept compare`"):
            auto.save_pretrained(tmp_path / "a", about=about)
    assert not (tmp_path / "a").exists()


def test_a_run_brings_its_coverage_and_scores(finetuned: Path, tmp_path: Path) -> None:
    run = finetuned / "run"
    shares = {"link": 1.0, "fact": 0.5, "both_facts": None, "read": 0.5}
    metrics = {"dev": {"accuracy": {"estimate": 0.25, "low": 0.1, "high": 0.4},
                       "coverage": {"shares": shares}}}  # fmt: skip
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    (copy / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    AutoEncoder.from_pretrained(copy).save_pretrained(tmp_path / "saved")
    card = (tmp_path / "saved" / "README.md").read_text(encoding="utf-8")
    assert "| coverage, dev | link 100.0%, fact 50.0%, shown 50.0% |" in card
    assert "| accuracy, dev | 0.250 [0.100, 0.400] |" in card
    assert "| trained on | the task classification, 1 step |" in card
    assert str(finetuned) not in card + (tmp_path / "saved" / "encoder.json").read_text()


PUSH = """
import sys, torch
from kept.auto import AutoEncoder
from kept.errors import CheckpointError
mine = AutoEncoder.from_pretrained(sys.argv[1])
print(mine.push_to_hub("me/mine", private=sys.argv[2] == "private"))
theirs = AutoEncoder.from_pretrained("me/mine", revision="main")
assert torch.equal(mine.encode("a river").sentences, theirs.encode("a river").sentences)
host = AutoEncoder.from_pretrained("me/host")
assert host.encode("a river").sentences.shape == (1, 16)
try:
    AutoEncoder.from_pretrained("me/nothing")
except CheckpointError as error:
    print(error)
"""


def test_a_push_and_the_way_back(host: Path, tmp_path: Path) -> None:
    with FakeHub() as hub:
        files = {path.name: path.read_bytes() for path in host.iterdir()}
        files["evil.py"] = b"raise SystemExit('run')"
        files["pytorch_model.bin"] = pickle.dumps(print)
        hub.repositories["me/host"] = files
        environment = {
            **os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_TOKEN": "hf_x",
            "HF_HOME": str(tmp_path),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", PUSH, str(host), "private"], env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert hub.private["me/mine"]
    assert sorted(hub.repositories["me/mine"]) == [
        "README.md", "checksums.json", "config.json", "encoder.json", "model.safetensors",
        "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    assert "/me/mine/commit/" in done.stdout
    assert "me/nothing cannot be fetched" in done.stdout
    requests = "\n".join(hub.requests)
    assert "evil.py" not in requests
    assert "pytorch_model.bin" not in requests.replace("HEAD", "")


def test_nothing_is_pushed_offline(auto: AutoEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="a push needs the network"):
        auto.push_to_hub("me/mine")


def test_pickles_and_code_are_not_opened(tokenizer: Any, tmp_path: Path) -> None:
    folder = tmp_path / "host"
    tiny_host(n_words=len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    torch.save({"evil": torch.zeros(1)}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(HostError, match="cannot be opened"):
        AutoEncoder.from_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoModel": "evil.Evil"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text("raise SystemExit('run')")
    with pytest.raises(CheckpointError, match="model_type 'mine', which is not one of"):
        AutoEncoder.from_pretrained(folder)
    with pytest.raises(ConfigError, match="has no revision"):
        AutoEncoder.from_pretrained(folder, revision="main")
