"""Story generation with commonsense: a decoder read on verbalised triples, then on true and fake
stories.

Guan et al. 2020, "A Knowledge-Enhanced Pretraining Model for Commonsense Story Generation" (TACL),
sections 3.2 (GPT-2), 3.3 (triples) and 3.4 (telling true stories from fake ones); released code
thu-coai/CommonsenseStoryGen, whose weights load by `converted`.

Where we differ: gradients are clipped by the norm of what is applied. The released program counts
each row of the position table once for every place that read it, and so clips by another norm.

Axis legend: batch, node, width, word (of the vocabulary), label (of stories).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache, PreTrainedModel

from kept.decoders import check_decoder
from kept.decoders.generators.stories import LABELS
from kept.decoders.hosts import with_cache
from kept.errors import BatchError, CheckpointError, ConfigError, TrainingError

CLASS_WEIGHT = 0.05
"""The paper's weight of the classification loss, which is a sum over the batch."""
CLIP_NORM = 5.0
CUT = -1e10
"""What a score becomes that sampling leaves out."""


@dataclass(frozen=True, eq=False)
class StoryBatch:
    """Texts to learn from: what is read, what is expected, where, and each text's label.

    `inputs` are `targets` one node later, beginning with padding; the padding id is also the end of
    a text, which is expected once.
    """

    inputs: Int[Tensor, "batch node"]
    targets: Int[Tensor, "batch node"]
    mask: Bool[Tensor, "batch node"]
    labels: Int[Tensor, " batch"]

    def __post_init__(self) -> None:
        if not self.inputs.shape == self.targets.shape == self.mask.shape:
            raise BatchError(
                f"inputs {tuple(self.inputs.shape)}, targets {tuple(self.targets.shape)} and mask "
                f"{tuple(self.mask.shape)} differ in shape; make batches with `story_batch`"
            )
        if len(self.labels) != len(self.inputs):
            raise BatchError(f"{len(self.labels)} labels for {len(self.inputs)} texts")
        if len(self.labels) and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < 4:
            raise BatchError(f"labels {self.labels.tolist()} are not all in 0..{len(LABELS) - 1}")


def story_batch(
    texts: Sequence[Sequence[int]], pad_id: int, labels: Sequence[int] | None = None
) -> StoryBatch:
    """Return the batch of `texts` (ids without special ones); without `labels` all are true.

    Raises `BatchError` without a text.

    >>> story_batch([[5, 6], [7]], pad_id=0).inputs.tolist()
    [[0, 5, 6], [0, 7, 0]]
    """
    if not texts:
        raise BatchError("a batch of stories needs at least one text")
    lengths = torch.tensor([len(text) + 1 for text in texts])
    n_nodes = int(lengths.max())
    targets = torch.full((len(texts), n_nodes), pad_id)
    for row, text in zip(targets, texts, strict=True):
        row[: len(text)] = torch.tensor(list(text), dtype=torch.long)
    inputs = functional.pad(targets[:, :-1], (1, 0), value=pad_id)
    mask = torch.arange(n_nodes) < lengths[:, None]
    return StoryBatch(inputs, targets, mask, torch.tensor(list(labels or [0] * len(texts))))


@dataclass(frozen=True, eq=False)
class StoryOutput:
    """States after the last normalisation, scores of words, and scores of the labels."""

    states: Float[Tensor, "batch node width"]
    logits: Float[Tensor, "batch node word"]
    class_logits: Float[Tensor, "batch label"]


class StoryWriter(nn.Module):
    """A decoder host and a linear layer that tells true stories from three kinds of fakes.

    Raises `HostError` for a host that is not a decoder.
    """

    def __init__(self, host: PreTrainedModel) -> None:
        super().__init__()
        check_decoder(host)
        self.host = host
        self.classify = nn.Linear(host.config.hidden_size, len(LABELS))

    def forward(self, batch: StoryBatch) -> StoryOutput:
        """Scores of every node's next word and, from the mean of a text's states, of its label.

        The host reads left to right, so padding on the right is seen by nothing that counts.
        """
        states = self.host.base_model(input_ids=batch.inputs, use_cache=False).last_hidden_state
        kept = batch.mask[..., None]
        mean = states.masked_fill(~kept, 0).sum(dim=1) / kept.sum(dim=1)
        logits = self.host.get_output_embeddings()(states)
        return StoryOutput(states, logits, self.classify(mean))


