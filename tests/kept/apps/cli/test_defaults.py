"""Defaults that a command line writes out, so that it need not load what they belong to."""

from __future__ import annotations

import inspect

from entity_linking.scorers.rerank_parts import RerankSettings
from kept.apps.cli.link.train import train


def test_those_of_link_train_are_the_re_rankers() -> None:
    settings = RerankSettings()
    for name in ("epochs", "hidden", "seed", "absent"):
        assert inspect.signature(train).parameters[name].default == getattr(settings, name), name
