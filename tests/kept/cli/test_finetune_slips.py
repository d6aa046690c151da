"""Slips on the line of `kept finetune` are answered at once, all of them."""

from __future__ import annotations

from collections.abc import Callable


def test_slips_are_named_before_anything_is_loaded(
    loaded: Callable[..., tuple[int, str, str]],
) -> None:
    line = ["finetune", "--task", "typ", "--head", "poled", "--method", "K-BRT", "-o", "x"]
    code, modules, said = loaded(*line)
    assert (code, modules) == (1, "")
    for word in ("'typ'; did you mean typing", "'poled'; did you mean pooled", "'K-BRT'"):
        assert word in said
    code, modules, said = loaded("finetune", "-o", "x")
    assert (code, modules) == (1, "")
    assert "missing: --task; --format; --train; --kg; --method or --model" in said
