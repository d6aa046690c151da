"""The table of scorers: lines name what is there; options, help and records follow from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kept.apps.cli.kgc.train_options import TrainOptions, training_fingerprint
from kept.errors import ConfigError
from kept.kgc.options import KgcTrainOptions
from kept.kge.kinds import FORMULAS, NETWORK_RECIPES, RECIPES, SCORERS, load
from kept.kge.scorer import Scorer
from kept.kge.scorers import TransE
from kept.kge.splits import read_splits
from kg_loaders import KnowledgeGraph


@pytest.mark.parametrize("name", SCORERS)
def test_what_a_line_names_is_there(name: str) -> None:
    kind = SCORERS[name]
    assert callable(load(kind.train))
    assert not kind.open or callable(load(kind.open))
    assert not kind.formula or issubclass(kind.formula_class, Scorer)
    assert kind.answers_any_graph == (kind.reads in ("paths", "texts", "scorers"))
    assert ("literals" in kind.options.model_fields) == (kind.reads == "texts")
    assert name in RECIPES or name in NETWORK_RECIPES or kind.answers_any_graph


def test_the_lines_are_counted() -> None:
    assert (len(SCORERS.built_in), len(FORMULAS), len(NETWORK_RECIPES)) == (15, 5, 3)


def test_every_option_of_a_scorer_is_one_of_the_command_which_names_its_takers() -> None:
    fields = KgcTrainOptions.model_fields
    for name, kind in SCORERS.built_in.items():
        for field in kind.options.model_fields:
            takers = (fields[field].description or "").rpartition(" For ")[2]
            if takers.startswith("all but "):
                assert name not in takers.removeprefix("all but ").strip(".").split(", ")
            else:
                assert name in takers.strip(".").split(", ")


def test_options_of_other_scorers_wrong_values_and_names_are_errors() -> None:
    with pytest.raises(ConfigError, match="mix takes no --epochs; it takes --of"):
        TrainOptions.of("mix", seed=0, holdout=0.05, epochs=2)
    with pytest.raises(ConfigError, match=r"transe: --norm: .* less than or equal to 2"):
        TrainOptions.of("transe", seed=0, holdout=0.05, norm=3)
    with pytest.raises(ConfigError, match=r"'conve' is unknown; take one of transe.*, mix$"):
        TrainOptions.of("conve", seed=0, holdout=0.05)
    with pytest.raises(ConfigError, match="int is the formula of no scorer"):
        FORMULAS.name_of(3)  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        FORMULAS["ultra"]
    assert FORMULAS["transe"] is TransE


@pytest.mark.parametrize("name", SCORERS)
def test_a_record_has_all_options_of_the_last_version(
    name: str, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    small_graph.save(tmp_path / "kg")
    splits = read_splits(tmp_path / "kg", holdout=0.05, seed=0)
    options = {} if name == "mix" else {"epochs": 2}
    about = training_fingerprint(TrainOptions.of(name, seed=1, holdout=0.05, **options), splits)
    assert about == {
        "scorer": name, "seed": 1, "holdout": 0.05, "reciprocal": False,
        "epochs": options.get("epochs"), "width": None, "norm": None, "host": None,
        "batch-size": None, "steps": None, "tokens": None, "ask": None, "weights": None, "of": [],
        "literals": False, "graph": splits.graph.content_hash, "splits": splits.splits_hash,
    }  # fmt: skip
