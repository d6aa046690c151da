"""`--set NAME=VALUE`, as several commands take it."""

from __future__ import annotations

from typing import Any

import yaml

from kept.errors import ConfigError
from kept.values import shown_value


def read_setting(text: str) -> tuple[str, Any]:
    """The name and the value, read as YAML; raises `ConfigError` on anything else."""
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise ConfigError(f"--set {shown_value(text)}: write NAME=VALUE")
    try:
        return name, yaml.safe_load(value)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(
            f"--set {shown_value(text)}: {shown_value(value)} is not a YAML value"
        ) from error
