"""The LAMA experiment in small: the world, every row from the same weights, and the tables."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
import yaml

from entity_linking.annotations.relations import read_trex
from experiments.lama.data import LamaWorld, make_world
from experiments.lama.probing import read_questions
from experiments.lama.study import HOST, LamaStudy, Row
from experiments.lama.tables import to_markdown, values_of
from experiments.lama.trial import LamaTrial, chosen_rows, modes
from kept.errors import CheckpointError, ConfigError
from kept.lab.probing.items.collections import trex_facts
from kept.methods import METHODS
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport
from tests.kept.tiny_lama import write_lama
from tests.kept.training.tiny_pretraining import write_host

CONFIG = Path(__file__).parents[2] / "experiments" / "lama" / "trex.yaml"
LATER = {name for name, line in METHODS.items() if line.since != "0.1"}
"""Methods that were added after this study was planned."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_lama(tmp_path / "lama")


@pytest.fixture
def world(folder: Path, small_graph: KnowledgeGraph) -> LamaWorld:
    examples = list(read_trex(folder / "TREx", DamageReport(), distinct=True))
    facts = trex_facts(folder)
    return make_world(examples, small_graph, facts, per_relation=1, n_texts=100, seed=0)


@pytest.fixture
def study(tmp_path: Path) -> LamaStudy:
    """The committed one with a tiny host, three methods and two steps a row."""
    committed = yaml.safe_load(CONFIG.read_text())
    steps = {
        "steps": 2, "batch_size": 4, "device": "cpu", "log_every": 1, "learning_rate": 1e-3,
        "warmup_steps": 0,
    }  # fmt: skip
    small = {
        "host": str(write_host(tmp_path / "host")),
        "facts_per_relation": 1, "paraphrased": 1, "altered": 3, "n_texts": 100,
        "builder": committed["builder"] | {"max_words": 40, "max_nodes": 80},
        "head": committed["head"] | steps,
        "training": committed["training"] | steps,
        "methods": {name: committed["methods"][name] for name in ("kbert", "colake", "kadapter")},
    }  # fmt: skip
    return LamaStudy.model_validate(committed | small)


def test_the_committed_configuration_loads() -> None:
    study = LamaStudy.model_validate(yaml.safe_load(CONFIG.read_text()))
    assert len(study.rows) == 2 + 2 * (len(METHODS) - 1 - len(LATER))
    assert {row.method for row in study.rows} == {HOST, *METHODS} - LATER
    configs = [study.training_of(row) for row in study.rows[1:]]
    assert all(config == configs[0] for config in configs)
    assert study.training_of(study.rows[0]).seed != configs[0].seed
    reading = [row.name for row in study.rows if len(modes(row)) == 2]
    reads = {name for name, line in METHODS.items() if line.view.reads_graph}
    assert {name.split("-")[0] for name in reading} == reads - LATER


def test_rows_are_chosen_by_name(study: LamaStudy) -> None:
    assert [row.name for row in chosen_rows(study, "kbert")] == ["kbert-held_out", "kbert-given"]
    assert chosen_rows(study, "kbert-given") == [Row("kbert", "given")]
    assert len(chosen_rows(study, None)) == 8
    with pytest.raises(ConfigError, match=r"no row 'kber'; there are host, none, "):
        chosen_rows(study, "kber")


def test_probed_facts_are_in_one_graph_alone_and_never_in_the_text(world: LamaWorld) -> None:
    assert len(world.facts) == 2
    held_out, complete = (world.graphs[name] for name in ("held_out", "given"))
    assert held_out.id_space_hash == complete.id_space_hash
    assert not held_out.contains(world.triples).any()
    assert complete.contains(world.triples).all()
    actual = {name: [check.n_found for check in world.audit(name)] for name in world.graphs}
    assert actual["held_out"] == [0] * 6
    assert actual["given"][0] == 2
    assert actual["given"][3:5] == [0, 0]
    texts = [text.text for document in world.documents for text in document]
    assert texts
    for fact in world.facts:
        assert not any(fact.subject in text and fact.answer in text for text in texts)
    assert world.n_left_out >= len(world.evidences) == 4


def test_the_audit_finds_what_was_not_left_out(
    world: LamaWorld, folder: Path, small_graph: KnowledgeGraph
) -> None:
    examples = list(read_trex(folder / "TREx", DamageReport(), distinct=True))
    everything = tuple((example.linked,) for example in examples)
    leaky = LamaWorld(
        world.facts, world.every_fact, world.graphs, everything, world.evidences, 0
    )  # fmt: skip
    assert [check.n_found for check in leaky.audit("held_out")][3:5] == [4, 2]


