"""Settings of training triple scorers, and what their recipes share."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from kept.bounds import MAX_RATE
from kept.errors import ConfigError

Loss = Literal["cross_entropy", "log_sigmoid", "margin"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Every hyper-parameter of a run; all faults are reported at once.

    `corrupt`: which side of a positive is replaced: "both" (n_negatives each), "uniform" (one,
    evenly), "bernoulli" (one, by how many answers each side of the relation has; Wang et al.,
    AAAI 2014, section 3.4). `share_negatives`: one draw serves the batch, so scores are matrix
    products. `adversarial_temperature` > 0 weighs negatives by their own score (Sun et al., ICLR
    2019, equation 5). `reject_known` takes training triples out of the negatives. `n3_weight`:
    Lacroix et al., ICML 2018. `relation_weight`: cross-entropy over all relations (Chen et al.,
    AKBC 2021). `unit_entities` scales entity vectors to length 1 before each epoch's steps.
    """

    n_epochs: int
    batch_size: int
    learning_rate: float
    optimiser: Literal["adagrad", "adam", "adamw"] = "adagrad"
    objective: Literal["one_vs_all", "negative_sampling"] = "one_vs_all"
    loss: Loss = "cross_entropy"
    corrupt: Literal["both", "uniform", "bernoulli"] = "both"
    n_negatives: int = 0
    share_negatives: bool = False
    reject_known: bool = False
    margin: float = 0.0
    adversarial_temperature: float = 0.0
    n3_weight: float = 0.0
    relation_weight: float = 0.0
    unit_entities: bool = False
    validate_every: int = 0
    patience: int = 0

    def __post_init__(self) -> None:
        sampling = self.objective == "negative_sampling"
        faults = [
            text
            for wrong, text in (
                (self.n_epochs < 0, f"n_epochs {self.n_epochs} is negative"),
                (self.batch_size < 1, f"batch_size {self.batch_size} is below 1"),
                (
                    not 0 < self.learning_rate <= MAX_RATE,
                    f"learning_rate {self.learning_rate} is not above 0 and at most {MAX_RATE}",
                ),
                (sampling and self.n_negatives < 1, "negative_sampling needs n_negatives"),
                (not sampling and self.loss != "cross_entropy", "one_vs_all takes cross_entropy"),
                (not sampling and self.n_negatives > 0, "one_vs_all takes no n_negatives"),
                (self.loss == "margin" and self.margin <= 0, "loss margin needs a margin above 0"),
                (self.patience > 0 and self.validate_every < 1, "patience needs validate_every"),
            )
            if wrong
        ]
        if faults:
            raise ConfigError("training configuration: " + "; ".join(faults))


ONE_VS_ALL = TrainingConfig(
    n_epochs=60, batch_size=512, learning_rate=0.1, validate_every=5, patience=2
)
SAMPLED = TrainingConfig(
    n_epochs=40, batch_size=512, learning_rate=0.003, optimiser="adam",
    objective="negative_sampling", n_negatives=128, share_negatives=True, reject_known=True,
    validate_every=5, patience=2,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NetworkRecipe:
    """A network of tables of `width`, its decoder and its training."""

    layers: Literal["rgcn", "compgcn"]
    config: TrainingConfig
    decoder: Literal["transe", "distmult", "complex"] = "distmult"
    width: int = 64
    n_layers: int = 1
    n_bases: int = 8
    composition: Literal["sub", "mult", "corr"] = "mult"
    dropout: float = 0.2

    def as_json(self) -> dict[str, Any]:
        """The settings of the network alone."""
        return {name: value for name, value in asdict(self).items() if name != "config"}


OF_NETWORKS = TrainingConfig(
    n_epochs=40, batch_size=1024, learning_rate=0.01, optimiser="adam", validate_every=5, patience=2
)


@dataclass(frozen=True, kw_only=True)
class BERTMKRecipe:
    """A KG-Transformer over subgraphs of `n_each` triples into an entity and as many out of it.

    `transe` trains the first vectors; a batch of `config` is of subgraphs.
    """

    config: TrainingConfig
    transe: TrainingConfig
    width: int = 100
    n_each: int = 4
    n_layers: int = 2
    n_heads: int = 4

    def as_json(self) -> dict[str, Any]:
        """The settings of the network, and of its first vectors."""
        return {name: value for name, value in asdict(self).items() if name != "config"}


BERTMK = BERTMKRecipe(
    transe=replace(SAMPLED, n_epochs=20, learning_rate=0.1, optimiser="adagrad", validate_every=0,
                   patience=0),
    config=TrainingConfig(
        n_epochs=20, batch_size=256, learning_rate=0.001, optimiser="adam",
        objective="negative_sampling", loss="margin", margin=1.0, n_negatives=1, validate_every=5,
        patience=2,
    ),
)  # fmt: skip
