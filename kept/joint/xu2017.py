"""Structure and description of an entity in one vector, mixed by a gate of its own.

Xu, Qiu, Chen and Huang 2017, "Knowledge Graph Representation with Jointly Structural and Textual
Encoding" (IJCAI; arXiv 1611.08661): TransE over `e = g * e_s + (1 - g) * e_d` (section 4), where
`e_d` is read from the entity's description in one of three ways (section 3): the sum of its words,
an LSTM, or an LSTM whose states a relation attends to.

Axis legend: entity, token, triple, relation, width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding

from kept.errors import ConfigError
from kept.joint.training import chunks
from kept.kge.training import Sampler, contrast
from kept.kge.training_config import TrainingConfig
from kept.randomness import torch_generator

Encoder = Literal["nbow", "lstm", "alstm"]


@dataclass(frozen=True, kw_only=True)
class XuSettings:
    """Hyper-parameters; of a description `n_tokens` words are read."""

    encoder: Encoder = "lstm"
    epochs: int = 20
    learning_rate: float = 0.01
    margin: float = 2.0
    n_tokens: int = 40
    triples_per_step: int = 512


class Xu2017(nn.Module):
    """The three tables, the gates and the encoder of descriptions.

    `token_ids [entity token]` are words of each entity's description, -1 after its end. An entity
    without words is its structure alone.
    """

    token_ids: Tensor

    def __init__(
        self,
        token_ids: Tensor,
        *,
        n_words: int,
        n_relations: int,
        width: int,
        encoder: Encoder,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if encoder not in ("nbow", "lstm", "alstm"):
            raise ConfigError(f"encoder is {encoder!r}; use one of nbow, lstm, alstm")
        self.encoder, self.width = encoder, width
        self.register_buffer("token_ids", token_ids, persistent=False)
        self.words, self.structure, self.relations = (
            nn.Parameter(torch.randn(n, width, generator=generator) / width**0.5)
            for n in (n_words, len(token_ids), n_relations)
        )
        self.gates = nn.Parameter(torch.zeros(len(token_ids), width))
        if encoder != "nbow":
            self.lstm = nn.LSTM(width, width, batch_first=True)
        if encoder == "alstm":
            self.of_states, self.of_relation = (nn.Linear(width, width, bias=False) for _ in "ab")
            self.score = nn.Linear(width, 1, bias=False)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.split(".")[0] in ("lstm", "of_states", "of_relation", "score"):
                    bound = width**-0.5
                    parameter.uniform_(-bound, bound, generator=generator)

    def texts(self, entities: Tensor, relations: Tensor | None) -> Tensor:
        """`e_d` of entities (ids), read for `relations` (vectors) by the attention alone.

        Shapes `[entity]`, `[entity width] -> [entity width]`. NBOW: the sum of words; LSTM: the
        mean of its states; A-LSTM: their mean by softmax of `v . tanh(W h + U r)`.
        """
        ids = self.token_ids[entities]
        mask = ids >= 0
        words = embedding(ids.clamp_min(0), self.words) * mask[..., None]
        if self.encoder == "nbow":
            return words.sum(1)
        states: Tensor = self.lstm(words)[0]
        if self.encoder == "lstm":
            shares = mask.to(states) / mask.sum(1, keepdim=True).clamp_min(1)
        else:
            if relations is None:
                raise ConfigError("alstm reads a description for a relation: give one")
            text_states = self.of_states(states) + self.of_relation(relations)[:, None]
            scores = self.score(text_states.tanh())[..., 0].masked_fill(~mask, -torch.inf)
            shares = scores.softmax(1).nan_to_num(0.0)  # of an entity without words
        return (states * shares[..., None]).sum(1)

    def vectors(self, entities: Tensor, relations: Tensor | None = None) -> Tensor:
        """`g * e_s + (1 - g) * e_d`, `g` the sigmoid of the entity's gate: `[entity width]`."""
        gates = self.gates[entities].sigmoid()
        described = (self.token_ids[entities] >= 0).any(1, keepdim=True)
        gates = torch.where(described, gates, 1.0)
        return gates * self.structure[entities] + (1 - gates) * self.texts(entities, relations)

    def energies(self, triples: Tensor) -> Tensor:
        """`|h + r - t|^2` of `triples [triple 3]`: `[triple]`."""
        head, relation, tail = triples.unbind(-1)
        states = self.relations[relation]
        if self.encoder == "alstm":
            heads, tails = self.vectors(head, states), self.vectors(tail, states)
        else:
            ids, inverse = torch.unique(torch.stack([head, tail]), return_inverse=True)
            heads, tails = self.vectors(ids)[inverse]
        return (heads + states - tails).square().sum(-1)

    @torch.no_grad()
    def entities(self, triples: Tensor, *, at_once: int = 1024) -> Tensor:
        """A vector for each entity `[entity width]`.

        The attention reads each for the mean of the relations of its triples (0 without any).
        """
        n = len(self.structure)
        sums = self.relations.new_zeros(n, self.width + 1)
        ones = sums.new_ones(len(triples), 1)
        rows = torch.cat([self.relations[triples[:, 1]], ones], 1)
        for slot in (0, 2):
            sums.index_add_(0, triples[:, slot], rows)
        means = sums[:, :-1] / sums[:, -1:].clamp_min(1)
        parts = [torch.arange(*ends) for ends in chunks(n, at_once)]
        return torch.cat([self.vectors(ids, means[ids]) for ids in parts])


