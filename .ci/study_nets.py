"""Nets of studies: where each stores its outcomes, and the pages of what is committed."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).parents[1]
EXPERIMENTS = ROOT / "experiments"
DATA = Path(os.environ.get("KEPT_DATA", "."))


def study_addresses() -> dict[str, list[str]]:
    """By study, the address or the settings of each outcome that it stores."""
    return _each(
        {
            "reading": _reading,
            "demo, private world": _private_world,
            "questions": _questions,
            "word-knowledge completion": _completion,
            "inductive completion": _inductive,
            "staged studies": _staged,
            "lama": _lama,
            "kg_completion": _kg_completion,
        }
    )


def committed_pages() -> dict[str, list[str]]:
    """By experiment, the pages that are made from committed results alone."""
    return _each(
        {
            "written runs": _written_runs,
            "comparisons": _comparisons,
            "distillation": _distillation,
            "layers": _layers,
            "kg_completion": _kg_completion_pages,
            "word_sense": _word_sense,
            "pretraining": _pretraining,
            "several_kinds": _several_kinds,
            "entity_linking": _entity_linking,
            "joint_spaces": _joint_spaces,
            "completion_table": _completion_table,
        }
    )


def _each(nets: Mapping[str, Callable[[], Iterator[str]]]) -> dict[str, list[str]]:
    found = {}
    for name, lines in nets.items():
        found[name] = list(lines())
        print(f"  {name}: {len(found[name])}", file=sys.stderr)
    return found


# ---- addresses -----------------------------------------------------------------------------------
def _reading() -> Iterator[str]:
    from kept.lab.reading.arms import ARMS, arm, recipe_arms
    from kept.lab.reading.cell import Cell
    from kept.lab.reading.conditions import CONDITIONS

    for name in (*ARMS, *recipe_arms()):
        for task in arm(name).tasks:
            for condition in CONDITIONS:
                for seed in (0, 1):
                    yield Cell(task=task, arm=name, condition=condition, seed=seed).key


def _private_world() -> Iterator[str]:
    from kept.lab.demo.private import study
    from kept.lab.demo.private.world import company
    from kept.lab.demo.run import demo_config

    config = demo_config().private
    firm = company(0, n_train=config.steps * config.batch_size, n_test=config.n_test,
                   n_new=config.n_new)  # fmt: skip
    for condition in study.CONDITIONS:
        for seed in config.seeds:
            for is_first in (False, True):
                yield study._key(config.cell(condition, seed), config, firm, is_first)


def _questions() -> Iterator[str]:
    from kept.inputs.controls.conditions import COMPARED
    from kept.lab.comparison.files import shipped_experiments
    from kept.lab.questions.plan import QuestionPlan
    from kept.lab.questions.trial import QuestionTrial
    from kept.lab.study.design import planned_runs
    from kept.lab.study.run import Study

    plan = QuestionPlan.read(shipped_experiments()["private-questions"])
    runs = Study(QuestionTrial(plan, DATA, Path("nowhere")))
    for key in planned_runs(list(plan.methods), COMPARED[1:], 2):
        yield f"{key}: {runs.of(key).name}"


def _completion() -> Iterator[str]:
    from experiments.wk_completion.data import read_world
    from kept.lab.completion.config import CompletionConfig
    from kept.lab.completion.trial import CompletionTrial
    from kept.lab.study.run import Study

    config = CompletionConfig.read(EXPERIMENTS / "wk_completion/trex.yaml")
    world = read_world(DATA, codex=("s",))
    split = config.split(world.examples, world.graph, world.inductive_heads)
    runs = Study(CompletionTrial(config, split, Path("nowhere")))
    for key in runs.trial.keys:
        yield f"{key}: {runs.of(key).name}"


def _inductive() -> Iterator[str]:
    from experiments.inductive_completion import trial as inductive
    from kept.lab.completion.inductive_config import InductiveConfig
    from kept.lab.study.addresses import run_hash
    from kept.lab.study.design import RunKey

    for name in ("grail", "ultra"):
        config = InductiveConfig.read(EXPERIMENTS / f"inductive_completion/{name}.yaml")
        split_name = config.splits[0]
        split = inductive.read_split(DATA, split_name, config)
        text = np.zeros((split.graph.n_entities, 4), np.float32)
        trial = inductive.InductiveTrial(config, split_name, split, text, Path("nowhere"))
        for method in config.methods:
            try:
                settings = trial.settings(RunKey(method, "true", config.seeds[0]))
            except inductive.NotThereError as error:
                yield f"{method}: {error}"
            else:
                yield f"{method}: {run_hash(settings)}"


def _staged() -> Iterator[str]:
    """The settings that a row's cell is stored with."""
    from experiments import stages
    from kept.errors import ConfigError

    for path in sorted(EXPERIMENTS.glob("*/*.yaml")):
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not {"rows", "differences", "title"} <= fields.keys() or "study" in fields:
            continue
        try:
            study = stages.StagedStudy.read(path)
        except Exception:  # noqa: BLE001 - a file of another kind of study
            continue
        for row in study.rows:
            try:
                origin = stages.StagedTrial(study, Path("/data"), Path("/out")).origin(
                    row, study.seeds[0]
                )
                yield f"{path.stem}, {row}: {json.dumps(dict(origin), sort_keys=True)}"
            except ConfigError as error:  # fields that the study's own command adds are missing
                yield f"{path.stem}, {row}: {error}"


