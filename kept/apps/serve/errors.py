"""Errors of the service alone."""

from __future__ import annotations

from kept.errors import ConfigError


class NotServedError(ConfigError):
    """Asked for a part that this service was started without."""
