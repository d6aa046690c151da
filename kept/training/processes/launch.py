"""Which of several processes this is, as torchrun and `accelerate launch` say; loads no torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from kept.errors import ConfigError

COMMANDS = ("pretrain", "finetune", "compare", "kgc eval")
"""The commands that several processes run together; of a group, the group says of each."""


class RankAndSize(NamedTuple):
    """Process `rank` of `n`."""

    rank: int
    n: int


def rank_and_size() -> RankAndSize:
    """This process's place; (0, 1) without a launcher."""
    return RankAndSize(int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)))


def require_several(shard: Sequence[str]) -> None:
    """Raise `ConfigError` where parts are to be shared out and there is one process alone."""
    if shard and rank_and_size().n == 1:
        raise ConfigError(
            f"shard {', '.join(shard)}: there is one process, so there is nothing to split; start "
            "several (torchrun --nproc-per-node 2 -m kept pretrain …), or leave --shard out"
        )


def require_alone(command: str | None) -> None:
    """Raise `ConfigError` where a launcher has started several of a command that is one process."""
    groups = {name.split()[0] for name in COMMANDS if " " in name}
    if rank_and_size().n > 1 and command not in {*COMMANDS, *groups}:
        raise ConfigError(
            f"kept {command} is one process, and a launcher has started {rank_and_size().n}: give "
            f"it without the launcher. Commands for several processes: {', '.join(COMMANDS)}"
        )
