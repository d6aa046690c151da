"""Options of a command that makes a run, declared as fields of a pydantic model.

The command, its help, the function in Python and the fields of a file of `--config` follow.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from kept.training.config import RunConfig

TRAINING = "training."


def option(help_text: str, field: str | None = "", **extra: Any) -> Any:
    """Return an option that may be left out.

    `field` is the field of the configuration, "" for that of the option's own name, None for an
    option about the start. `bounds` are the least and the largest value; `flag`, `short`, `metavar`
    and `check` are those of `kept.apps.cli.declared`.
    """
    bounds = dict(zip(("ge", "le"), extra.pop("bounds", ()), strict=False))
    default = extra.pop("default", None)
    extra["field"] = field
    return Field(default, description=help_text, json_schema_extra=extra, **bounds)


class RunOptions(RunConfig):
    """Abstract: what a command that makes a run is given; a field is an option."""

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
