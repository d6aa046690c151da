"""`ClozeModel`: what a probe asks, whether a plain masked LM or a model with knowledge in it.

Axis legend: sample, node, mask, word (rows of the word table), embedding.
"""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.encoders import ENCODERS
from kept.errors import ConfigError
from kept.probing.results import Mode
from kg_loaders import KnowledgeGraph

MAX_WORDS = 128
REMEDY = (
    "train one: kept pretrain --method none --objective mlm --host HOST --kg KG --text TEXTS "
    "--steps N --batch-size 32 -o FOLDER, and probe FOLDER"
)
AskedFacts = Literal["hidden", "shown", "none"]


@dataclass(frozen=True)
class Question:
    """A text with masks in the place of the answer. `key` names its draws, `fact` what it asks."""

    linked: LinkedText
    key: str
    fact: tuple[str, str, str] | None = None


@dataclass(frozen=True, eq=False)
class Sample:
    """A question in a model's own form: `ids [node]`, where its masks are, the rest in `body`.

    `asked_shown`: whether a fact that joins the ends of the asked one is among the shown.
    """

    ids: Int[Tensor, " node"]
    masks: tuple[int, ...]
    body: Any = None
    asked_shown: bool = False

    def filled(self, pieces: Sequence[int], mask: int) -> Sample:
        """The sample with `pieces` in its masks, save at the node `mask`, which stays one."""
        ids = self.ids.clone()
        ids[list(self.masks)] = torch.tensor(list(pieces)).to(ids)
        ids[mask] = self.ids[mask]
        return dataclasses.replace(self, ids=ids, masks=(mask,))


class ClozeModel(ABC):
    """Abstract: questions to samples, samples to states, and the matrix that turns them to words.

    `mode`: "weights" answers without any graph or link, "graph" reads both.
    """

    name: str
    method: str
    mode: Mode
    asked_facts: AskedFacts
    tokenizer: Any

    @abstractmethod
    def samples(self, questions: Sequence[Question]) -> list[Sample]:
        """One sample a question, in order."""

    @abstractmethod
    def states(self, samples: Sequence[Sample]) -> Float[Tensor, "sample mask embedding"]:
        """What stands before the matrix of words, at the masks alone; all have as many masks."""

    @abstractmethod
    def words(self) -> tuple[Float[Tensor, "word embedding"], Float[Tensor, " word"] | None]:
        """The matrix of words, and its bias."""


def open_model(
    name: str | Path,
    mode: Mode = "weights",
    kg: KnowledgeGraph | str | Path | None = None,
    *,
    show_asked: bool = False,
) -> ClozeModel:
    """The masked LM in a folder or of a hub name, or the run in a folder, ready to be probed.

    Mode "graph" needs a method that reads a graph when it answers, and its graph. There, facts
    between the two ends of an asked one are hidden unless `show_asked`. Raises `ConfigError` for a
    mode that the model does not have, `HostError` for a model without a trained head over words.
    """
    if show_asked and mode == "weights":
        raise ConfigError("mode weights shows no facts; show_asked belongs to mode graph")
    if _is_ours(name):
        from kept.probing.kept_models import KeptMaskedLM

        return KeptMaskedLM.open(Path(name), mode, kg, show_asked=show_asked)
    if mode == "graph":
        raise ConfigError(f"{name} is a plain masked LM, which reads no graph; use mode weights")
    from kept.probing.plain_models import PlainMaskedLM

    return PlainMaskedLM.open(str(hosts.minilm_folder() if str(name) == "minilm" else name))


def _is_ours(name: str | Path) -> bool:
    """Whether a folder's configuration is that of an encoder of ours."""
    path = Path(name) / "config.json"
    if not path.is_file():
        return False
    values = json.loads(path.read_text(encoding="utf-8"))
    return isinstance(values, dict) and values.get("model_type") in ENCODERS


def mask_places(ids: Int[Tensor, " node"], tokenizer: Any) -> tuple[int, ...]:
    """The nodes of `ids` that are masks, in order."""
    found: list[int] = (ids == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    return tuple(found)
