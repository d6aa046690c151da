"""What is read once and used again and again: dialogues by a frozen host, sentences as vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save
from torch import Tensor
from transformers import DynamicCache, PreTrainedTokenizerBase

from entity_linking.parts import SentenceEncoder
from kept import decoders
from kept.batches import IGNORE
from kept.decoders.kblam.knowledge_base import KnowledgeBase, padded
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.wording import TEMPLATES, Dialogue
from kept.randomness import generator
from kept.training.processes.together import processes
from kg_loaders.disk.writing import write_bytes

BATCH = 16


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """A sentence encoder whose vectors of each list of texts are kept in a folder, by the first
    process where there are several."""

    encoder: SentenceEncoder
    folder: Path

    @property
    def name(self) -> str:
        """The encoder's."""
        return self.encoder.name

    @property
    def width(self) -> int:
        """The encoder's."""
        return self.encoder.width

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of `texts`, from the folder if they are there."""
        key = hashlib.sha256("\n".join([self.name, *texts]).encode()).hexdigest()[:16]
        path = self.folder / f"{key}.safetensors"
        if path.exists():
            return load_file(path)["vectors"]
        vectors = np.asarray(self.encoder.encode(texts), np.float32)
        if processes().is_first:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_bytes(path, save({"vectors": vectors}), force=True)
        return vectors


@dataclass(frozen=True, eq=False)
class Texts:
    """Dialogues about facts: `rows` are the facts, `refused` are answered with what is not known.

    A prompt without its last node (`prompts`, `prompt_mask`, padded on the left) is read without
    facts; `ids` go on from that last node to the end of the answer, `labels` are all behind it.
    `places` `[text 2]` are the nodes that should read the fact: the last piece of the name in the
    answer, and the node that writes the value.
    """

    prompts: Tensor
    prompt_mask: Tensor
    ids: Tensor
    mask: Tensor
    labels: Tensor
    rows: Tensor
    refused: Tensor
    places: Tensor

    def __len__(self) -> int:
        return len(self.ids)


def drawn_texts(
    base: KnowledgeBase,
    tokenizer: PreTrainedTokenizerBase,
    n: int,
    seed: int,
    *,
    share_refused: float = 0.25,
) -> Texts:
    """So many dialogues about facts drawn from `base`, a share of them refused."""
    draws = generator(seed, "kblam texts")
    rows = draws.choice(len(base.facts), size=n, replace=n > len(base.facts))
    refused = torch.arange(n) < round(share_refused * n)
    dialogues = [
        Dialogue.about(base.facts[row], int(draws.integers(len(TEMPLATES))), refused=bool(no))
        for row, no in zip(rows.tolist(), refused, strict=True)
    ]
    return texts_of(dialogues, torch.from_numpy(rows), refused, tokenizer)


def texts_of(
    dialogues: Sequence[Dialogue], rows: Tensor, refused: Tensor, tokenizer: PreTrainedTokenizerBase
) -> Texts:
    """The texts of dialogues."""
    pad = tokenizer.pad_token_id or 0
    whole, prefix_ids, prompt_ids = (
        tokenizer([getattr(each, part) for each in dialogues])["input_ids"]
        for part in ("text", "prefix", "prompt")
    )
    before = [len(ids) - 1 for ids in prompt_ids]
    prompts = padded([ids[:n] for ids, n in zip(whole, before, strict=True)], pad, side="left")
    ids, mask = padded([ids[n:] for ids, n in zip(whole, before, strict=True)], pad)
    last = torch.tensor([len(ids) - n - 1 for ids, n in zip(prefix_ids, before, strict=True)])
    labels = ids.masked_fill(~mask, IGNORE)
    labels[:, 0] = IGNORE
    return Texts(*prompts, ids, mask, labels, rows, refused, torch.stack([last - 1, last], dim=1))


@dataclass(frozen=True, eq=False)
class ReadTexts:
    """What a frozen host makes of texts without facts, for the layers from the first that reads on.

    `keys` and `values` `[layer text head node head_width]` of prompts, in halves; `entering`
    `[text node width]` of the nodes behind.
    """

    keys: Tensor
    values: Tensor
    entering: Tensor

    def cache(self, model: KBLaM, some: Tensor) -> DynamicCache:
        """A cache of the prompts of `some` texts, its own."""
        cache = DynamicCache(config=model.host.config)
        for number, key, value in zip(
            range(model.config.first, len(decoders.layers(model.host))),
            self.keys,
            self.values,
            strict=True,
        ):
            cache.update(key[some].to(model.host.dtype), value[some].to(model.host.dtype), number)
        return cache


@torch.no_grad()
def read_texts(model: KBLaM, texts: Texts) -> ReadTexts:
    """The host's pass over the texts, once for all graphs and all steps of training."""
    first, host = model.config.first, model.host
    keys, values, entering = [], [], []
    for start in range(0, len(texts), BATCH):
        some = slice(start, start + BATCH)
        cache = DynamicCache(config=host.config)
        model.read(texts.prompts[some], texts.prompt_mask[some], None, cache=cache)
        keys.append(torch.stack([each.keys for each in cache.layers[first:]]).half())
        values.append(torch.stack([each.values for each in cache.layers[first:]]).half())
        mask = torch.cat([texts.prompt_mask[some], texts.mask[some]], dim=1)
        states = model.read(texts.ids[some], mask, None, cache=cache).hidden_states
        entering.append(states[first])
    return ReadTexts(torch.cat(keys, dim=1), torch.cat(values, dim=1), torch.cat(entering))
