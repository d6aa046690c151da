"""`kept pretrain`: train a method on a host with your graph and your linked text.

The work is in `kept.apps.cli.training.pretrain_run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kept.apps.cli.declared import Declared
from kept.apps.cli.options import require_graph

if TYPE_CHECKING:
    from kept.training.pretraining.options import PretrainOptions


def pretrain(options: PretrainOptions) -> Any:
    """Pre-train a method on linked texts. A run that is continued ends with the same weights.

    Ctrl-C stops after the current step and writes a checkpoint.

    Example: kept pretrain --method ernie --kg kg/ --text linked.jsonl --steps 1000 --batch-size 32
    -o runs/ernie
    """
    require_graph(options.kg)
    from kept.apps.cli.training import pretrain_run

    return pretrain_run.run(options)


pretrain_command = Declared("kept.training.pretraining.options:PretrainOptions", pretrain)