def word_loss(logits: Float[Tensor, "batch node word"], batch: StoryBatch) -> Float[Tensor, ""]:
    """Mean negative log-likelihood of every real target of the batch; 0 where there is none."""
    expected = batch.targets[batch.mask]
    if not len(expected):
        return logits.sum() * 0
    return functional.cross_entropy(logits[batch.mask], expected)


@dataclass(frozen=True)
class StoryLosses:
    """The parts of equation 5 and what they sum to."""

    words: Tensor
    classes: Tensor
    total: Tensor


def story_losses(
    output: StoryOutput, batch: StoryBatch, class_weight: float = CLASS_WEIGHT
) -> StoryLosses:
    """The word loss of true stories, and the class loss of all, summed over the batch.

    The sum follows the released program, so the weight of the classes grows with the batch. A batch
    of fakes teaches the classifier alone: its word loss is 0.
    """
    true = batch.labels == 0
    words = word_loss(
        output.logits[true],
        StoryBatch(batch.inputs[true], batch.targets[true], batch.mask[true], batch.labels[true]),
    )
    classes = functional.cross_entropy(output.class_logits, batch.labels, reduction="sum")
    return StoryLosses(words, classes, class_weight * classes + words)


def confusion(output: StoryOutput, batch: StoryBatch) -> Float[Tensor, "label label"]:
    """Row: the true label, column: the predicted one, each row its share; empty rows stay 0."""
    counts = torch.zeros(len(LABELS), len(LABELS))
    predicted = output.class_logits.argmax(dim=1)
    counts.index_put_((batch.labels, predicted), torch.ones(len(predicted)), accumulate=True)
    return counts / counts.sum(dim=1, keepdim=True).clamp(min=1)


@dataclass
class StoryTrainer:
    """Adam with clipped gradients, whose rate falls by 5 % when a loss exceeds the last three.

    `step` on batches of triples is the knowledge step, `step` with `multi_task` the second one.
    """

    model: StoryWriter
    learning_rate: float = 1e-4
    class_weight: float = CLASS_WEIGHT
    clip_norm: float = CLIP_NORM
    losses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=self.learning_rate)

    def step(self, batch: StoryBatch, *, multi_task: bool) -> float:
        """Take one step and return its loss; raises `TrainingError` where it is not finite."""
        self.model.train()
        output = self.model(batch)
        losses = story_losses(output, batch, self.class_weight)
        loss = losses.total if multi_task else word_loss(output.logits, batch)
        if not bool(torch.isfinite(loss)):
            raise TrainingError(
                f"the loss of step {len(self.losses)} is {float(loss.detach())}; lower the "
                f"learning rate {self.optimiser.param_groups[0]['lr']}"
            )
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimiser.step()
        self._slow_down(float(loss.detach()))
        return self.losses[-1]

    def _slow_down(self, loss: float) -> None:
        if len(self.losses) > 2 and loss > max(self.losses[-3:]):
            for group in self.optimiser.param_groups:
                group["lr"] *= 0.95
        self.losses.append(loss)


def top_k(logits: Float[Tensor, "*batch word"], k: int) -> Float[Tensor, "*batch word"]:
    """The scores with all below the k-th replaced by `CUT`; what ties with the k-th stays.

    Raises `ConfigError` for a k below 1.

    >>> top_k(torch.tensor([3.0, 1.0, 2.0, 2.0]), 2).tolist()
    [3.0, -10000000000.0, 2.0, 2.0]
    """
    if k < 1:
        raise ConfigError(f"top-k of {k} leaves no word; give 1 or more")
    bound = logits.topk(min(k, logits.shape[-1])).values[..., -1:]
    return logits.masked_fill(logits < bound, CUT)


