"""Training of SimKGC on the triples of a graph.

Wang et al. 2022, "SimKGC" (ACL), section 3.3 and appendix; released code intfloat/SimKGC.

Axis legend: triple (rows head, relation, tail; inverses from `n_relations` on), batch, tail, text.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from kept.errors import ConfigError, TrainingError
from kept.evaluation.ranking import Triples
from kept.kge.resuming.epochs import Progress
from kept.kge.resuming.snapshots import Snapshots
from kept.kge.simkgc.networks import BiEncoder, Contrast, PreBatch, contrast
from kept.kge.simkgc.texts import Texts, Tokens, tokenise

Rows = NDArray[np.int64]
EPSILON = 1e-6


@dataclass(frozen=True, kw_only=True)
class SimKGCConfig:
    """Every setting of a training; the values are the paper's for WN18RR, but for the batch.

    `n_pre_batch`: earlier batches whose tails are negatives too (the paper: 2 for FB15k-237).
    `warmup` steps, at most a tenth of all. `n_steps` ends the training before its epochs do.
    """

    n_epochs: int
    batch_size: int = 256
    learning_rate: float = 5e-5
    n_tokens: int = 50
    margin: float = 0.02
    n_pre_batch: int = 0
    pre_batch_weight: float = 0.5
    self_negative: bool = True
    warmup: int = 400
    weight_decay: float = 1e-4
    gradient_norm: float = 10.0
    n_steps: int | None = None

    def __post_init__(self) -> None:
        faults = [
            f"{name} {value} is below {least}"
            for name, value, least in (
                ("n_epochs", self.n_epochs, 0),
                ("batch_size", self.batch_size, 2),
                ("n_tokens", self.n_tokens, 3),
                ("n_pre_batch", self.n_pre_batch, 0),
                ("warmup", self.warmup, 0),
            )
            if value < least
        ]
        if not self.learning_rate > 0:
            faults.append(f"learning_rate {self.learning_rate} is not above 0")
        if faults:
            raise ConfigError("training of SimKGC: " + "; ".join(faults))


class KnownTriples:
    """Which questions have which answers in training: what masks false negatives."""

    def __init__(self, triples: Triples, *, n_entities: int, n_relations: int) -> None:
        self._n_entities, self._n_types = n_entities, 2 * n_relations
        rows = with_inverses(np.asarray(triples, np.int64), n_relations)
        self._keys = np.unique(self._key(rows[:, 0], rows[:, 1], rows[:, 2]))
        _, which, n = np.unique(self._keys // n_entities, return_inverse=True, return_counts=True)
        self._of_several = self._keys[n[which] > 1]

    def _key(self, heads: Rows, relations: Rows, tails: Rows) -> Rows:
        return np.asarray((heads * self._n_types + relations) * self._n_entities + tails)

    def competing(self, batch: Rows, tails: Rows) -> NDArray[np.bool_]:
        """`[batch tail]`: not the question's own answer, nor one of several that training knows.

        As released, the only answer that training knows competes: in training it is the question's
        own, but in validation it is another.
        """
        keys = self._key(batch[:, :1], batch[:, 1:2], tails[None])
        is_other: NDArray[np.bool_] = batch[:, 2:] != tails[None]
        return is_other & ~np.isin(keys, self._of_several)

    def mask(self, batch: Rows) -> Bool[Tensor, "batch tail"]:
        """Of a batch among its own tails; the diagonal competes."""
        competes = self.competing(batch, batch[:, 2]) | np.eye(len(batch), dtype=np.bool_)
        return torch.from_numpy(competes)

    def head_mask(self, batch: Rows) -> Bool[Tensor, " batch"]:
        """Where the head is not an answer to its own question."""
        keys = self._key(batch[:, 0], batch[:, 1], batch[:, 0])
        return torch.from_numpy(~np.isin(keys, self._keys))


def with_inverses(triples: Rows, n_relations: int) -> Rows:
    """Every triple followed by its inverse, `[2 triple 3]`.

    >>> with_inverses(np.array([[0, 1, 2]]), 2).tolist()
    [[0, 1, 2], [2, 3, 0]]
    """
    rows = np.asarray(triples, np.int64).reshape(-1, 3)
    both = np.stack([rows, np.stack([rows[:, 2], rows[:, 1] + n_relations, rows[:, 0]], 1)], 1)
    return both.reshape(-1, 3)


@dataclass(eq=False)
class Step:
    """What a step reads beside the weights: texts as word pieces, masks and the queue."""

    model: BiEncoder
    tokenizer: PreTrainedTokenizerBase
    texts: Texts
    known: KnownTriples
    config: SimKGCConfig
    queue: PreBatch | None = None

    def contrast(self, batch: Rows, *, is_training: bool = True) -> Contrast:
        """Scores of a batch `[batch 3]`; in training they move the queue on."""
        relations, tails = batch[:, 1], batch[:, 2]
        first = [self.texts.entity(h, without=t) for h, _, t in batch.tolist()]
        last = [self.texts.entity(t, without=h) for h, _, t in batch.tolist()]
        names = [self.texts.relation(r) for r in relations.tolist()]
        questions = self.model.encode_questions(self._tokens(first, names))
        entities = self._entities([*last, *first] if self.config.self_negative else last)
        answers, head_vectors = entities[: len(batch)], entities[len(batch) :]
        queue = self.queue if is_training else None
        earlier = None
        if queue is not None:
            stored = queue.tails.numpy()
            mask = torch.from_numpy(self.known.competing(batch, stored))
            scale = self.model.log_scale
            earlier = queue.scores(questions, scale, mask, weight=self.config.pre_batch_weight)
            queue.store(answers, torch.from_numpy(tails.copy()))
        is_self = self.config.self_negative and is_training
        return contrast(
            questions,
            answers,
            self.model.log_scale,
            self.known.mask(batch),
            margin=self.config.margin if is_training else 0.0,
            pre_batch=earlier,
            heads=head_vectors if is_self else None,
            head_mask=self.known.head_mask(batch),
        )

    def _entities(self, texts: Sequence[str]) -> Float[Tensor, "text width"]:
        """Each distinct text is encoded once, so that its dropout is one too."""
        distinct = dict.fromkeys(texts)
        rows_by_text = {text: i for i, text in enumerate(distinct)}
        vectors = self.model.encode_entities(self._tokens([*distinct]))
        return vectors[torch.tensor([rows_by_text[text] for text in texts])]

    def _tokens(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> Tokens:
        return tokenise(self.tokenizer, texts, seconds, n_tokens=self.config.n_tokens)


@dataclass(frozen=True, eq=False)
class SimKGCHistory:
    """Mean loss by epoch, validation values, the epoch whose weights were kept, and the seconds."""

    losses: tuple[float, ...]
    validations: tuple[tuple[int, float], ...]
    best_epoch: int
    n_steps: int
    seconds: float = field(compare=False)


def rates(n_steps: int, config: SimKGCConfig) -> Iterator[float]:
    """The learning rate of each step: a linear warm-up from 0, then linear to 0."""
    warmup = min(config.warmup, n_steps // 10)
    for step in range(n_steps):
        share = step / warmup if step < warmup else (n_steps - step) / max(1, n_steps - warmup)
        yield config.learning_rate * share


def make_optimiser(model: BiEncoder, config: SimKGCConfig) -> torch.optim.AdamW:
    """AdamW with one decay for all parameters, biases and temperature too."""
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    return torch.optim.AdamW(
        learned, lr=config.learning_rate, eps=EPSILON, weight_decay=config.weight_decay
    )


def move(
    model: BiEncoder,
    optimiser: torch.optim.AdamW,
    loss: Tensor,
    *,
    number: int,
    rate: float,
    norm: float,
) -> None:
    """Step `number` (from 1) of the optimiser, the gradient cut to a length of `norm`.

    The released program's optimiser adds its epsilon before the second moment is freed of its bias,
    torch's after that: here it is divided by that bias, so that both are one.
    """
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), norm)
    for group in optimiser.param_groups:
        group["lr"] = rate
        group["eps"] = EPSILON / math.sqrt(1 - group["betas"][1] ** number)
    optimiser.step()


def train_simkgc(
    step: Step,
    triples: Int[Tensor, "triple 3"] | NDArray[np.integer],
    *,
    generator: torch.Generator,
    validate: Callable[[], float] | None = None,
    snapshots: Snapshots | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> SimKGCHistory:
    """Train in place on `triples [triple 3]` and their inverses; the best epoch's weights stay.

    Where we differ from the released program: `validate` (filtered MRR, say) chooses the epoch, not
    the accuracy inside validation batches; no mixed precision. The last, incomplete batch of an
    epoch is dropped. A run that was cut goes on from its last of `snapshots`, torch's own draws
    (dropout) among them. ConfigError: fewer triples than a batch. TrainingError: a loss is not
    finite.
    """
    model, started = step.model, time.perf_counter()
    epochs = _Epochs(step, np.asarray(triples), generator)
    state = None if snapshots is None else snapshots.read()
    if state is not None:
        epochs.load(state)
    progress, before = epochs.progress, epochs.progress.seconds

    def keep() -> None:
        progress.seconds = before + time.perf_counter() - started
        if snapshots is not None:
            snapshots.write(epochs.state())

    while epochs.n_done < epochs.n_steps:
        loss = epochs.run(snapshots, keep)
        if on_epoch is not None:
            on_epoch(progress.epoch, loss)
        if validate is not None:
            model.eval()
            value = validate()
            if value > max((before for _, before in progress.validations), default=-math.inf):
                progress.best = {n: t.detach().clone() for n, t in model.state_dict().items()}
                progress.best_epoch = progress.epoch
            progress.validations.append((progress.epoch, value))
    keep()
    if progress.best is not None:
        model.load_state_dict(progress.best)
    model.eval()
    epoch = progress.best_epoch or progress.epoch
    return SimKGCHistory(
        tuple(progress.losses), tuple(progress.validations), epoch, epochs.n_done, progress.seconds
    )


class _Epochs:
    """The steps of a training, an epoch at a time."""

    def __init__(self, step: Step, triples: Rows, generator: torch.Generator) -> None:
        config = step.config
        self.step, self.generator, self.n_done = step, generator, 0
        self.progress = Progress()
        self.rows = with_inverses(triples, len(step.texts.relations))
        self.per_epoch = len(self.rows) // config.batch_size
        if not self.per_epoch:
            raise ConfigError(
                f"{len(self.rows)} triples with their inverses are not a batch of "
                f"{config.batch_size}; take a smaller batch_size"
            )
        in_full = config.n_epochs * self.per_epoch
        self.n_steps = in_full if config.n_steps is None else min(in_full, config.n_steps)
        self.rates = list(rates(self.n_steps, config))
        self.optimiser = make_optimiser(step.model, config)

    def run(self, snapshots: Snapshots | None, keep: Callable[[], None]) -> float:
        """The mean loss of a shuffled epoch, or of what is left of it, cut at the last step."""
        config, model, progress = self.step.config, self.step.model, self.progress
        model.train()
        n = min(self.per_epoch, self.n_steps - self.n_done + progress.n_batches)
        order = self._order()[: n * config.batch_size].view(n, -1)
        for batch_rows in order[progress.n_batches :]:
            forwards, backwards = self.step.contrast(self.rows[batch_rows.numpy()]).losses()
            loss, self.n_done = forwards + backwards, self.n_done + 1
            move(
                model,
                self.optimiser,
                loss,
                number=self.n_done,
                rate=self.rates[self.n_done - 1],
                norm=config.gradient_norm,
            )
            progress.total += float(loss.detach())
            progress.n_batches += 1
            if snapshots is not None and snapshots.is_due and math.isfinite(progress.total):
                keep()
        mean = progress.total / n
        progress.end_epoch(mean)
        if not math.isfinite(mean):
            raise TrainingError(
                f"loss is {mean} in epoch {progress.epoch}; lower learning_rate "
                f"({config.learning_rate})"
            )
        return mean

    def _order(self) -> Tensor:
        """The order of the epoch at hand; a cut epoch keeps its own."""
        if self.progress.order_from is None:
            self.progress.order_from = self.generator.get_state()
            return torch.randperm(len(self.rows), generator=self.generator)
        again = torch.Generator().set_state(self.progress.order_from)
        return torch.randperm(len(self.rows), generator=again)

    def state(self) -> dict[str, Any]:
        """All that a step changes."""
        queue = self.step.queue
        return {
            "weights": self.step.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "dropout": torch.get_rng_state(),
            "n_done": self.n_done,
            "progress": {**vars(self.progress)},
            "queue": None if queue is None else vars(queue),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a `state`."""
        self.step.model.load_state_dict(state["weights"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        torch.set_rng_state(state["dropout"])
        self.n_done, self.progress = state["n_done"], Progress.of(state["progress"])
        if self.step.queue is not None:
            vars(self.step.queue).update(state["queue"])
