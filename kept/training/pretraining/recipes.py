"""Recipes as fields of a pre-training: how `kept pretrain --method X` shows and encodes facts.

Of a recipe pre-training takes the options of the encoder, the view and the graph, so that a task
that goes on from the run reads facts as `kept finetune --method X` does. Objectives and rates are
the paper's or the user's: those of a recipe are for a task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kept.errors import ConfigError
from kept.inputs.lengths import with_lengths, with_windows
from kept.methods import METHODS, method_key
from kept.model_files import readable
from kept.model_settings import settings_text
from kept.options import merged
from kept.training.config import with_auto_precision
from kept.training.pretraining.config import PretrainConfig

PUBLISHED = "as_published"
DEFAULT_METHOD: str = PretrainConfig.model_fields["method"].default


def with_recipe(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of `PretrainConfig` with the recipe of their method under them.

    Fields that say `as_published`, or name no known method, are returned as they are. A run that
    starts from another has that one's encoder, and is as published where that one was.

    >>> with_recipe({"method": "kbert", "view": {"max_pieces": 4}})["view"]
    {'max_branches': 8, 'max_pieces': 4}
    """
    options = {name: value for name, value in fields.items() if value is not None}
    name, start = options.get("method", DEFAULT_METHOD), options.get("start_from")
    try:
        recipe = METHODS[method_key(str(name))].recipe.fields()
    except ConfigError:
        return options
    if isinstance(start, str | Path):
        recipe.pop("options", None)
        options.setdefault(PUBLISHED, _is_published(Path(start)))
    if options.get("treebank"):
        recipe.pop("view", None)
    return options if options.get(PUBLISHED) else merged(recipe, options)


def with_defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a new run: its method's recipe, lengths, precision left open.

    Texts that are longer are read in windows, those of a treebank aside.
    """
    completed = dict(fields) if fields.get("treebank") else with_windows(fields)
    return with_auto_precision(with_lengths(with_recipe(completed), default=DEFAULT_METHOD))


def _is_published(run: Path) -> bool:
    """Whether a run of `kept pretrain` was as published; False for another model's folder."""
    path = run / "pretrain.json"
    if not path.is_file():
        return False
    with readable(path):
        return bool(json.loads(settings_text(path)).get(PUBLISHED))
