"""Every committed YAML is found, belongs to one kind, loads, and takes two steps.

A file under `experiments` belongs to a study, which a test named here runs in small; those that
ship are `Experiment`s, run here on hand-made data.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kept.graphs.builder import BuilderConfig
from kept.inputs.views import builder_for
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.files import asks_questions, shipped_experiments
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.study.design import RunKey
from kept.lab.study.run import Study
from kept.methods import METHODS, method
from kept.tasks.datasets.public_graphs import GRAPHS, TEXTS
from tests.kept.tiny_task_files import WRITERS, relation_examples, world_graph, write_task_file
from tests.kept.training.tiny_pretraining import write_host, write_texts

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent / "experiments"
FILES = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.yaml"))}
FILES |= {path.name: path for path in shipped_experiments().values()}
EXPERIMENTS = [p.name for p in shipped_experiments().values() if not asks_questions(p)]
STUDIES = {
    "entity_linking/wikidata.yaml":
        "experiments/test_entity_linking_experiment.py::test_a_run_in_small_goes_on_and_repeats",
    "entity_linking/end_to_end/end_to_end.yaml":
        "experiments/test_linking_end_to_end.py::test_a_run_in_small",
    "commonsense_questions/csqa_control.yaml":
        "experiments/test_commonsense_questions.py::test_study_and_control_have_one_budget",
    "commonsense_questions/csqa_small.yaml":
        "experiments/test_commonsense_questions.py::test_study_and_control_have_one_budget",
    "completion_table/table.yaml":
        "experiments/test_completion_table.py::test_the_table_in_small",
    "distillation/plain-host.yaml":
        "experiments/test_distillation_experiment.py::test_the_study_in_small",
    "fewshot/episodes.yaml":
        "experiments/test_studies_in_small.py::test_fewshot_episodes",
    "inductive_completion/codex.yaml":
        "kept/lab/completion/test_inductive_completion.py::test_every_plan_loads_and_runs",
    "inductive_completion/grail.yaml":
        "kept/lab/completion/test_inductive_completion.py::test_every_plan_loads_and_runs",
    "inductive_completion/ultra.yaml":
        "kept/lab/completion/test_inductive_completion.py::test_every_plan_loads_and_runs",
    "joint_spaces/vectors.yaml":
        "experiments/test_joint_spaces_experiment.py::test_the_study_in_small",
    "joint_spaces/reading.yaml":
        "experiments/test_joint_spaces_experiment.py::test_reading_in_small",
    "joint_spaces/medical.yaml":
        "experiments/test_stages.py::test_medical_in_small",
    "adaptation/averaging.yaml":
        "experiments/test_stages.py::test_averaging_in_small",
    "lexical/senses.yaml":
        "experiments/test_stages.py::test_senses_in_small",
    "lexical/reviews.yaml":
        "experiments/test_stages.py::test_reviews_in_small",
    "lexical/similarity.yaml":
        "experiments/test_stages.py::test_similarity_in_small",
    "ebert/linking.yaml":
        "experiments/test_ebert_linking_experiment.py::test_the_study_in_small",
    "lama/mapped.yaml":
        "experiments/test_lama_mapped.py::test_the_study_in_small",
    "several_kinds/three.yaml":
        "experiments/test_several_kinds.py::test_the_study_in_small",
    "generators/small.yaml":
        "experiments/test_generators_experiment.py::test_the_study_in_small",
    "kblam/smollm2.yaml":
        "experiments/test_kblam_experiment.py::test_the_study_in_small",
    "kbert_zh/chnsenticorp.yaml":
        "experiments/test_kbert_zh.py::test_runs_are_made_once_and_compared",
    "kg_completion/codex-m.yaml":
        "experiments/test_kg_completion.py::test_every_plan_loads_and_runs",
    "kg_completion/codex-s.yaml":
        "experiments/test_kg_completion.py::test_every_plan_loads_and_runs",
    "kg_completion/fb15k-237.yaml":
        "experiments/test_kg_completion.py::test_every_plan_loads_and_runs",
    "kg_completion/wn18rr.yaml":
        "experiments/test_kg_completion.py::test_every_plan_loads_and_runs",
    "lama/decoder.yaml":
        "experiments/test_lama_decoder.py::test_the_study_on_a_decoder_in_small",
    "lama/trex.yaml":
        "experiments/test_lama_experiment.py::test_the_study_in_small",
    "layers/trex.yaml":
        "experiments/test_pretraining_experiment.py::test_runs_for_layers_open_by_themselves",
    "popular_questions/questions.yaml":
        "experiments/test_popular_questions.py::test_outcomes_are_stored_once_under_their_address",
    "pretraining/trex.yaml":
        "experiments/test_pretraining_experiment.py::test_two_steps_and_a_table",
    "private-questions.yaml":
        "kept/lab/questions/test_question_command.py::test_the_shipped_file_in_small",
    "ready_weights/ultra.yaml":
        "experiments/test_ready_weights.py::test_the_package_is_taken_by_name_and_says_so",
    "relation_extraction/mechanisms.yaml":
        "experiments/test_task_files.py::test_one_set_of_facts_for_every_mechanism",
    "shown_facts/trex.yaml":
        "experiments/test_shown_facts_experiment.py::test_the_study_in_small",
    "unseen_entities/study.yaml":
        "experiments/test_unseen_entities.py::test_the_study_in_small",
    "wk_completion/trex.yaml":
        "experiments/test_studies_in_small.py::test_word_knowledge_completion",
    "word_sense/semeval.yaml":
        "experiments/test_word_sense_experiment.py::test_every_system_runs_on_hand_made_data",
}  # fmt: skip


def test_every_file_is_run_by_one_test(record_property: Callable[[str, object], None]) -> None:
    claims = {name: (name in EXPERIMENTS) + (name in STUDIES) for name in FILES}
    wrong = {name: n for name, n in claims.items() if n != 1}
    assert not wrong, f"of {len(FILES)} YAML files these have not one test: {wrong}"
    assert set(STUDIES) <= set(FILES), "a study's file is gone"
    of_studies = len(FILES) - len(EXPERIMENTS)
    actual = f"{len(FILES)} YAML files: {len(EXPERIMENTS)} experiments, {of_studies} of studies"
    record_property("committed experiments", actual)


def test_no_study_hides_an_experiment_from_the_command_line() -> None:
    """In a clone `kept compare --task NAME` looks into `experiments` before what ships."""
    shipped = {path.stem for path in shipped_experiments().values()}
    studies = [name for name in FILES if "/" in name]
    assert [name for name in studies if Path(name).stem in shipped] == []
    assert len(studies) > 10


# ---- studies -------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", STUDIES)
def test_the_test_of_a_study_reads_its_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _, test = STUDIES[name].partition("::")
    assert (TESTS / path).is_file()
    monkeypatch.syspath_prepend(str((TESTS / path).parent))
    module = importlib.import_module(Path(path).stem)
    assert FILES[name] in _reached(module, test)


def _reached(module: ModuleType, test: str) -> set[Path]:
    """Paths among a module's constants that a test names, or a fixture or function it needs."""
    body = ast.parse(inspect.getsource(module)).body
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    waiting, seen, result = [test], {test}, set[Path]()
    while waiting:
        nodes = list(ast.walk(functions[waiting.pop()]))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        for each in sorted(names):
            value = getattr(module, each, None)
            result |= {v for v in (value if isinstance(value, list) else [value]) if _is_path(v)}
            if each in functions and each not in seen:
                seen.add(each)
                waiting.append(each)
    return {path.resolve() for path in result}