@torch.no_grad()
def write(
    model: StoryWriter,
    beginning: Sequence[int],
    pad_id: int,
    draws: torch.Generator,
    *,
    n_tokens: int = 100,
    temperature: float = 0.7,
    k: int = 40,
) -> list[int]:
    """Return what follows `beginning`: sampled ids, without the end of the text.

    Temperature and k are the paper's. It stops at `pad_id`, after `n_tokens`, or where the host has
    no more positions. Raises `ConfigError` for a temperature that is not above 0.
    """
    if not temperature > 0:
        raise ConfigError(f"temperature is {temperature}; give a number above 0")
    model.eval()
    limit = min(n_tokens, model.host.config.max_position_embeddings - len(beginning) - 1)
    ids, cache, written = torch.tensor([[pad_id, *beginning]]), DynamicCache(), list[int]()
    while len(written) < limit:
        out = model.host(input_ids=ids, use_cache=True, **with_cache(model.host, cache))
        scores = top_k(out.logits[0, -1].float() / temperature, k)
        next_id = int(torch.multinomial(scores.softmax(dim=-1), 1, generator=draws))
        if next_id == pad_id:
            break
        written.append(next_id)
        ids = torch.tensor([[next_id]])
    return written


@torch.no_grad()
def perplexity(model: StoryWriter, batches: Iterable[StoryBatch]) -> float:
    """exp of the mean negative log-likelihood of a real target, the end of each text included.

    Raises `BatchError` where there is no target.
    """
    model.eval()
    total, n_targets = 0.0, 0
    for batch in batches:
        n = int(batch.mask.sum())
        total += float(word_loss(model(batch).logits, batch)) * n
        n_targets += n
    if not n_targets:
        raise BatchError("there is no text to measure perplexity on")
    return float(torch.tensor(total / n_targets).exp())


RENAMED = (
    (r"^model/wte$", "host.transformer.wte.weight"),
    (r"^model/wpe$", "host.transformer.wpe.weight"),
    (r"^model/ln_f/g$", "host.transformer.ln_f.weight"),
    (r"^model/ln_f/b$", "host.transformer.ln_f.bias"),
    (r"^model/h(\d+)/(\w+)/g$", r"host.transformer.h.\1.\2.weight"),
    (r"^model/h(\d+)/(\w+)/b$", r"host.transformer.h.\1.\2.bias"),
    (r"^model/h(\d+)/(\w+)/(\w+)/w$", r"host.transformer.h.\1.\2.\3.weight"),
    (r"^model/h(\d+)/(\w+)/(\w+)/b$", r"host.transformer.h.\1.\2.\3.bias"),
    (r"^fine_tuning/classify/kernel$", "classify.weight"),
    (r"^fine_tuning/classify/bias$", "classify.bias"),
)
"""Names of the released program's variables -> ours."""


def converted(released: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return released variables (or their gradients) under our names and in our shapes.

    Raises `CheckpointError` for a name that is in no line of `RENAMED`.
    """
    state = {}
    for name, value in released.items():
        rules = [(old, new) for old, new in RENAMED if re.search(old, name)]
        if len(rules) != 1:
            raise CheckpointError(f"variable {name!r} is none of a story model's; leave it out")
        ours = re.sub(*rules[0], name)
        state[ours] = value.T if name.endswith("/kernel") else value
        if name.endswith("/w"):
            state[ours] = value.squeeze(0)  # a convolution of width 1
    return {name: value.contiguous() for name, value in state.items()}


def load_released(model: StoryWriter, released: Mapping[str, Tensor]) -> None:
    """Load a released checkpoint; raises `CheckpointError` naming what is missing or left over."""
    state = converted(released)
    if "host.transformer.wte.weight" in state:
        state["host.lm_head.weight"] = state["host.transformer.wte.weight"]
    missing = sorted(model.state_dict().keys() - state.keys())
    left_over = sorted(state.keys() - model.state_dict().keys())
    if missing or left_over:
        raise CheckpointError(f"missing: {missing}; left over: {left_over}; give it its own sizes")
    model.load_state_dict(state)
