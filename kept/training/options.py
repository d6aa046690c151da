"""Options of a command that makes a run, declared as fields of a pydantic model.

The command, its help, the function in Python and the fields of a file of `--config` follow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from kept import bounds, help_texts
from kept.training.config import RunConfig

TRAINING = "training."


def option(help_text: str, field: str | None = "", **extra: Any) -> Any:
    """Return an option that may be left out.

    `field` is the field of the configuration, "" for that of the option's own name, None for an
    option about the start. `bounds` are the least and the largest value; `flag`, `short`, `metavar`
    and `check` are those of `kept.apps.cli.declared`.
    """
    limits = dict(zip(("ge", "le"), extra.pop("bounds", ()), strict=False))
    default = extra.pop("default", None)
    extra["field"] = field
    return Field(default, description=help_text, json_schema_extra=extra, **limits)


class RunOptions(RunConfig):
    """Abstract: what a command that makes a run is given; a field is an option.

    A command shows its own options before these.
    """

    config: Path | None = option(help_texts.CONFIG, None, short="-c")
    kg: Path | None = option(help_texts.KG)
    resume: bool = option(help_texts.RESUME, None, default=False)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the configuration that are given, by their names in a file."""
        values = ((field, getattr(self, name)) for name, field in self.configured().items())
        return {field: value for field, value in values if value not in (None, ())}

    @classmethod
    def configured(cls) -> dict[str, str]:
        """Return the options that are fields of a configuration, and the name of each there."""
        names = {}
        for name, info in cls.model_fields.items():
            extra = info.json_schema_extra
            field = extra.get("field") if isinstance(extra, dict) else None
            if isinstance(field, str):
                names[name] = field + name if field in ("", TRAINING) else field
        return names


class EncoderRunOptions(RunOptions):
    """Abstract: what every training of an encoder is given."""

    host: str | None = option(help_texts.HOST, check="local or hub")
    as_published: bool | None = option(help_texts.AS_PUBLISHED)
    long: str | None = option(help_texts.LONG)
    learning_rate: float | None = option(
        help_texts.LEARNING_RATE, TRAINING, flag="--lr", bounds=(bounds.LEAST_RATE, bounds.MAX_RATE)
    )
    seed: int | None = option(help_texts.SEED, TRAINING, bounds=(0, bounds.MAX_SEED))
    threads: int | None = option(help_texts.THREADS, TRAINING, bounds=(1, bounds.MAX_THREADS))
    device: str | None = option(help_texts.DEVICE, TRAINING)
    shard: tuple[str, ...] = option(help_texts.SHARD, TRAINING, default=(), metavar="PART")
    budget_minutes: float | None = option(
        help_texts.BUDGET_MINUTES, TRAINING, bounds=(bounds.LEAST_MINUTES, bounds.MAX_MINUTES)
    )
    settings: tuple[str, ...] = option(
        "Any other setting of the run, such as training.clip_norm=0.5. May be repeated.",
        None,
        default=(),
        flag="--set",
        metavar="NAME=VALUE",
    )
    track: tuple[str, ...] = option(help_texts.TRACK, None, default=(), metavar="NAME")
    skip_damaged: bool = option(help_texts.SKIP_DAMAGED, None, default=False)
