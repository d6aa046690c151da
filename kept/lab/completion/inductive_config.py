"""What an inductive experiment says: splits, methods and how each is trained, seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from kept.evaluation.published import Published
from kept.lab.study.design import Design
from kept.training.config import TrainConfig


class _Method(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DegreeMethod(_Method):
    """`kept.kge.inductive.DegreeScorer`: nothing is learned."""

    kind: Literal["degree"]


class GraphMethod(_Method):
    """`kept.kge.gnn.networks`: features, layers, decoder. Without layers and with text: BLP's
    map.

    `text_from` names a folder of a KEPLER run whose description vectors are the texts; without it
    they are those of the sentence encoder that the runner is given.
    """

    kind: Literal["graph"]
    features: Literal["table", "relations", "text", "text+relations"]
    layers: Literal["none", "rgcn", "compgcn"]
    decoder: Literal["transe", "distmult", "complex"] = "complex"
    composition: Literal["sub", "mult", "corr"] = "mult"
    width: PositiveInt = 64
    n_layers: PositiveInt = 2
    n_bases: PositiveInt = 8
    dropout: float = 0.2
    text_from: Path | None = None
    training: dict[str, Any]


class DKRLMethod(_Method):
    """`kept.kge.dkrl` with the CBOW encoder, ranked by descriptions alone."""

    kind: Literal["dkrl"]
    host: str = "minilm"
    n_tokens: PositiveInt = 24
    training: dict[str, Any] = {}


class KeplerMethod(_Method):
    """A KEPLER run's own scores from descriptions; `folder` is the run, with its graph in `kg`."""

    kind: Literal["kepler"]
    folder: Path


class UltraMethod(_Method):
    """`kept.kge.ultra`: trained on the split's own training graph, or the `weights` of a
    release.

    Released weights have seen other graphs: whoever uses them says which in `differs` or `notes`.
    """

    kind: Literal["ultra"]
    weights: Path | None = None
    width: PositiveInt = 64
    n_layers: PositiveInt = 6
    training: dict[str, Any] = {}

    @model_validator(mode="after")
    def _one_of_both(self) -> UltraMethod:
        if (self.weights is None) == (not self.training):
            raise ValueError("ultra takes either weights or training")
        return self


Method = Annotated[
    DegreeMethod | GraphMethod | DKRLMethod | KeplerMethod | UltraMethod,
    Field(discriminator="kind"),
]


class SampledConfig(_Method):
    """GraIL's protocol: `n_candidates` holds the answer itself."""

    n_candidates: PositiveInt = 50
    n_draws: PositiveInt = 10


class UnseenConfig(_Method):
    """Shares of `kept.kge.inductive.split_unseen`; `seed` is the split's own."""

    valid_share: float
    test_share: float
    context_share: float
    seed: int


class KeplerTraining(_Method):
    """How `kept.kgc.kepler_entities.train_kepler` trains on a split's training triples."""

    host: str = "minilm"
    options: dict[str, Any] = {}
    training: TrainConfig


class InductiveConfig(Design):
    """Splits x methods x seeds.

    `splits` are names of GraIL's, or `codex-s-unseen`, whose shares stand in `unseen`. `differs`
    says how this is not what the published numbers measured. `kepler` trains the run that methods
    name as their `folder` or `text_from`; their relative paths are below the experiment's folder.
    """

    name: str
    splits: tuple[str, ...]
    unseen: UnseenConfig | None = None
    seeds: tuple[int, ...]
    methods: dict[str, Method]
    pairs: tuple[tuple[str, str], ...] = ()
    sampled: SampledConfig = SampledConfig()
    kepler: KeplerTraining | None = None
    published: tuple[Published, ...] = ()
    differs: str
    notes: tuple[str, ...] = ()
    metric: ClassVar[str] = "mrr"
    asked: ClassVar[str] = "test"
    primary: ClassVar[None] = None