def _lama() -> Iterator[str]:
    from experiments.lama.study import LamaStudy

    fields = yaml.safe_load((EXPERIMENTS / "lama/trex.yaml").read_text(encoding="utf-8"))
    study = LamaStudy.model_validate(fields)
    for row in study.rows:
        yield f"{row.name}: {study.settings_of(row)} {study.probe_settings_of(row)}"


def _kg_completion() -> Iterator[str]:
    from experiments.kg_completion import trial

    plan = _yaml("kg_completion/codex-s.yaml")
    benchmark = trial.read_benchmark(plan, DATA)
    for name, own in plan["scorers"].items():
        address = trial.training_address(own or {}, benchmark)
        yield f"{name}: {address} {trial.negatives_address(benchmark)}"


# ---- pages ---------------------------------------------------------------------------------------
def _comparisons() -> Iterator[str]:
    from experiments import pages, verdicts

    for path in sorted(EXPERIMENTS.glob("*/*.pairs.csv")):
        stem = path.name.removesuffix(".pairs.csv")
        yield pages.rebuilt(path.with_name(f"{stem}.html"))
        yield verdicts.page(stem, verdicts.verdicts(path.with_name(f"{stem}.scores.csv"), path))
    yield verdicts.one_model(EXPERIMENTS / "wk_completion/results.json")


def _json(name: str) -> Any:
    return json.loads((EXPERIMENTS / name).read_text(encoding="utf-8"))


def _yaml(name: str) -> Any:
    return yaml.safe_load((EXPERIMENTS / name).read_text(encoding="utf-8"))


def _distillation() -> Iterator[str]:
    from experiments.distillation.trial import DistillationStudy, page

    results = _json("distillation/results.json")
    study = DistillationStudy.model_validate(_yaml("distillation/plain-host.yaml"))
    yield page(study, results["right"], results["milliseconds"], "COMMAND")


def _layers() -> Iterator[str]:
    from kept.evaluation.statistics import Interval
    from kept.lab.probing.layers.study import LayerRow
    from kept.lab.probing.layers.tables import shortfalls, to_markdown

    results = _json("layers/layers.json")
    rows = []
    for row in results["rows"]:
        intervals = {name: Interval(**row[name]) if row[name] else None
                     for name in ("accuracy", "difference")}  # fmt: skip
        rows.append(LayerRow(**row | intervals))
    yield to_markdown(rows, results["command"], results["conditions"])
    yield repr(shortfalls(rows))


def _kg_completion_pages() -> Iterator[str]:
    from experiments.kg_completion.tables import page

    for name in ("codex-s", "fb15k-237", "wn18rr"):
        results = _json(f"kg_completion/{name}.results.json")
        yield page(results, _yaml(f"kg_completion/{name}.yaml"), "AUDIT")


def _word_sense() -> Iterator[str]:
    from experiments.word_sense.tables import to_markdown

    yield to_markdown(_json("word_sense/results.json"))


