"""`kept finetune`: train any method on a task, with true, no or false knowledge, and score it.

The work is in `kept.apps.cli.training.finetune_run`, imported when the command runs: `kept --help`
loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kept.apps.cli.declared import Declared
from kept.apps.cli.options import require_given, require_named

if TYPE_CHECKING:
    from kept.training.finetuning.options import FinetuneOptions

_TABLES = {
    "task": "kept.tasks.kinds:TASKS",
    "format": "kept.tasks.datasets.formats:FORMATS",
    "method": "kept.methods:METHODS",
    "knowledge": "kept.inputs.controls.conditions:Knowledge",
    "markers": "kept.training.finetuning.markers:MARKERS",
    "head": "kept.heads.model:HEADS",
}
"""Options whose words are names of a table."""
_NEEDED = (
    ("task",), ("format",), ("train",), ("kg",), ("method", "model"),
    ("training.steps", "training.epochs"), ("training.batch_size", "training.node_budget"),
)  # fmt: skip
"""Options of a new run; one of each group."""


def finetune(options: FinetuneOptions) -> Any:
    """Fine-tune a method on a task and compare its score with a baseline.

    Facts between the two entities of an example are hidden from the model, and those of the
    development and test examples are removed from the graph. The model after the last step is
    scored. Ctrl-C stops and writes a checkpoint.

    Example: kept finetune --task typing --format tagme --train train.json --method kbert --kg kg/
    --steps 500 --batch-size 16 -o runs/types
    """
    fields, settings = options.fields(), list(options.settings)
    require_named(fields, _TABLES, settings)
    if options.config is None and not options.resume:
        require_given(fields, _NEEDED, settings)
    from kept.apps.cli.training import finetune_run

    return finetune_run.run(
        fields,
        settings,
        output=options.output,
        config_file=options.config,
        track=options.track,
        resume=options.resume,
        skip_damaged=options.skip_damaged,
    )


finetune_command = Declared("kept.training.finetuning.options:FinetuneOptions", finetune)