@pytest.fixture
def trial(study: LamaStudy, world: LamaWorld, folder: Path, tmp_path: Path) -> LamaTrial:
    return LamaTrial(study, tmp_path / "run", world, read_questions(folder, study, world))


def test_every_row_begins_with_the_weights_of_the_first_stage(trial: LamaTrial) -> None:
    with pytest.raises(ConfigError, match="run row 'host' first"):
        trial.train(Row("none"))
    trial.train(Row(HOST))
    first = KnowledgeForPreTraining.from_pretrained(trial.folder / HOST)
    bias = first.objectives["mlm"].bias
    assert bias.abs().sum() > 0
    for row in trial.study.rows[1:]:
        model = trial.new_model(row)
        has_nodes = "masked_nodes" in row.kind.objectives
        head = model.objectives["masked_nodes" if has_nodes else "mlm"]
        assert torch.equal(head.word_bias if has_nodes else head.bias, bias)
        table = model.encoder.host.get_input_embeddings().weight
        assert torch.equal(table, first.encoder.host.get_input_embeddings().weight)


def test_the_study_in_small(study: LamaStudy, trial: LamaTrial) -> None:
    questions, out = trial.questions, trial.folder
    assert (len(questions.items), len(questions.paraphrases)) == (2, 5)
    assert questions.objects["P17"] == ["France", "Germany"]
    rows = study.rows[:-2]
    trial.run_missing(trial.keys([row.name for row in rows]))
    for row in rows:
        trained = trial.trained(row)
        assert trained is not None
        assert (trained["steps"], trained["sentences"]) == (2, 8)
        assert trial.train(row) == trained
        results = trial.cell(row.name, study.seed)
        assert [one["mode"] for one in results] == list(modes(row))
        assert all(one["objects"]["all"]["n_scored"] == 2 for one in results)
        assert [one["asked_facts"] for one in results][1:] == (
            [] if row.knowledge is None else ["shown" if row.knowledge == "given" else "hidden"]
        )
        n_shown = [one["n_shown"] for one in results]
        assert n_shown == ([0, 2] if row.name.endswith("-given") else [0] * len(results))
    values = values_of(study, out)
    text = to_markdown(study, values, out)
    assert "Not run yet: kadapter-held_out, kadapter-given." in text
    assert "| kbert | with the probed facts | graph | 2 | 2 | 2 |" in text
    assert "against text only" in text
    assert "none weights" not in values["differences"]
    assert values["differences"]["kbert-given graph"]["n"] == 2


def test_outcomes_of_other_settings_or_data_are_refused(study: LamaStudy, trial: LamaTrial) -> None:
    out, world, seed = trial.folder, trial.world, study.seed
    trial.run_missing(trial.keys([HOST, "none"]))
    more_steps = study.training.model_copy(update={"steps": 3})
    facts, words, steps = (
        dataclasses.replace(trial, **changes)
        for changes in (
            {"world": dataclasses.replace(world, facts=world.facts[:1])},
            {"study": study.model_copy(update={"paraphrased": 2})},
            {"study": study.model_copy(update={"training": more_steps})},
        )
    )
    assert steps.train(Row(HOST))["steps"] == 2  # it does not depend on them
    assert words.train(Row("none"))["steps"] == 2
    for wrong, message in (
        (lambda: steps.train(Row("none")), r"none/trained\.json .* settings;"),
        (lambda: facts.train(Row(HOST)), r"host/trained\.json .* other data;"),
        (lambda: words.cell("none", seed), r"none/result\.json .* settings"),
        (facts.names, r"names\.json .* other data; .* \(-o\)"),
        (lambda: values_of(steps.study, out), r"none/result\.json came of other settings"),
        (lambda: values_of(words.study, out), r"host/result\.json came of other settings"),
        (lambda: facts.new_model(Row("none")), r"host/trained\.json"),
    ):
        with pytest.raises(CheckpointError, match=message):
            wrong()
    other = out / "none" / "result.json"
    stored = json.loads(other.read_text())
    stored["origin"]["data"] = "other"
    other.write_text(json.dumps(stored))
    with pytest.raises(CheckpointError, match="different data"):
        values_of(study, out)
    other.write_text(json.dumps(stored["told"]))  # as it was stored before it had an origin
    with pytest.raises(CheckpointError, match="settings and data"):
        trial.cell("none", seed)
    with pytest.raises(CheckpointError, match="came of other settings;"):
        values_of(study, out)
