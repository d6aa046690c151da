"""The mean of a model's parameters over its last steps: self-ensemble and self-distillation.

Xu et al. 2020, "Improving BERT Fine-Tuning via Self-Ensemble and Self-Distillation" (arXiv
2002.10345), section 4: a model whose parameters are the mean over steps (BERT-SE), and a loss on
the logits of that mean while training goes on (BERT-SDA). Its third form, a vote of several past
models, is not here: it costs a forward pass for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import Optimizer

from kept.batches import KnowledgeBatch
from kept.batches.shares import TrainingBatch
from kept.errors import ConfigError
from kept.training.config import Averaging

HISTORY = "past"


class ParameterHistory(Optimizer):
    """The mean of each parameter over the last `n_steps` calls of `step`; None: over all of them.

    An optimiser in form alone: its step remembers what the others have done, and a checkpoint
    keeps its state beside theirs. `n_steps` copies of the parameters are held, or one for all.

    >>> weight = nn.Parameter(torch.tensor([1.0]))
    >>> past = ParameterHistory([weight], n_steps=2)
    >>> for value in (1.0, 2.0, 4.0):
    ...     _ = weight.data.fill_(value)
    ...     past.step()
    >>> past.mean(weight)
    tensor([3.])
    """

    def __init__(self, parameters: list[nn.Parameter], *, n_steps: int | None) -> None:
        super().__init__(parameters, {})
        self.n_steps = n_steps

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Remember the parameters as they are; `closure` is never called."""
        for parameter in self.remembered():
            state = self.state[parameter]
            count = int(state.get("count", 0))
            if self.n_steps is None:
                mean = state.setdefault("mean", torch.zeros_like(parameter))
                mean.add_((parameter - mean) / (count + 1))
            else:
                state[f"copy{count % self.n_steps}"] = parameter.detach().clone()
            state["count"] = count + 1

    def mean(self, parameter: nn.Parameter) -> Tensor:
        """The mean of what was remembered of `parameter`; before the first step, itself."""
        state: dict[str, Any] = self.state.get(parameter, {})
        if self.n_steps is None:
            mean: Tensor = state.get("mean", parameter.detach())
            return mean
        copies = [state[name] for name in sorted(state) if name != "count"]
        return torch.stack(copies).mean(0) if copies else parameter.detach()

    def remembered(self) -> list[nn.Parameter]:
        """The parameters, in order."""
        return [parameter for group in self.param_groups for parameter in group["params"]]


def new_parameter_history(parameters: list[nn.Parameter], averaging: Averaging) -> ParameterHistory:
    """Return an optimiser that holds past values of `parameters` for the steps of `averaging`."""
    n_steps = None if averaging.steps == "all" else averaging.steps
    return ParameterHistory(parameters, n_steps=n_steps)


def parameter_history(
    optimisers: Mapping[str, Optimizer], averaging: Averaging | None
) -> tuple[Averaging, ParameterHistory] | None:
    """Return the averaging and what holds past parameters; None without averaging."""
    past = optimisers.get(HISTORY)
    return (averaging, past) if averaging and isinstance(past, ParameterHistory) else None


@torch.no_grad()
def with_teacher_logits(
    model: nn.Module, past: ParameterHistory, batch: TrainingBatch
) -> KnowledgeBatch:
    """Return `batch` with the logits of `model` under its mean parameters, without dropout.

    Parameters that are not remembered are read as they are. The model is left in training mode.
    Raises `ConfigError` for a batch that is not a `KnowledgeBatch`: a decoder's has no classes.
    """
    if not isinstance(batch, KnowledgeBatch):
        raise ConfigError(f"averaging.distil is for tasks with classes, not {type(batch).__name__}")
    remembered = {id(parameter) for parameter in past.remembered()}
    means = {
        name: past.mean(parameter)
        for name, parameter in model.named_parameters()
        if id(parameter) in remembered
    }
    model.eval()
    output = functional_call(model, means, (batch.replace(labels=None, node_labels=None),))
    model.train()
    return batch.replace(teacher_logits=output.class_logits)


@torch.no_grad()
def take_means(past: ParameterHistory) -> None:
    """Put the mean of what was remembered into each parameter."""
    for parameter in past.remembered():
        parameter.copy_(past.mean(parameter))
