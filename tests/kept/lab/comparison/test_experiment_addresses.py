"""What a run's address is made of, and what no first stage and no graph may know."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from entity_linking import RelationExample
from entity_linking.annotations import write_jsonl
from kept.errors import ConfigError
from kept.lab.comparison import trial as runs_module
from kept.lab.comparison.data import ExperimentData, folder_digests
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.files import shipped_experiments
from kept.lab.comparison.find import read_experiment
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.study.addresses import _of_folder
from kept.lab.study.design import RunKey
from kept.lab.study.run import Study
from kept.training.finetuning.assembly import read_sets
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_task_files import wiki80_row


def test_a_hash_is_of_everything_that_matters(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    def hashes(changed: Experiment, key: RunKey) -> dict[str, Any]:
        return Study(ComparisonTrial(changed, experiment_root, tmp_path)).of(key).settings

    base = hashes(experiment, RunKey("kbert", "true", 0))
    assert base == hashes(experiment, RunKey("kbert", "true", 0))
    for key in (("kbert", "true", 1), ("kbert", "shuffled", 0), ("colake", "true", 0)):
        assert base != hashes(experiment, RunKey(*key))  # type: ignore[arg-type]
    other = experiment.task | {"graph": {"max_words": 23, "max_nodes": 48}}
    changed = experiment.model_copy(update={"task": other})
    assert base != hashes(changed, RunKey("kbert", "true", 0))
    stage = experiment.model_copy(update={"pretraining": None})
    assert base != hashes(stage, RunKey("kbert", "true", 0))
    operational = experiment.task["training"] | {"log_every": 1}
    same = experiment.model_copy(update={"task": experiment.task | {"training": operational}})
    assert base == hashes(same, RunKey("kbert", "true", 0))
    constant = experiment.task["training"] | {"schedule": "constant"}
    shorter, longer = (
        experiment.model_copy(
            update={"task": experiment.task | {"training": constant | {"steps": n}}}
        )
        for n in (2, 3)
    )
    key = RunKey("kbert", "true", 0)
    assert hashes(shorter, key) != hashes(longer, key)


def test_what_a_method_does_in_pre_training_is_part_of_its_address(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    def settings(name: str, **graph: Any) -> dict[str, Any]:
        fields = {"graph": experiment.task["graph"] | graph}
        changed = experiment.model_copy(update={"task": experiment.task | fields})
        return (
            Study(ComparisonTrial(changed, experiment_root, tmp_path))
            .of(RunKey(name, "true", 0))
            .settings
        )

    assert settings("colake")["in_pretraining"] == {"drop_probability": 0.5, "drop": "anchor"}
    old = settings("colake", drop_probability=0.0)
    assert "in_pretraining" not in old
    assert old["graph"] == settings("kbert")["graph"] == experiment.task["graph"]
    assert settings("kbert") == settings("kbert", drop_probability=0.0)
    assert settings("colake", drop_probability=0.5) not in (settings("colake"), old)
    without = experiment.model_copy(update={"pretraining": None})
    runs = Study(ComparisonTrial(without, experiment_root, tmp_path))
    assert "in_pretraining" not in runs.of(RunKey("colake", "true", 0)).settings


def test_only_an_address_of_links_made_in_the_run_knows_the_linker(
    experiment: Experiment, experiment_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(link: bool) -> str:
        changed = experiment.model_copy(update={"task": experiment.task | {"link": link}})
        runs = Study(ComparisonTrial(changed, experiment_root, tmp_path))
        assert ("links" in runs.of(RunKey("kbert", "true", 0)).settings) is link
        return runs.of(RunKey("kbert", "true", 0)).name

    stored, linked = name(False), name(True)
    monkeypatch.setattr(runs_module, "LINKS_VERSION", runs_module.LINKS_VERSION + 1)
    assert name(False) == stored
    assert name(True) != linked
    monkeypatch.setattr(runs_module, "LINKS_VERSION", runs_module.LINKS_VERSION - 1)
    assert name(True) == linked
    monkeypatch.setattr(runs_module, "lowers_first_letters", lambda graph: True)
    assert name(False) == stored
    assert name(True) != linked, "links of such a graph are other links"


@pytest.mark.parametrize("changed", ["kg", "texts.jsonl", "further.txt", "host"])
def test_a_hash_is_of_what_files_and_folders_hold(
    experiment: Experiment,
    experiment_root: Path,
    tmp_path: Path,
    host: Path,
    world: KnowledgeGraph,
    changed: str,
) -> None:
    shutil.copytree(experiment_root, tmp_path / "data")
    shutil.copytree(host, tmp_path / "host")
    shutil.copy(experiment_root / "train.txt", tmp_path / "data" / "further.txt")
    also = {"name": "more", "task": "relation", "format": "wiki80", "train": "further.txt"}
    task = experiment.task | {"host": str(tmp_path / "host"), "also": [also]}
    experiment = experiment.model_copy(update={"task": task})

    def name() -> str:
        runs = Study(ComparisonTrial(experiment, tmp_path / "data", tmp_path / "runs"))
        return runs.of(RunKey("kbert", "true", 0)).name

    before = name()
    assert before == name()
    if changed == "kg":
        half = world.with_triples(world.triples[::2], note="every other")
        shutil.rmtree(tmp_path / "data" / "kg")
        half.save(tmp_path / "data" / "kg")
    elif changed == "host":
        (tmp_path / "host" / "notes.txt").write_text("other weights", encoding="utf-8")
        _of_folder.cache_clear()
    else:
        path = tmp_path / "data" / changed
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[:-8]), encoding="utf-8")
    assert before != name()


@pytest.mark.parametrize("how", ["split off", "linked"])
def test_the_first_stage_knows_no_pair_that_only_a_run_would_find(
    experiment: Experiment, experiment_root: Path, tmp_path: Path, how: str
) -> None:
    task = dict(experiment.task)
    if how == "split off":
        del task["dev"]
        task["dev_share"] = 0.3
    else:  # the format reads no identifiers
        task |= {"format": "semeval", "link": True}
    runs = Study(
        ComparisonTrial(experiment.model_copy(update={"task": task}), experiment_root, tmp_path)
    )
    config, whole = runs.trial.config(RunKey("none", "off", 0)), runs.trial.data.whole
    pairs = {frozenset(e.pair) for e in read_sets(config, whole)[0]["dev"] if e.pair}
    assert pairs & _joined(whole)
    assert not pairs & _joined(runs.trial.data.graph)
    read = [{link.entity for link in text.links} for text in runs.trial.data.texts]
    assert read
    assert not any(pair <= entities for pair in pairs for entities in read)


def _joined(graph: KnowledgeGraph) -> set[frozenset[str]]:
    names = list(graph.entities)
    return {frozenset((names[h], names[t])) for h, _, t in graph.triples.tolist()}


def test_no_asked_pair_is_in_the_graph_or_the_first_stage(
    experiment: Experiment, experiment_root: Path, tmp_path: Path, examples: list[RelationExample]
) -> None:
    runs = ComparisonTrial(experiment, experiment_root, tmp_path).data
    pairs = {frozenset(e.pair) for e in runs.examples["dev"] if e.pair}
    assert pairs
    assert not pairs & _joined(runs.graph)
    texts = {e.linked.text for part in runs.examples.values() for e in part}
    assert len(runs.texts) == 16
    assert not texts & {text.text for text in runs.texts}
    lines = [json.dumps(wiki80_row(example)) for example in examples[130:140]]
    (tmp_path / "asked.txt").write_text("\n".join(lines), encoding="utf-8")
    task = experiment.task | {"dev": str(tmp_path / "asked.txt")}
    other = ExperimentData(
        experiment.model_copy(update={"task": task}), experiment_root, tmp_path / "other"
    )
    assert runs.texts_digest != other.texts_digest  # the two do not share a first stage


def test_only_what_is_named_is_digested(
    experiment: Experiment, experiment_root: Path, tmp_path: Path, host: Path
) -> None:
    trial = ComparisonTrial(experiment, experiment_root, tmp_path)
    config = trial.config(RunKey("none", "off", 0))
    changed = config.model_copy(update={"options": {"prefix": "", "kars": [{"kg": str(tmp_path)}]}})
    assert folder_digests(changed).keys() == {str(host), str(tmp_path)}


# ---- where experiments lie ---------------------------------------------------------------------
def test_a_file_of_ones_own_goes_before_what_ships_and_may_extend_it(tmp_path: Path) -> None:
    shipped = read_experiment("wiki80", folder=tmp_path)
    assert shipped == Experiment.read(shipped_experiments()["wiki80"])
    folder = tmp_path / "mine"
    folder.mkdir()
    text = (
        "extends: wiki80\ntask: {max_asked: 7, training: {batch_size: 3}}\nmethods: {kbert: {}}\n"
    )
    (folder / "wiki80.yaml").write_text(text, encoding="utf-8")
    experiment_ = read_experiment("wiki80", folder=tmp_path)
    assert (experiment_.name, list(experiment_.methods)) == ("wiki80", ["kbert"])
    assert experiment_.task["max_asked"] == 7
    assert experiment_.task["training"] == shipped.task["training"] | {"batch_size": 3}
    assert experiment_.pretraining == shipped.pretraining
    (tmp_path / "wiki80.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"2 files in .* have that name"):
        read_experiment("wiki80", folder=tmp_path)
    (folder / "odd.yaml").write_text("extends: wiki81", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"odd.yaml: .*'wiki81'; did you mean wiki80"):
        read_experiment("odd", folder=tmp_path)


def test_a_limit_is_on_every_set_and_on_the_texts_before() -> None:
    shipped = Experiment.read(shipped_experiments()["wiki80"])
    limited = shipped.limited(20)
    assert limited.name == "wiki80-limit-20"
    assert (limited.task["max_train"], limited.task["max_asked"]) == (20, 20)
    assert limited.pretraining is not None
    assert (limited.pretraining.n_texts, limited.pretraining.training.warmup_steps) == (20, 0)
    assert shipped.limited(5000).task["max_asked"] == shipped.task["max_asked"]


def test_files_that_are_not_there_are_named_with_the_remedy(
    experiment: Experiment, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"train.txt does not exist.*set KEPT_DATA"):
        ExperimentData(experiment, tmp_path, tmp_path / "runs").files  # noqa: B018


def test_a_first_stage_without_a_text_of_its_own_is_refused(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    runs = Study(ComparisonTrial(experiment, experiment_root, tmp_path))
    texts = [example.linked for example in runs.trial.data.examples["train"]]
    write_jsonl(texts, tmp_path / "own.jsonl")
    assert experiment.pretraining is not None
    stage = experiment.pretraining.model_copy(update={"text": str(tmp_path / "own.jsonl")})
    changed = experiment.model_copy(update={"pretraining": stage})
    with pytest.raises(ConfigError, match=rf"none of the {len(texts)} texts .* pretraining.text"):
        ExperimentData(changed, experiment_root, tmp_path).texts  # noqa: B018
