"""What E-BERT's released code does around its encoder: LAMA's titles and ensembles, entity linking.

Poerner, Waltinger and Schütze 2020 (Findings of EMNLP), repository NPoe/ebert.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from kept import hosts
from kept.batches import Visibility
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


def linking_inputs(
    encoder: EBERT, samples: Sequence[dict[str, Any]], vectors: dict[str, Tensor], *, prime: bool
) -> tuple[Tensor, Tensor]:
    """Input vectors `[sample node width]` and which are real, of `… [MASK] / mention * …`.

    With `prime` the input at [MASK] is the mean of the candidates' vectors, without NULL.
    """
    longest = max(len(sample["input_ids"]) for sample in samples)
    table = hosts.word_table(encoder.host).weight.detach()  # a frozen copy there
    ids = torch.zeros(len(samples), longest, dtype=torch.long)
    mask = torch.zeros(len(samples), longest, dtype=torch.bool)
    for i, sample in enumerate(samples):
        ids[i, : len(sample["input_ids"])] = torch.tensor(sample["input_ids"])
        mask[i, : len(sample["input_ids"])] = True
    entity_vectors = table[ids]
    if prime:
        for i, sample in enumerate(samples):
            named = [vectors[name] for name in sample["candidates"] if name is not None]
            entity_vectors[i, sample["mask_pos"]] = torch.stack(named).mean(0)
    return entity_vectors, mask


def linking_states(encoder: EBERT, inputs: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """States before the first layer and after each."""
    positions = torch.arange(inputs.shape[1]).expand(mask.shape)
    hidden = hosts.embed(encoder.host, inputs, positions, torch.zeros_like(positions))
    return hosts.run(encoder.host, hidden, Visibility.of_real(mask))


def linking_scores(
    transformed: Tensor,
    sample: dict[str, Any],
    vectors: dict[str, Tensor],
    null: Tensor,
    null_bias: Tensor,
) -> Tensor:
    """Scores `[candidate]` of one span: products with the transformed state, and log priors."""
    rows = [null if name is None else vectors[name] for name in sample["candidates"]]
    scores = torch.stack(rows) @ transformed[sample["mask_pos"]]
    if sample["biases"] is None:
        return scores
    biases = [null_bias[0] if b is None else torch.tensor(b) for b in sample["biases"]]
    return scores + torch.stack(biases)


def linking_loss(scores: Sequence[Tensor], samples: Sequence[dict[str, Any]]) -> Tensor:
    """The mean of -log softmax at each span's own candidate."""
    golds = [sample["correct_idx"] for sample in samples]
    return torch.stack([F.cross_entropy(s[None], torch.tensor([g]))
                        for s, g in zip(scores, golds, strict=True)]).mean()  # fmt: skip


def masked_words(encoder: EBERT, state: dict[str, Tensor]) -> MaskedWords:
    """The released head over words on this encoder, from its state dict."""
    config = encoder.host.config
    head = MaskedWords(
        width=config.hidden_size, embedding=config.hidden_size, n_words=config.vocab_size,
        epsilon=config.layer_norm_eps,
    )  # fmt: skip
    names = {"dense": "dense", "layer_norm": "LayerNorm"}
    own_names = {
        f"transform.{ours}.{part}": state[f"cls.predictions.transform.{theirs}.{part}"]
        for ours, theirs in names.items()
        for part in ("weight", "bias")
    }
    head.load_state_dict(own_names | {"bias": state["cls.predictions.bias"]})
    return head.eval()
