"""The commands of kept as Python functions; `commands.pyi` has their signatures.

`kept.finetune(...)` is `kept.apps.commands.finetune`. They are made by `kept.apps.twins` when they
are first used, from what the command line declares.
"""

from __future__ import annotations

from typing import Any

from kept.apps.twins import COMMANDS, command


def __getattr__(name: str) -> Any:
    if name in COMMANDS:
        return command(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
