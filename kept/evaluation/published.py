"""Numbers of the literature."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Published(BaseModel):
    """A number of the literature: who, on what metric, how much, and where it stands."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    system: str
    metric: str
    value: float
    where: str
