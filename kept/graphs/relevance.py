"""How relevant an entity is to a text: how easily a masked language model reads both together.

Yasunaga et al. 2021, "QA-GNN" (NAACL), section 3.1 (KG node scoring). As in the released code, and
other than in the paper's words: nothing is masked. A score is minus the sum of the cross entropies
of all tokens, the special ones included, so that a longer name scores lower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from transformers import AutoModelForMaskedLM, AutoTokenizer

from kept.errors import ConfigError, HostError

open_model: Callable[..., Any] | None = None
"""What opens a model in a folder: `kept.hosts.open_pretrained`, which is a floor above and puts
itself here when it is imported, as every encoder does."""


class RelevanceScorer:
    """A masked language model and its tokenizer. Texts are read `batch_size` at a time."""

    def __init__(self, model: Any, tokenizer: Any, *, batch_size: int = 64) -> None:
        self.model, self.tokenizer, self.batch_size = model.eval(), tokenizer, batch_size

    @classmethod
    def open(cls, folder: str | Path, *, batch_size: int = 64) -> RelevanceScorer:
        """The model in a folder; raises `ConfigError` for one without a masked language model."""
        if not Path(folder).is_dir():
            raise ConfigError(
                f"relevance is {str(folder)!r}, which is not a folder; give that of a masked "
                f"language "
                "model, its tokenizer included"
            )
        if open_model is None:
            raise ConfigError("relevance opens a model: import kept.hosts before")
        try:
            model, report = open_model(AutoModelForMaskedLM, folder, output_loading_info=True)
            tokenizer = open_model(AutoTokenizer, folder)
        except HostError as error:
            raise ConfigError(f"relevance {folder}: {error}") from error
        if report["missing_keys"]:
            raise ConfigError(
                f"relevance {folder} has no head over masked words (it lacks "
                f"{sorted(report['missing_keys'])[0]}); give a folder of the whole model"
            )
        return cls(model, tokenizer, batch_size=batch_size)

    def relevance(self, context: str, names: Sequence[str]) -> list[float]:
        """For each name, the score of the text with it minus that of the text alone."""
        alone, *others = self.scores([context, *(f"{context} {name}." for name in names)])
        return [other - alone for other in others]

    @torch.no_grad()
    def scores(self, texts: Sequence[str]) -> list[float]:
        """Minus the summed cross entropy of every text; longer ones are cut to the model's size."""
        values: list[float] = []
        for start in range(0, len(texts), self.batch_size):
            batch = self.tokenizer(
                list(texts[start : start + self.batch_size]), padding=True, truncation=True,
                max_length=self._longest(), return_tensors="pt",
            )  # fmt: skip
            ids, mask = batch["input_ids"], batch["attention_mask"]
            logits = self.model(**batch).logits
            losses = F.cross_entropy(logits.mT, ids, reduction="none")
            values += (-(losses * mask).sum(1)).tolist()
        return values

    def _longest(self) -> int:
        config = self.model.config
        n_positions = int(config.max_position_embeddings)
        return n_positions - (int(config.pad_token_id) + 1 if "roberta" in config.model_type else 0)


def context_of(texts: Sequence[str]) -> str:
    """The text that entities are scored with: all parts in lower case, and a full stop."""
    return f"{' '.join(texts)}.".lower()
