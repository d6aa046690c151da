"""Several processes train decoders as one does, and put questions to them together."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.lab.study.store import RECORDS, read_records
from kept.training.finetuning.answers import ANSWERS
from kept.training.log import read_log
from kept.training.loop import Resume, train
from tests.kept.rounding import of_run, require_same_state, require_same_training
from tests.kept.tiny_questions import SMALL, plan_of, write_decoder
from tests.kept.training.test_processes import finish, start
from tests.kept.training.tiny_pretraining import write_host
from tests.kept.training.train_decoders import KINDS, run_all, training_of

SCRIPT = Path(__file__).with_name("train_decoders.py")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("decoder"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, host: Path) -> Path:
    """Every training by this process alone, and by two, with and without the layers shared out."""
    folder = tmp_path_factory.mktemp("trained")
    started = start([str(SCRIPT), str(host), str(folder)], 2)
    run_all(host, folder)
    for code, output in finish(started):
        assert code == 0, output
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("how", ["2", "layers"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_end_with_the_weights_of_one(kind: str, how: str, trained: Path) -> None:
    one, two = trained / f"{kind}-1", trained / f"{kind}-{how}"
    last = max(path.name for path in (one / "checkpoints").glob("step-*"))
    before = load_file(one / "checkpoints/step-00000002/model.safetensors")
    for name in ("model", f"checkpoints/{last}/model", f"checkpoints/{last}/optimiser"):
        mine, theirs = (load_file(each / f"{name}.safetensors") for each in (one, two))
        assert mine.keys() == theirs.keys()
        assert name.endswith("optimiser") or any(
            not torch.equal(mine[key], before[key]) for key in mine
        )
        if name.endswith("optimiser"):
            require_same_state(theirs, mine, n_steps=int(last[5:]))
        else:
            require_same_training(theirs, mine, **of_run(one))
    logs = [read_log(each / "log.jsonl") for each in (one, two)]
    assert len(logs[0]) == len(logs[1]) == int(last[5:])
    for mine_row, their_row in zip(*logs, strict=True):
        assert their_row["losses"] == pytest.approx(mine_row["losses"], rel=1e-4, abs=1e-5)
        assert their_row["gradient_norm"] == pytest.approx(mine_row["gradient_norm"], rel=1e-3)
        assert their_row["epoch"] == mine_row["epoch"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_process_holds_its_part_and_checkpoints_what_is_trained(
    kind: str, trained: Path, host: Path
) -> None:
    whole = int((trained / f"{kind}-1/held-0").read_text())
    copies, parts = (
        [int((trained / f"{kind}-{how}/held-{rank}").read_text()) for rank in range(2)]
        for how in ("2", "layers")
    )
    assert copies == [whole, whole]
    assert sum(parts) == whole
    assert max(parts) < 0.6 * whole
    learner = training_of(kind, host).learner
    held = load_file(trained / f"{kind}-layers/model.safetensors")
    assert held.keys() == {name for name, p in learner.named_parameters() if p.requires_grad}
    if kind != "kblam-alignment":  # it has no host
        assert sum(value.numel() for value in held.values()) < whole


# ---- the command ---------------------------------------------------------------------------------
ROWS = ("words", "words-lora", "soft-prompt", "kblam", "lora", "adapter")


def command(folder: Path, host: Path, output: str, methods: dict[str, Any]) -> list[str]:
    """`kept compare` on twelve questions, which are two batches, of two processes one each."""
    plan = plan_of(host, methods=methods, vectors_from=str(folder / "encoder"))
    fields = plan.model_dump(mode="json", exclude={"primary", "pretraining"})
    fields["questions"] |= {"max_asked": 12}
    (folder / "plan.yaml").write_text(yaml.safe_dump(fields), encoding="utf-8")
    if not (folder / "encoder").exists():
        write_host(folder / "encoder")
    return [
        "compare", "--task", str(folder / "plan.yaml"), "-o", str(folder / output),
        "--controls", "off,shuffled", "--seeds", "1", "--threads", "1",
    ]  # fmt: skip


def require_the_same(one: Path, two: Path) -> None:
    """Runs with their scores, answers and weights."""
    mine, theirs = read_records(one), read_records(two)
    assert mine.keys() == theirs.keys()
    for name, record in mine.items():
        assert theirs[name].scores == record.scores, record
        assert theirs[name].costs["nodes"] == record.costs["nodes"]
        assert (two / name / ANSWERS).read_text() == (one / name / ANSWERS).read_text()
    weights = sorted((one / "pretrained").glob("*/**/*.safetensors"))
    assert [path.relative_to(one) for path in weights] == [
        path.relative_to(two) for path in sorted((two / "pretrained").glob("*/**/*.safetensors"))
    ]
    for path in weights:
        expected, actual = load_file(path), load_file(two / path.relative_to(one))
        if path.parent.name == "vectors":  # of texts: nothing was trained
            torch.testing.assert_close(actual, expected)
            continue
        folder = path.parent.parent if path.parent.name == "trained" else path.parent
        require_same_training(actual, expected, **of_run(folder))


@pytest.mark.slow
def test_two_processes_answer_what_one_answers(host: Path, tmp_path: Path) -> None:
    methods = {name: SMALL[name] for name in ROWS}
    methods["soft-prompt"] = {**methods["soft-prompt"], "n_aligned": 5}
    # in a hundred steps Adam makes 7e-4 of the rounding of gradients that are nearly 0
    ended = CliRunner().invoke(app, command(tmp_path, host, "one", methods))
    assert ended.exit_code == 0, ended.output
    words = ["-m", "kept", *command(tmp_path, host, "two", methods)]
    (code, output), (other, silent) = finish(start(words, 2))
    assert (code, other) == (0, 0), output + silent
    assert "tables in" in output
    assert "tables in" not in silent
    assert "soft-prompt" not in silent
    require_the_same(tmp_path / "one", tmp_path / "two")
    pages = [json.loads((tmp_path / name / "small.json").read_text()) for name in ("one", "two")]
    estimates = [
        {(measure, row, kind): (cell["estimate"], cell["low"], cell["high"])
         for measure, rows in page["measures"].items()
         for row, cells in rows.items()
         for kind, cell in cells.items()}
        for page in pages
    ]  # fmt: skip
    assert estimates[0] == estimates[1]
    records = (tmp_path / "two" / RECORDS).read_bytes()
    (code, output), (other, silent) = finish(start(words, 2))  # nothing is done twice
    assert (code, other) == (0, 0), output + silent
    assert (tmp_path / "two" / RECORDS).read_bytes() == records


@pytest.mark.slow
def test_a_comparison_that_was_stopped_and_killed_goes_on_to_the_same_end(
    host: Path, tmp_path: Path
) -> None:
    kblam = json.loads(json.dumps(SMALL["kblam"]))
    kblam["training"] |= {"n_steps": 40, "save_every": 4}
    methods = {"kblam": kblam}
    words = ["-m", "kept", *command(tmp_path, host, "two", methods)]

    def until(step: int, number: int) -> list[tuple[int | None, str]]:
        started = start(words, 2)
        pattern = f"pretrained/*/training/checkpoints/step-{step:08d}"
        while not [*(tmp_path / "two").glob(pattern)]:
            assert [process.poll() for process in started] == [None, None]
            time.sleep(0.01)
        started[1].send_signal(number)
        return finish(started)

    (code, output), (other, silent) = until(4, signal.SIGTERM)
    assert (code, other) == (0, 0), output + silent
    assert "runs are not finished; the same command resumes" in output
    (code, output), _ = until(20, signal.SIGKILL)
    assert code == 1
    assert "another process of this run has ended" in output
    assert "The same command goes on" in " ".join(output.split())
    (code, output), (other, silent) = finish(start(words, 2))
    assert (code, other) == (0, 0), output + silent
    assert "resumed from" in output
    ended = CliRunner().invoke(app, command(tmp_path, host, "one", methods))
    assert ended.exit_code == 0, ended.output
    require_the_same(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
@pytest.mark.parametrize("first_run", ["2", "layers"])
def test_one_process_goes_on_where_two_were(
    first_run: str, trained: Path, host: Path, tmp_path: Path
) -> None:
    for kind in ("words-lora", "kblam"):
        folder = tmp_path / kind
        shutil.copytree(trained / f"{kind}-{first_run}", folder)
        shutil.rmtree(folder / "checkpoints/step-00000003")
        learner, lessons, config = training_of(kind, host)
        ended = train(learner, lessons, config, folder, resume=Resume.IF_ANY)
        assert ended.first is not None
        assert ended.first.step == 3
        assert any("not bitwise the same" in notice for notice in ended.notices)
        expected = load_file(trained / f"{kind}-1/model.safetensors")
        weights = load_file(folder / "model.safetensors")
        require_same_training(weights, expected, **of_run(trained / f"{kind}-1"))
