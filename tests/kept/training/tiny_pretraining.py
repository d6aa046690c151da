"""A tiny random BERT on disk, linked sentences about the small graph, and a configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kg_loaders import KnowledgeGraph

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = (
    "the", "lies", "in", "and", "flows", "through", "capital", "of", "is", "near", "speaks",
    "people", "to", "old",
)  # fmt: skip
SENTENCES = [
    (["Q90"], "{} is the old capital of the people"),
    (["Q90", "Q142"], "{} is the capital of {}"),
    (["Q1471", "Q90"], "the {} flows through {}"),
    (["Q64", "Q183"], "{} lies in {}"),
    (["Q142", "Q183"], "{} and {} lies near"),
    (["Q2"], "the people of {} is old"),
    ([None], "{} speaks to the people"),
    (["Q99999"], "the old {} and the capital"),
]


def tokenizer() -> PreTrainedTokenizerFast:
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = [*SPECIAL, *WORDS, *letters, *(f"##{c}" for c in letters)]
    inner = Tokenizer(
        models.WordPiece(
            {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}, unk_token="[UNK]"
        )
    )
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=inner, **dict(zip(names, SPECIAL, strict=True)))


def write_host(folder: Path) -> Path:
    words = tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        host = BertModel(
            BertConfig(
                vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                intermediate_size=32, max_position_embeddings=64,
            )
        )  # fmt: skip
    host.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def linked_texts(graph: KnowledgeGraph, times: int = 3) -> list[LinkedText]:
    texts = []
    for number, (names, sentence) in enumerate(SENTENCES * times):
        text, links = "", []
        parts = sentence.split("{}")
        for part, name in zip(parts, [*names, ""], strict=True):
            text += part
            if name == "":
                break
            entity = None if name is None else graph.entities.find(name)
            surface = "nobody" if entity is None else graph.label(entity)
            mention = Mention(len(text), len(text) + len(surface))
            candidates = () if name is None else (Candidate(name, 1.0, 1.0),)
            links.append(Link(mention, candidates, name, 0.5))
            text += surface
        texts.append(LinkedText(text, tuple(links), str(number)))
    return texts


def write_texts(texts: list[LinkedText], path: Path) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for text in texts:
            mentions = [
                {"start": link.mention.start, "end": link.mention.end, "entity": link.entity}
                for link in text.links
            ]
            row = {"id": text.id, "text": text.text, "mentions": mentions}
            file.write(json.dumps(row) + "\n")
    return path


def write_everything(folder: Path, graph: KnowledgeGraph) -> dict[str, Any]:
    """Host, graph and text in `folder`; the configuration that names them."""
    graph.save(folder / "kg")
    return {
        "host": str(write_host(folder / "host")),
        "kg": str(folder / "kg"),
        "text": [str(write_texts(linked_texts(graph), folder / "text.jsonl"))],
        "graph": {"max_neighbours": 3, "drop_probability": 0.2},
        "training": {
            "steps": 8, "batch_size": 5, "threads": 1, "device": "cpu", "log_every": 1,
            "checkpoint_steps": 3, "seed": 4,
        },
    }  # fmt: skip
