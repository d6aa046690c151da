"""The experiment on shown facts in small: what a fold may see, every arm, answers that are kept."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from pydantic import ValidationError

from entity_linking.annotations.relations import read_trex
from experiments.lama.data import LamaWorld, make_world
from experiments.shown_facts.questions import Questions
from experiments.shown_facts.settings import ShownFactsStudy
from experiments.shown_facts.tables import CONDITIONS, page
from experiments.shown_facts.trial import ShownFactsTrial
from kept.lab.probing.items.collections import lama_templates, pararel_templates, trex_facts
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport
from tests.kept.tiny_lama import write_lama
from tests.kept.training.tiny_pretraining import write_host

CONFIG = Path(__file__).parents[2] / "experiments" / "shown_facts" / "trex.yaml"
WORDS = ("France", "Germany", "French", "old")


@pytest.fixture
def questions(tmp_path: Path, small_graph: KnowledgeGraph) -> Questions:
    """The committed study with a tiny host and two steps, on the miniature of LAMA."""
    committed = yaml.safe_load(CONFIG.read_text())
    steps: dict[str, Any] = {
        "steps": 2, "batch_size": 1, "device": "cpu", "log_every": 1, "warmup_steps": 0,
    }  # fmt: skip
    study = ShownFactsStudy.model_validate(
        committed
        | {
            "host": str(write_host(tmp_path / "host")),
            "facts_per_relation": 1,
            "n_texts": 100,
            "builder": committed["builder"] | {"max_words": 40, "max_nodes": 80},
            "head": committed["head"] | steps,
            "reading": committed["reading"] | steps,
            "stated": {},  # in the miniature no object has a name of one piece
            "arms": {
                name: {key: value for key, value in arm.items() if key != "steps"}
                for name, arm in committed["arms"].items()
            },
        }
    )
    folder = write_lama(tmp_path / "lama")
    examples = list(read_trex(folder / "TREx", DamageReport(), distinct=True))
    world: LamaWorld = make_world(
        examples, small_graph, trex_facts(folder), per_relation=1, n_texts=100, seed=0
    )
    return Questions.of(study, world, lama_templates(folder), pararel_templates(folder), WORDS)


def test_a_fold_sees_nothing_of_its_relations(questions: Questions) -> None:
    assert questions.relations == [["P17"], ["P37"]]
    for fold, (relation,) in enumerate(questions.relations):
        graph = questions.training_graph(fold)
        assert graph.id_space_hash == questions.world.graphs["given"].id_space_hash
        assert graph.relations.find(relation) not in np.unique(graph.triples[:, 1])
        assert graph.n_triples
        texts = questions.training_texts(fold)
        probed = {(fact.head, fact.tail) for fact in questions.world.facts}
        for text in texts:
            assert len(text.links) == 2
            assert tuple(link.entity for link in text.links) not in probed
            for link in text.links:
                surface = text.text[link.mention.start : link.mention.end]
                number = graph.entities.find(link.entity or "")
                assert number is not None
                assert surface == graph.label(number)
        templates = {"P17": "lies in", "P37": "speaks"}
        assert texts
        assert not any(templates[relation] in text.text for text in texts)


def test_an_edited_fact_has_another_answer(questions: Questions) -> None:
    graph, items = questions.edited(0)
    items_by_id = {item.id: item for item in questions.of_fold(0)}
    assert items
    for item in items:
        old = items_by_id[item.id]
        assert item.answer in questions.objects["P17"]
        assert item.answer not in (old.answer, *old.also_right)
        assert item.fact is not None
        assert old.fact is not None
        head, relation = graph.entities.find(item.fact[0]), graph.relations.find(item.fact[1])
        ends = {
            name: graph.contains(np.array([[head, relation, graph.entities.find(name)]], np.int32))
            for name in (item.fact[2], old.fact[2])
        }
        assert [bool(each[0]) for each in ends.values()] == [True, False]


def test_alone_the_graph_has_the_asked_facts_and_no_other(questions: Questions) -> None:
    for fold in range(questions.study.folds):
        graph = questions.asked_alone(fold)
        names, relations = graph.entities, graph.relations
        facts = {
            (names.name(head), relations.name(relation), names.name(tail))
            for head, relation, tail in graph.triples.tolist()
        }
        assert facts == {item.fact for item in questions.of_fold(fold)}
        assert graph.id_space_hash == questions.world.graphs["given"].id_space_hash


class Silent:
    def step(self, record: Any) -> None: ...
    def notice(self, message: str) -> None: ...


def test_an_arm_begins_with_what_another_learned(questions: Questions, tmp_path: Path) -> None:
    trial = ShownFactsTrial(questions, tmp_path, Silent())
    assert questions.study.arms["kbert"].start == "words"
    start = trial.start("kbert", 0)
    assert start == tmp_path / "words-0"
    words = KnowledgeForPreTraining.from_pretrained(start)
    model = trial.new_model("kbert", 0, start)
    for part in ("encoder.host.", "objectives.stated_words.words."):
        old = {n: v for n, v in words.state_dict().items() if n.startswith(part)}
        assert old
        assert all(torch.equal(v, model.state_dict()[n]) for n, v in old.items())
    later = {"words": {"method": "kbert", "start": "kbert"}, "kbert": {"method": "kbert"}}
    with pytest.raises(ValidationError, match=r"arm words starts from 'kbert'.*before it"):
        ShownFactsStudy.model_validate(questions.study.model_dump() | {"arms": later})


def test_arms_may_begin_one_with_another_and_train_as_long_as_they_say(
    questions: Questions, tmp_path: Path
) -> None:
    arms = questions.study.arms
    assert [arms[f"colake{name}"].start for name in ("-reach-3", "-reach-2", "")] == [
        "words", "colake-reach-3", "colake-reach-2",
    ]  # fmt: skip
    longer = {**arms, "words": arms["words"].model_copy(update={"steps": 3})}
    study = questions.study.model_copy(update={"arms": longer})
    longer_trial = ShownFactsTrial(dataclasses.replace(questions, study=study), tmp_path, Silent())
    longer_trial.cell("words", 0)
    assert json.loads((tmp_path / "words-0" / "trained.json").read_text())["told"] == {"steps": 3}
    settings = [each.settings_of("colake") for each in (questions.study, study)]
    assert settings[0] != settings[1]


def test_the_study_in_small(questions: Questions, tmp_path: Path) -> None:
    out = tmp_path / "run"
    trial = ShownFactsTrial(questions, out, Silent())
    trial.run_missing()
    cells = trial.stored()
    for name in questions.study.arms:
        for values in (cells[name][fold] for fold in range(questions.study.folds)):
            assert {len(values[condition]) for condition in CONDITIONS} == {1}
            assert values["alone"][0]["shown"]
            assert values["shown"][0]["shown"]
            assert not values["hidden"][0]["shown"]
            assert values["share of texts with a stated mention"] == 1.0
    before = {path: path.read_bytes() for path in out.rglob("result.json")}
    assert len(before) == 10
    trial.run_missing()
    assert {path: path.read_bytes() for path in before} == before
    text = page(questions.study, cells, str(questions.world))
    assert text.count("LAMA's words") == 5
    assert "Not run" not in text
    (out / "kbert-1" / "result.json").unlink()
    assert "Not run: kbert (fold 1)." in page(questions.study, trial.stored(), str(questions.world))
