"""What E-BERT's released code does around its encoder: LAMA's titles and ensembles.

Poerner, Waltinger and Schütze 2020 (Findings of EMNLP), repository NPoe/ebert.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from kept.encoders.ebert import EBERT
from kept.objectives.masked_words import MaskedWords


def titles_of_queries(queries: Sequence[Sequence[str]], known: Collection[str]) -> list[str | None]:
    """The title that each query's subject gets: a table of all queries decides.

    The table holds the first known one of each query's titles in sorted order; a query then takes
    the last title of its own list that is in the table, whoever put it there.
    """
    firsts = (next((t for t in sorted(titles) if t in known), None) for titles in queries)
    table = {title for title in firsts if title is not None}
    return [next((t for t in reversed(titles) if t in table), None) for titles in queries]


def ensemble(plain: Tensor, replaced: Tensor, rule: str) -> Tensor:
    """One distribution over words from those without and with the entity in its mention's place.

    "avg" is their mean; "max" is the one whose best word is the more probable.
    """
    if rule == "avg":
        return (plain + replaced) / 2
    return torch.where(plain.max(-1, keepdim=True).values >= replaced.max(-1, keepdim=True).values,
                       plain, replaced)  # fmt: skip


def masked_words(encoder: EBERT, state: dict[str, Tensor]) -> MaskedWords:
    """The released head over words on this encoder, from its state dict."""
    config = encoder.host.config
    head = MaskedWords(
        width=config.hidden_size, embedding=config.hidden_size, n_words=config.vocab_size,
        epsilon=config.layer_norm_eps,
    )  # fmt: skip
    names = {"dense": "dense", "layer_norm": "LayerNorm"}
    own = {
        f"transform.{ours}.{part}": state[f"cls.predictions.transform.{theirs}.{part}"]
        for ours, theirs in names.items()
        for part in ("weight", "bias")
    }
    head.load_state_dict(own | {"bias": state["cls.predictions.bias"]})
    return head.eval()
