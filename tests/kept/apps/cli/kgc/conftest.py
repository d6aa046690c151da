"""Graphs that are chains, and a host that knows their words."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.kept.apps.cli.kgc.kgc_toy import N, write_chain
from tests.kept.tiny_hosts import fast_tokenizer, tiny_host


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chain(tmp_path_factory.mktemp("graphs") / "chain", "e")


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with other entities: an inductive graph."""
    return write_chain(tmp_path_factory.mktemp("graphs") / "other", "f")


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ":", "inverse", "next", "previous",
             "number", *(f"w{i}" for i in range(N + 1))]  # fmt: skip
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("hosts") / "host"
    tiny_host(n_words=len(words), n_positions=64).save_pretrained(folder)
    fast_tokenizer(inner).save_pretrained(folder)
    return folder