def _pretraining() -> Iterator[str]:
    from experiments.pretraining.trial import PretrainingStudy, to_markdown

    study = PretrainingStudy.model_validate(_yaml("pretraining/trex.yaml"))
    yield to_markdown(_json("pretraining/results.json"), study)


def _several_kinds() -> Iterator[str]:
    from experiments.several_kinds.tables import page
    from experiments.several_kinds.trial import Settings

    results = _json("several_kinds/results.json")
    settings = Settings.model_validate(_yaml("several_kinds/three.yaml"))
    right = [
        {row: {kind: [digit == "1" for digit in digits] for kind, digits in kinds.items()}
         for row, kinds in seed.items()}
        for seed in results["right"]
    ]  # fmt: skip
    yield page(settings, right, results["groups"], ("DATA",), "COMMAND")


def _entity_linking() -> Iterator[str]:
    from experiments.entity_linking.config import LinkingStudy
    from experiments.entity_linking.tables import to_markdown

    study = LinkingStudy.model_validate(_yaml("entity_linking/wikidata.yaml"))
    yield to_markdown(_json("entity_linking/results.json"), study)


def _joint_spaces() -> Iterator[str]:
    from experiments.joint_spaces.reading import ReadingStudy, page

    study = ReadingStudy.read(EXPERIMENTS / "joint_spaces/reading.yaml")
    yield page(study, _json("joint_spaces/reading.json"), "COMMAND")


def _completion_table() -> Iterator[str]:
    from experiments.completion_table.record import Record
    from experiments.completion_table.tables import to_markdown
    from experiments.completion_table.trial import read_plans

    config = _yaml("completion_table/table.yaml")
    record = Record(**_json("completion_table/results.json"))
    cells: dict[tuple[str, str], list[Any]] = {}
    for cell in record.cells:
        cells.setdefault((cell["graph"], cell["scorer"]), []).append(cell)
    yield to_markdown(config, read_plans(config), cells, record)


def _written_runs() -> Iterator[str]:
    """Pages of a comparison whose answers are written, not trained."""
    sys.path.insert(0, str(ROOT))
    from kept.lab.comparison.report import write_report
    from kept.lab.comparison.trial import ComparisonTrial
    from kept.lab.study.comparison_tables import latex_tables, to_json, to_markdown
    from kept.lab.study.design import PrimaryContrast, RunKey
    from kept.lab.study.effects import finished
    from kept.lab.study.run import Study
    from tests.kept.lab.comparison.written_runs import COSTS, N, experiment_of, write_run
    from tests.kept.tiny_task_files import relation_examples, wiki80_row, world_graph

    with tempfile.TemporaryDirectory() as folder:
        root, draws = Path(folder), np.random.default_rng(0)
        examples = list({(e.head, e.tail): e for e in relation_examples()}.values())
        for name, part in (("train", examples[N:]), ("dev", examples[:N])):
            lines = [json.dumps(wiki80_row(example)) for example in part]
            (root / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
        world_graph(examples).save(root / "kg")
        runs = Study(
            ComparisonTrial(experiment_of("tiny", primary=PrimaryContrast()), root, root / "runs")
        )
        runs.folder.mkdir()
        for method, kind, share in (
            ("none", "off", 0.5), ("kbert", "true", 0.9), ("kbert", "shuffled", 0.6),
            ("kbert", "off", 0.5),
        ):  # fmt: skip
            for seed in range(3):
                answers = ["a" if draws.random() < share else "b" for _ in range(N)]
                write_run(runs, RunKey(method, kind, seed), answers)  # type: ignore[arg-type]
        records = runs.folder / "runs.jsonl"
        costs = json.dumps(COSTS | {"mentions": 1, "mentions_in_graph": 1, "steps": 9,
                                    "mentions_with_facts": 1})  # fmt: skip
        text = records.read_text(encoding="utf-8").replace('"costs":{}', f'"costs":{costs}')
        records.write_text(text, encoding="utf-8")
        compared = finished(runs)
        yield to_markdown(compared, "COMMAND")
        yield json.dumps(to_json(compared), default=str).replace(folder, "FOLDER")
        yield latex_tables(compared)
        for path in write_report(compared, runs, root / "page" / "page.html"):
            yield f"{path.name} {path.read_bytes().decode('utf-8', 'replace')}"
