"""Published numbers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Published(BaseModel):
    """A published number: system, metric, value and source."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    system: str
    metric: str
    value: float
    where: str
