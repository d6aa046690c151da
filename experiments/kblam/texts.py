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
from transformers import PreTrainedTokenizerBase

from entity_linking.parts import SentenceEncoder
from experiments.kblam.world import Dialogue
from kept.batches import IGNORE
from kept.decoders.kblam.knowledge_base import KnowledgeBase, padded
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.training import turn_labels
from kept.decoders.kblam.wording import CHATML, TEMPLATES
from kept.randomness import generator
from kg_loaders.disk.writing import write_bytes

BATCH = 16


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """A sentence encoder whose vectors of each list of texts are kept in a folder."""

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
            found: NDArray[np.float32] = load_file(path)["vectors"]
            return found
        made = np.asarray(self.encoder.encode(texts), np.float32)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes(path, save({"vectors": made}), force=True)
        return made


@dataclass(frozen=True, eq=False)
class Texts:
    """Dialogues: ids, what is real, labels of the values, and the fact that each is about.

    `refused` are answered with what is not known. `places` `[text 2]` are the nodes that should
    read the fact: the last piece of the name in the answer, and the node that writes the value.
    """

    ids: Tensor
    mask: Tensor
    labels: Tensor
    rows: Tensor
    refused: Tensor
    places: Tensor

    def __len__(self) -> int:
        return len(self.ids)


def drawn_texts(
    base: KnowledgeBase, tokenizer: PreTrainedTokenizerBase, n: int, seed: int, *,
    share_refused: float = 0.25,
) -> Texts:  # fmt: skip
    """So many dialogues about facts drawn from `base`, a share of them refused."""
    draws = generator(seed, "kblam texts")
    rows = draws.choice(len(base.facts), size=n, replace=n > len(base.facts))
    refused = torch.arange(n) < round(share_refused * n)
    made = [
        Dialogue.about(base.facts[row], int(draws.integers(len(TEMPLATES))), refused=bool(no))
        for row, no in zip(rows.tolist(), refused, strict=True)
    ]
    return texts_of(made, torch.from_numpy(rows), refused, tokenizer)


def texts_of(
    made: Sequence[Dialogue], rows: Tensor, refused: Tensor, tokenizer: PreTrainedTokenizerBase
) -> Texts:
    """The texts of dialogues."""
    pad = tokenizer.pad_token_id or 0
    ids, mask = padded(tokenizer([each.text for each in made])["input_ids"], pad)
    marker = tokenizer.convert_tokens_to_ids(CHATML.marker)
    labels = turn_labels(ids, marker, n_after=CHATML.n_after, turn=2, node_mask=mask)
    ends = [len(each) for each in tokenizer([each.begun for each in made])["input_ids"]]
    last = torch.tensor(ends) - 1
    labels = labels.masked_fill(torch.arange(ids.shape[1]) <= last[:, None], IGNORE)
    return Texts(ids, mask, labels, rows, refused, torch.stack([last - 1, last], dim=1))


def entering(model: KBLaM, texts: Texts) -> Tensor:
    """What enters the first reading layer, `[text node width]`."""
    parts = [
        model.entering_states(texts.ids[i : i + BATCH], texts.mask[i : i + BATCH])
        for i in range(0, len(texts), BATCH)
    ]
    return torch.cat(parts)


def is_predicting(texts: Texts) -> Tensor:
    """The nodes from which words of the answer are predicted, `[text node]`."""
    return torch.nn.functional.pad(texts.labels[:, 1:] != IGNORE, (0, 1))
