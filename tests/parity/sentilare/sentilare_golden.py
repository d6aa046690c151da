"""SentiLARE's golden folder: its files, batches and models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders.lexical.sentilare import SentiLARE
from kept.graphs.views.sentilare import PART, POLARITY, RATING
from kept.heads.model import KnowledgeForTask
from kept.objectives.described_triples import text_batch
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import graph_from_records

ATOL = RTOL = 1e-5
INPUTS = {PART: "pos_tag_ids", POLARITY: "senti_word_ids", RATING: "polarity_ids"}
LABELS = {PART: "pos_tag_labels", POLARITY: "senti_words_labels", RATING: "polarity_labels"}
SHORT = {PART: "pos", POLARITY: "senti", RATING: "polarity"}
LOSSES = {"mlm": "masked_lm", PART: "pos_tag", POLARITY: "senti", RATING: "polarity"}
"""Our vocabularies and losses, and what they are called there."""
TABLES = {"pos_tag": PART, "senti": POLARITY, "polarity": RATING}
HEADS = {"pos_head": PART, "senti_head": POLARITY, "pola_head": RATING}


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def ours(name: str) -> str:
    """Our parameter of the original's `name`."""
    first, _, rest = name.partition(".")
    if first == "roberta":
        for theirs, our in TABLES.items():
            if rest == f"embeddings.{theirs}_embeddings.weight":
                return f"encoder.labels.{our}.vectors.weight"
        return f"encoder.host.{rest}"
    stem = "objectives.mlm" if first == "lm_head" else f"objectives.sentiment.heads.{HEADS[first]}"
    return f"{stem}.{rest}" if rest == "bias" else f"{stem}.transform.{rest}"


def byte_pieces(folder: Path, single: str = "<s> $A </s>") -> PreTrainedTokenizerFast:
    """Byte-level pieces, a blank in front of every text."""
    lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    merges = [tuple(line.split()) for line in lines if line and not line.startswith("#version")]
    ids = read(folder, "vocab")
    inner = Tokenizer(models.BPE(ids, merges, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)
    inner.post_processor = processors.TemplateProcessing(
        single=single, pair="<s> $A </s> </s> $B:1 </s>:1",
        special_tokens=[(name, ids[name]) for name in ("<s>", "</s>")],
    )  # fmt: skip
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<unk>", pad_token="<pad>", cls_token="<s>",
        sep_token="</s>", mask_token="<mask>",
    )  # fmt: skip


def new_encoder(folder: Path) -> SentiLARE:
    config, known = read(folder, "config"), AutoConfig.for_model("roberta").to_dict()
    ids = read(folder, "tokenizer")
    host = AutoModel.from_config(
        AutoConfig.for_model(
            "roberta", **{k: v for k, v in config.items() if k in known and k != "num_labels"},
            pad_token_id=ids["pad_token_id"],
        )
    )  # fmt: skip
    n_ratings = config["polarity_vocab"] - 1
    result = SentiLARE.from_host(host, graph_from_records([]), n_ratings=n_ratings)
    assert result.table(PART).vectors.num_embeddings == config["pos_tag_vocab"]
    assert result.table(POLARITY).vectors.num_embeddings == config["senti_vocab"]
    return result


def new_model(folder: Path) -> KnowledgeForPreTraining:
    """Their weights, every one of the four heads' and the body's; their rows without a look-up."""
    model = KnowledgeForPreTraining.of(new_encoder(folder), {"mlm": {}, "sentiment": {}})
    state = {ours(k): v for k, v in load(folder, "state_dict").items() if is_pretrained(k)}
    assert set(state) == set(model.state_dict())
    model.load_state_dict(state)
    hosts.word_table(model.encoder.host).padding_idx = 0
    for name in SHORT:
        table = model.encoder.table(name)
        table.vectors.padding_idx = table.empty
    return model.eval()


def is_pretrained(name: str) -> bool:
    return name.startswith(("roberta.", "lm_head.", *HEADS))


def with_ids(ids: Tensor, mask: Tensor, extra_ids: dict[str, Tensor], pad: int) -> KnowledgeBatch:
    """Padded rows as they stand, with the three vocabularies, named as there."""
    rows = [row[seen].tolist() for row, seen in zip(ids, mask.bool(), strict=True)]
    batch = text_batch(rows, pad_id=pad).pad_to(ids.shape[1], word_pad_id=pad)
    assert torch.equal(batch.node_ids, ids)
    return batch.replace(extra_ids={name: value[..., None] for name, value in extra_ids.items()})


def batch_of(folder: Path) -> KnowledgeBatch:
    inputs, pad = load(folder, "inputs"), read(folder, "tokenizer")["pad_token_id"]
    extras = {name: inputs[theirs] for name, theirs in INPUTS.items()}
    batch = with_ids(inputs["input_ids"], inputs["attention_mask"], extras, pad)
    return batch.replace(
        node_labels=ignored(inputs["masked_lm_labels"]),
        extra_labels={name: ignored(inputs[theirs])[..., None] for name, theirs in LABELS.items()},
    )


def ignored(labels: Tensor) -> Tensor:
    return labels.masked_fill(labels == -1, IGNORE)


def task_model(folder: Path, head: str, name: str, n_classes: int, kind: str) -> KnowledgeForTask:
    """Their body and one of their heads; a dense layer before the classes is our host's pooler."""
    encoder, state = new_encoder(folder), load(folder, "state_dict")
    body = {
        ours(k).removeprefix("encoder."): v for k, v in state.items() if k.startswith("roberta.")
    }
    encoder.load_state_dict(body)
    labels = [str(i) for i in range(n_classes)]
    model = KnowledgeForTask.of(encoder, head, labels, problem_type=kind).eval()
    with torch.no_grad():
        for part in ("weight", "bias"):
            last = "out_proj." if f"{name}.classifier.out_proj.{part}" in state else ""
            value = state[f"{name}.classifier.{last}{part}"]
            getattr(model.head.classes, part).copy_(value)
            if last:
                dense = state[f"{name}.classifier.dense.{part}"]
                getattr(encoder.host.pooler.dense, part).copy_(dense)
    return model


def task_batch(folder: Path) -> KnowledgeBatch:
    """The features of the first case."""
    rows = read(folder, "finetune_features")["cases"][0]["features"]
    columns = {
        name: torch.tensor([row[name] for row in rows])
        for name in ("input_ids", "input_mask", "pos_ids", "senti_ids", "polarity_ids")
    }
    extras = {
        PART: columns["pos_ids"], POLARITY: columns["senti_ids"], RATING: columns["polarity_ids"],
    }  # fmt: skip
    pad = read(folder, "tokenizer")["pad_token_id"]
    return with_ids(columns["input_ids"], columns["input_mask"], extras, pad)
