"""`kept finetune`: train any method on a task, with true, no or false knowledge, and score it.

The work is in `kept.apps.cli.training.finetune_run`, imported when the command runs: `kept --help`
loads no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kept.apps.cli.declared import Declared
from kept.apps.cli.options import require_given, require_graph, require_named
from kept.errors import ConfigError

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
_NEEDED = (("task",), ("format",), ("train",), ("kg",), ("method", "model"))
"""Options of a new run; one of each group."""


def finetune(options: FinetuneOptions) -> Any:
    """Fine-tune a method on a task and compare its score with a baseline.

    Facts between the two entities of an example are hidden from the model, and those of the
    development and test examples are removed from the graph. The model after the last step is
    scored. Ctrl-C stops and writes a checkpoint.

    Example: kept finetune people.csv --method kbert --kg kg/ -o runs/people
    """
    fields, settings = options.fields(), list(options.settings)
    require_named(fields, _TABLES, settings)
    if options.data is not None:
        fields = of_table(options.data, fields)
    if options.config is None and not options.resume:
        require_given(fields, _NEEDED, settings)
    require_graph(fields.get("kg"))
    from kept.apps.cli.training import finetune_run

    return finetune_run.run(fields, options)


def of_table(data: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return `fields` with those of a table of labelled texts below them.

    Raises `ConfigError` where another training file or format is given as well.
    """
    for name in ("train", "format"):
        if name in fields:
            raise ConfigError(f"{data} is the training file, of format table: leave out --{name}")
    below: dict[str, Any] = {"train": data, "format": "table", "link": True}
    if "task" not in fields:
        from kept.tasks.datasets.tables import QUESTION, read_labelled

        below["task"] = read_labelled(data).kind
        if below["task"] == QUESTION:
            raise ConfigError(f"{data} holds questions with answers: kept fit {data} takes them")
    return below | dict(fields)


finetune_command = Declared(
    "kept.training.finetuning.options:FinetuneOptions", finetune, arguments=["data"]
)