class XuSpace:
    """Training by a margin between a triple and a corrupted one, sides by Bernoulli."""

    def __init__(
        self, model: Xu2017, triples: NDArray[np.integer], settings: XuSettings, *, seed: int
    ) -> None:
        self.model, self.settings, self.seed = model, settings, seed
        self.triples = torch.from_numpy(np.array(triples, np.int64))
        self._parts = chunks(len(self.triples), settings.triples_per_step)
        self.n_steps = len(self._parts)
        self.config = TrainingConfig(
            n_epochs=settings.epochs,
            batch_size=settings.triples_per_step,
            learning_rate=settings.learning_rate,
            objective="negative_sampling",
            loss="margin",
            margin=settings.margin,
            corrupt="bernoulli",
            n_negatives=1,
        )
        n_relations = len(model.relations)
        self._sampler = Sampler(self.triples, len(model.structure), n_relations, self.config)
        self._optimiser = torch.optim.Adagrad(model.parameters(), lr=settings.learning_rate)

    def step(self, epoch: int, number: int, done: float) -> tuple[float, int]:
        """See `kept.joint.training.Space`."""
        order = torch.randperm(
            len(self.triples), generator=torch_generator(self.seed, "joint", "triples", epoch)
        )
        triples = self.triples[order[slice(*self._parts[number])]]
        draws = torch_generator(self.seed, "joint", epoch, number)
        losses = self.losses(triples, corrupt(self._sampler, triples, draws))
        self._optimiser.zero_grad(set_to_none=True)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        return float(losses.detach().sum()), len(losses)

    def losses(self, triples: Tensor, others: Tensor) -> Tensor:
        """`max(0, margin + |h + r - t|^2 - |h' + r - t'|^2)` of each triple, `[triple]`."""
        right, wrong = self.model.energies(torch.cat([triples, others])).chunk(2)
        return contrast(
            -right, -wrong[:, None], loss="margin", margin=self.settings.margin, temperature=0.0
        )

    def state(self) -> dict[str, Tensor]:
        """See `kept.joint.training.Space`."""
        tensors = {f"model.{name}": t for name, t in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for part, value in self._optimiser.state[parameter].items():
                tensors[f"optimiser.{part}.{name}"] = value
        return tensors

    def load(self, state: Mapping[str, Tensor]) -> None:
        """See `kept.joint.training.Space`."""
        with torch.no_grad():
            for name, tensor in self.state().items():
                tensor.copy_(state[name])


def corrupt(sampler: Sampler, triples: Tensor, draws: torch.Generator) -> Tensor:
    """The triples `[triple 3]`, each with another head or tail."""
    is_tail = sampler.corrupts_tail(triples, draws)
    entities = sampler.entities(len(triples), draws, triples.device)[:, 0]
    replaced = triples.clone()
    replaced[is_tail, 2], replaced[~is_tail, 0] = entities[is_tail], entities[~is_tail]
    return replaced