def _is_path(value: object) -> bool:
    return isinstance(value, Path)


# ---- experiments ---------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host, a graph and texts for all runs."""
    root = tmp_path_factory.mktemp("committed")
    examples = relation_examples()
    world_graph(examples).save(root / "kg")
    write_texts([e.linked for e in examples[180:]], root / "texts.jsonl")
    write_host(root / "host")
    return root


def small(committed: Experiment, shared: Path) -> Experiment:
    """With a tiny host and graph, two steps a stage, and the rest as it is."""
    training = {"steps": 2, "batch_size": 4, "warmup_steps": 1, "threads": 1, "device": "cpu"}
    training_fields = committed.task["training"]
    sizes = {"max_words": 32, "max_nodes": 64}
    task = committed.task | {
        "kg": str(shared / "kg"), "host": str(shared / "host"), "max_asked": 16,
        "graph": committed.task.get("graph", {}) | sizes,
        "training": {k: v for k, v in training_fields.items() if k != "epochs"} | training,
    }  # fmt: skip
    stage = committed.pretraining
    if stage is not None:
        assert stage.text in TEXTS or stage.text.startswith("atlas/")
        brief = stage.training.model_copy(update=training | {"epochs": None})
        update = {"text": str(shared / "texts.jsonl"), "n_texts": 12, "training": brief}
        stage = stage.model_copy(update=update)
    return committed.model_copy(update={"task": task, "pretraining": stage})


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_two_steps(name: str, shared: Path, tmp_path: Path) -> None:
    committed = Experiment.read(FILES[name])
    assert committed.name == Path(name).stem
    assert committed.task["kg"] in GRAPHS or name == "atlas.yaml"  # `kept demo` makes its files
    sizes = BuilderConfig(**committed.task.get("graph", {}))  # `small` has others
    for row, of_method in committed.methods.items():
        view = {**committed.task.get("view", {}), **of_method.get("view", {})}
        builder_for(method(committed.variant_of(row)), sizes, view)
    variants = [name for name in committed.methods if name not in METHODS]
    kind = committed.task["format"]
    assert kind in WRITERS, f"{name}: write a file of the format {kind} in tiny_task_files.py"
    examples = relation_examples()
    parts = [part for part in ("train", "dev", "test") if part in committed.task]
    for part, start in zip(parts, (0, 72, 108), strict=False):
        rows = examples[start : start + (72 if part == "train" else 36)]
        write_task_file(tmp_path / committed.task[part], kind, rows)
    runs = Study(ComparisonTrial(small(committed, shared), tmp_path, tmp_path / "runs"))
    records = [runs.run(RunKey(row, "true", 0)) for row in ("kbert", *variants)]
    assert all(record is not None and record.costs["steps"] == 2 for record in records)
    assert len({record.run for record in records if record is not None}) == len(records)
    record = records[0]
    assert record is not None
    assert (record.costs["pretraining"] is None) == (committed.pretraining is None)
    assert record.costs["mentions_in_graph"] > 0
    actual = record.scores[committed.asked]
    assert actual["n_scored"] > 0
    assert math.isfinite(value_of(actual, committed.metric))
    assert committed.metric != "official" or actual["official"]["name"]


def value_of(scores: Mapping[str, Any], metric: str) -> float:
    """The number that a table would show."""
    score = scores[metric]
    return float(score["f1" if metric in ("micro", "macro") else "estimate"])


BEFORE = [name for name in EXPERIMENTS if name.endswith("-before.yaml")]


@pytest.mark.parametrize("name", BEFORE)
def test_before_and_after_differ_by_the_first_stage_alone(name: str) -> None:
    before, after = (Experiment.read(FILES[n]) for n in (name, name.replace("-before", "")))
    assert before.name == f"{after.name}-before"
    assert after.pretraining is not None
    assert list(before.methods) == ["none"]
    fields = {"name", "pretraining", "methods"}
    for one in (before, after):
        one.task["graph"].pop("drop_probability", None)  # of facts, which `none` has not
    assert before.model_dump(exclude=fields) == after.model_dump(exclude=fields)
