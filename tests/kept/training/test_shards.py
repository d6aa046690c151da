"""Several processes that share a model's tables and layers out train what one process trains."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.errors import ConfigError
from kept.methods import METHODS
from kept.training.config import TrainConfig, binding
from kept.training.costs import memory_forecast
from kept.training.finetuning.answers import ANSWERS
from kept.training.log import read_log
from kept.training.optimisers import make_optimisers
from kept.training.pretraining.assembly import assemble
from kept.training.pretraining.config import PretrainConfig
from kept.training.processes.sharded_table import entity_tables, share_tables
from kept.training.processes.shards import Shards
from kept.training.processes.together import Processes
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import WriteError
from tests.kept.rounding import require_same_state, require_same_training
from tests.kept.training.test_processes import RATES, STEPS, finish, runs_of, start
from tests.kept.training.tiny_pretraining import write_everything
from tests.kept.training.train_processes import run_all

SCRIPT = Path(__file__).with_name("train_processes.py")
NORMALISED = ("qagnn", "greaselm")
"""Their batch normalisation takes the texts of one process, so that two train something else."""
WITH_TABLES = ("ernie", "knowbert", "colake", "ebert", "ktnet")
DENSE = ("luke",)
"""Their tables are trained with dense gradients, unless their options say otherwise."""
BOTH = ("tables", "layers")
TASK = "classification"
SHARDED: dict[str, tuple[str, tuple[str, ...]]] = {
    **{
        f"{name}-all": (name, BOTH if name in WITH_TABLES else ("layers",))
        for name in METHODS
        if name not in NORMALISED
    },
    "colake-tables": ("colake", ("tables",)),
    "colake-layers": ("colake", ("layers",)),
    "ernie-tables": ("ernie", ("tables",)),
    f"{TASK}-all": (TASK, BOTH),
    f"{TASK}-none": (TASK, ()),
}
"""Runs of two processes: what one process trains, and what is shared out."""
EVALUATED = {"steps": 4, "evaluate_every": 1, "averaging": {"steps": 2, "publish": True}}


def write_runs(path: Path, runs: dict[str, Any]) -> Path:
    path.write_text(json.dumps(runs), encoding="utf-8")
    return path


def by_two(runs: Path) -> None:
    for code, output in finish(start([str(SCRIPT), str(runs)], 2)):
        assert code == 0, output


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    """Every run of one process, and of two with parts shared out."""
    folder = tmp_path_factory.mktemp("shards")
    fields = write_everything(folder, small_graph)
    task = runs_of(fields, folder)[TASK]
    task["training"] |= EVALUATED
    training = fields["training"] | STEPS | {"checkpoint_steps": None}
    ones = {name: fields | {"method": name, "training": training} for name in METHODS}
    for name in ("ernie", "knowbert", "ktnet"):
        ones[name] |= {"options": {"vector_epochs": 1}}
    ones["words"] |= {"view": {"max_nodes": 60}}  # the tiny host has 64 positions
    ones[TASK] = task
    twos = {
        name: ones[of] | {"training": ones[of]["training"] | {"shard": shard}}
        for name, (of, shard) in SHARDED.items()
    }
    started = start([str(SCRIPT), str(write_runs(folder / "two.json", twos))], 2)
    run_all(write_runs(folder / "one.json", ones))
    for code, output in finish(started):
        assert code == 0, output
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARDED)
def test_files_are_whole_and_those_of_one(name: str, trained: Path) -> None:
    of, _ = SHARDED[name]
    last = sorted((trained / f"{of}-1/checkpoints").iterdir())[-1].name
    for file in ("model", f"checkpoints/{last}/model", f"checkpoints/{last}/optimiser"):
        one, two = (
            load_file(trained / f"{n}/{file}.safetensors") for n in (f"{of}-1", f"{name}-2")
        )
        assert one
        if file.endswith("optimiser"):
            require_same_state(two, one, n_steps=3)
        else:
            require_same_training(two, one, n_steps=3, **RATES)
    for file in ("config.json", f"checkpoints/{last}/config.json"):
        one_config, two_config = (
            json.loads((trained / f"{n}/{file}").read_text()) for n in (f"{of}-1", f"{name}-2")
        )
        assert one_config == two_config


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARDED)
def test_each_process_holds_its_part(name: str, trained: Path) -> None:
    of, shard = SHARDED[name]
    whole = int((trained / f"{of}-1/held-0").read_text())
    parts = [int((trained / f"{name}-2/held-{rank}").read_text()) for rank in range(2)]
    if not shard:
        assert parts == [whole, whole]
    elif shard == ("tables",):
        assert max(parts) < whole < sum(parts)
    elif name == "colake-layers":  # its table is whole in both
        assert max(parts) < 0.6 * whole
        assert sum(parts) > whole
    else:
        assert sum(parts) == whole
        assert max(parts) < 0.55 * whole


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARDED)
def test_their_log_is_that_of_one(name: str, trained: Path) -> None:
    of, shard = SHARDED[name]
    one, two = (read_log(trained / f"{n}/log.jsonl") for n in (f"{of}-1", f"{name}-2"))
    assert [(row["kind"], row["step"]) for row in one] == [
        (row["kind"], row["step"]) for row in two
    ]
    for mine, theirs in zip(one, two, strict=True):
        if mine["kind"] == "evaluation":
            assert theirs["scores"] == pytest.approx(mine["scores"], abs=1e-6)
            continue
        assert theirs["losses"] == pytest.approx(mine["losses"], rel=1e-3, abs=1e-5)
        for field in ("gradient_norm", "row_gradient_norm"):
            expected = mine[field]
            assert theirs[field] == (expected and pytest.approx(expected, rel=1e-3, abs=1e-6))
        norms = None if "layers" in shard else pytest.approx(mine["loss_gradient_norms"], rel=1e-3)
        assert theirs["loss_gradient_norms"] == norms


@pytest.mark.slow
@pytest.mark.parametrize("row_optimiser", ["adam", "adagrad"])
def test_any_number_of_processes_goes_on(
    row_optimiser: str, tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    fields = write_everything(tmp_path, small_graph)
    training = fields["training"] | {"schedule": "constant", "row_optimiser": row_optimiser}

    def run(steps: int, shard: tuple[str, ...] = ()) -> dict[str, Any]:
        return fields | {"training": training | {"steps": steps, "shard": shard}}

    def goes_on(first_run: str, name: str) -> None:
        shutil.copytree(tmp_path / first_run, tmp_path / name)

    run_all(write_runs(tmp_path / "one.json", {"half": run(2), "end": run(4)}))
    by_two(write_runs(tmp_path / "two.json", {"half": run(2, BOTH), "end": run(4, BOTH)}))
    goes_on("half-1", "from-one-2")
    goes_on("half-2", "from-two-2")
    goes_on("half-2", "from-two-1")
    twos = {"from-one": run(4, BOTH), "from-two": run(4, BOTH)}
    by_two(write_runs(tmp_path / "two.json", twos))
    run_all(write_runs(tmp_path / "one.json", {"from-two": run(4)}))

    def ends(name: str) -> dict[str, torch.Tensor]:
        return load_file(tmp_path / name / "checkpoints/step-00000004/model.safetensors")

    def states(name: str) -> dict[str, torch.Tensor]:
        return load_file(tmp_path / name / "checkpoints/step-00000004/optimiser.safetensors")

    expected, half = ends("end-1"), load_file(tmp_path / "half-1/model.safetensors")
    assert any(not torch.equal(expected[key], value) for key, value in half.items())
    for name in ("end-2", "from-one-2", "from-two-2", "from-two-1"):
        require_same_training(ends(name), expected, n_steps=4, **RATES)
        require_same_state(states(name), states("end-1"), n_steps=4)
    whole, resumed = (ends(name) | states(name) for name in ("end-2", "from-two-2"))
    assert all(torch.equal(resumed[key], value) for key, value in whole.items())


def test_what_is_large_is_made_whole_in_a_file_that_goes_with_it(tmp_path: Path) -> None:
    alone = Shards(
        torch.nn.Linear(1, 1), TrainConfig(steps=1, batch_size=1), Processes(),
        torch.device("cpu"), tmp_path / "checkpoints",
    )  # fmt: skip
    assert alone.whole({}) is None
    space = alone._space((600, 700), torch.float32)
    space.copy_(torch.arange(420_000.0).view(600, 700))
    assert float(space[1].sum()) == sum(range(700, 1400))
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert f"{tmp_path}/checkpoints/.step-" in maps.read_text()
    assert list((tmp_path / "checkpoints").iterdir()) == []
    with pytest.raises(WriteError, match=r"make room|may write to|raise the limit"):
        alone._space((1 << 30, 1 << 20), torch.float32)


def test_one_process_has_nothing_to_share_out(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    fields = write_everything(tmp_path, small_graph)
    flags = ["--kg", fields["kg"], "--text", fields["text"][0], "--host", fields["host"],
             "--steps", "1", "--batch-size", "2", "--shard", "tables"]  # fmt: skip
    ended = CliRunner().invoke(app, ["pretrain", *flags, "-o", str(tmp_path / "run")])
    assert ended.exit_code == 1
    assert "shard tables: there is one process" in ended.output
    assert "torchrun --nproc-per-node 2" in ended.output
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_shared_out_is_refused(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    fields = write_everything(tmp_path, small_graph)
    plain, _ = assemble(PretrainConfig.read(None, fields | {"method": "kbert"}))
    with pytest.raises(ConfigError, match=r"KBERT has no table with a row for each entity.*layers"):
        share_tables(plain, Processes(0, 2))
    options = {"options": {"sparse_entities": False}}
    dense, _ = assemble(PretrainConfig.read(None, fields | options))
    with pytest.raises(ConfigError, match=r"encoder\.entity_embeddings of CoLAKE has dense"):
        share_tables(dense, Processes(0, 2))
    for faulty in ({"shard": ["heads"]}, {"shard": ["layers"], "averaging": {
        "steps": 2, "distil": True}}):  # fmt: skip
        with pytest.raises(ConfigError, match=r"training\.shard"):
            PretrainConfig.read(None, fields | {"training": fields["training"] | faulty})


def test_every_method_with_a_row_for_each_entity_can_share_them(
    tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    fields = write_everything(tmp_path, small_graph)
    sharing = [
        name
        for name in METHODS
        if entity_tables(assemble(PretrainConfig.read(None, fields | {"method": name}))[0])
    ]
    assert sorted(sharing) == sorted([*WITH_TABLES, *NORMALISED, *DENSE])


def test_what_is_shared_out_is_of_the_command_not_of_the_run() -> None:
    config = TrainConfig(steps=1, batch_size=1, shard=("tables",))
    assert "shard" not in config.model_dump()
    assert "shard" not in binding(config)


@pytest.mark.parametrize("row_optimiser", ["adam", "adagrad"])
def test_a_forecast_of_a_part_holds(
    row_optimiser: Any, tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    config = TrainConfig(steps=1, batch_size=1, row_optimiser=row_optimiser, shard=("tables",))
    model, _ = assemble(PretrainConfig.read(None, write_everything(tmp_path, small_graph)))
    forecast = memory_forecast(model, config, n_processes=2)
    both = memory_forecast(
        model, config.model_copy(update={"shard": ("tables", "layers")}), n_processes=2
    )
    assert both.total < 0.51 * memory_forecast(model, config).total
    (table,) = share_tables(model, Processes(0, 2))
    weights = sum(each.nbytes for each in [*model.parameters(), *model.buffers()])
    assert 0 <= weights - forecast.weights < table.weight[0].nbytes  # 13 rows: 7 and 6
    table.weight.grad = torch.ones_like(table.weight)
    rows = make_optimisers(model, config)["rows"]
    rows.step()
    states = sum(value.nbytes for value in rows.state[table.weight].values())
    rest = forecast.optimiser - 2 * forecast.gradients
    assert 0 <= states - rest <= 3 * table.weight[0].nbytes


@pytest.mark.slow
def test_scores_and_adapters_of_a_command_are_those_of_one_process(
    tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    fields = write_everything(tmp_path, small_graph)
    without_dropout(Path(fields["host"]) / "config.json")
    task = runs_of(fields, tmp_path)[TASK] | {"dev_share": 0.8, "knowledge": "true", "link": True}
    task["graph"] = {"max_words": 16, "max_nodes": 32}  # a window holds "Paris" whole
    texts = [f"{'on'[i % 2]}\t{'old' if i % 2 else 'near'} Paris is {i}" for i in range(100)]
    Path(task["train"]).write_text("\n".join(texts), encoding="utf-8")
    task["training"] |= {"steps": 6, "evaluate_every": 3, "learning_rate": 0.01}
    adapter = fields | {"method": "kadapter", "training": fields["training"] | {"steps": 2}}
    for command, values in (("finetune", task), ("pretrain", adapter)):
        path = write_runs(tmp_path / f"{command}.yaml", values)  # JSON is YAML
        flags = [command, "-c", str(path), "-o"]
        ended = CliRunner().invoke(app, [*flags, str(tmp_path / f"{command}-1")])
        assert ended.exit_code == 0, ended.output
        shard = [
            word for part in SHARDED[f"{values['method']}-all"][1] for word in ("--shard", part)
        ]
        started = start(["-m", "kept", *flags, str(tmp_path / f"{command}-2"), *shard], 2)
        (code, output), (other, silent) = finish(started)
        assert (code, other) == (0, 0), output + silent
    one, two = (tmp_path / f"finetune-{n}" for n in (1, 2))
    assert 64 < json.loads((one / "metrics.json").read_text())["dev"]["n_scored"] <= 96  # 3 batches
    for name in ("metrics.json", ANSWERS):
        assert (two / name).read_text() == (one / name).read_text()
    scores = [
        [r["scores"] for r in read_log(run / "log.jsonl") if "scores" in r] for run in (one, two)
    ]
    assert len(scores[0]) == 2
    assert scores[0] == scores[1]
    one, two = (tmp_path / f"pretrain-{n}/adapters" for n in (1, 2))
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(two) for path in two.rglob("*") if path.is_file())
    (weights,) = (path for path in files if path.suffix == ".safetensors")
    trained = load_file(two.parent / "model.safetensors")
    for key, value in load_file(two / weights).items():  # a dropout of each process, not one's
        (same,) = (
            name
            for name in trained
            if name.startswith("encoder.adapters.") and name.endswith(f".{key}")
        )
        assert torch.equal(trained[same], value)


def without_dropout(config: Path) -> None:
    values = json.loads(config.read_text())
    values |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config.write_text(json.dumps(values))
