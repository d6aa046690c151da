"""The committed configuration loads, takes two steps on hand-made data, and fits its results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from pydantic import ValidationError

from entity_linking.senses.corpus import read_senses
from experiments.word_sense.tables import to_markdown
from experiments.word_sense.trial import SenseConfig, SenseData, results_of
from tests.entity_linking.mini_wordnet import SYNSET_OF, mini_graph, mini_lexicon, write_corpus

FOLDER = Path(__file__).parents[2] / "experiments" / "word_sense"
PLAN = FOLDER / "semeval.yaml"


class _Lengths:
    """Vectors from how long a text is and how many words it has."""

    name, width = "lengths", 2

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.array([[len(text), 5 * text.count(" ") + 1] for text in texts], np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(PLAN.read_text(encoding="utf-8"))
    return loaded


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> SenseData:
    texts = {
        name: read_senses(*write_corpus(tmp_path_factory.mktemp(name)))
        for name in ("SemEval-2013", "SemEval-2015")
    }
    return SenseData(mini_graph(), mini_lexicon(), texts, SYNSET_OF)


def test_every_system_runs_on_hand_made_data(plan: dict[str, Any], world: SenseData) -> None:
    config = SenseConfig.model_validate(plan | {"n_resamples": 50})
    actual = results_of(world, config, _Lengths())
    assert [*actual["cpu_seconds"]] == [*config.parts]
    rows = actual["data"]["SemEval-2013"]["systems"]
    assert list(rows) == list(config.systems)
    assert rows["first sense"]["f1"] == pytest.approx(4 / 6)
    assert rows["PageRank (w2w), relations"]["f1"] == 1.0
    assert rows["PageRank (w2w), relations"]["difference"]["mean"] == pytest.approx(2 / 6)
    assert actual["data"]["SemEval-2013"] == {
        **actual["data"]["SemEval-2013"],
        "documents": 2, "sentences": 3, "sentences_with_instances": 3, "instances": 6,
        "one_sense": 3, "context_words": 10,
    }  # fmt: skip
    table = to_markdown(actual)
    assert table.count("\n| first sense | 66.7 (") == 1
    assert "| WordNet first sense | 63.0 | 67.8 | Raganato et al. 2017 |" in table
    assert json.loads(json.dumps(actual)) == actual
    again = results_of(world, config, _Lengths())
    assert again["data"] == actual["data"]


def test_a_gloss_part_needs_an_encoder(plan: dict[str, Any], world: SenseData) -> None:
    config = SenseConfig.model_validate(plan | {"n_resamples": 50})
    with pytest.raises(ValueError, match="needs a sentence encoder"):
        results_of(world, config, None)


def test_unknown_names_are_told(plan: dict[str, Any]) -> None:
    for change, message in (
        ({"systems": {"x": {"nothing": 1.0}}, "baseline": "x"}, "nothing"),
        ({"baseline": "last sense"}, "last sense"),
    ):
        with pytest.raises(ValidationError, match=message):
            SenseConfig.model_validate(plan | change)


def test_results_belong_to_the_configuration(plan: dict[str, Any]) -> None:
    results = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    config = SenseConfig.model_validate(plan)
    assert results["config"] == config.model_dump(mode="json")
    assert to_markdown(results) == (FOLDER / "results.md").read_text(encoding="utf-8")
    for name, n in (("SemEval-2013", 1644), ("SemEval-2015", 1022)):
        record = results["data"][name]
        assert record["instances"] == n
        published = config.published["WordNet first sense"][name]
        assert round(100 * record["systems"]["first sense"]["f1"], 1) == published
