"""The head over words of a trained run, for another run that begins with that run's encoder."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from kept.encoders import read_config
from kept.errors import CheckpointError
from kept.objectives.masked_words import MaskedWords
from kept.objectives.model import KnowledgeForPreTraining


def head_over_words(model: nn.Module) -> MaskedWords | None:
    """The first head over words among a model's parts, whichever objective holds it, or None."""
    return next((part for part in model.modules() if isinstance(part, MaskedWords)), None)


def copy_mlm_head(run: Path, model: KnowledgeForPreTraining) -> bool:
    """Set `model`'s head over words to that of the run in the folder; False where one has none.

    Raises `CheckpointError` for a head of other sizes.
    """
    mine = head_over_words(model)
    if mine is None or not read_config(run).objectives:
        return False
    trained = head_over_words(KnowledgeForPreTraining.from_pretrained(run))
    if trained is None:
        return False
    sizes = [tuple(part.transform.dense.weight.shape) for part in (trained, mine)]
    if sizes[0] != sizes[1] or trained.bias.shape != mine.bias.shape:
        raise CheckpointError(
            f"the head over words in {run} is {sizes[0]} over {len(trained.bias)} pieces, this one "
            f"{sizes[1]} over {len(mine.bias)}; give the host that it was trained on"
        )
    mine.load_state_dict(trained.state_dict())
    return True
