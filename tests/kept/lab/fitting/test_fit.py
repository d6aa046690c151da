"""`kept fit`: four private worlds at a tiny budget, its folder, its resumption, its errors."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import kept
from kept.apps.cli import app
from kept.errors import CheckpointError, ConfigError, KeptError, TrainingError
from kept.hosts import load_tokenizer
from kept.lab.fitting import run as run_module
from kept.lab.fitting.data import as_fields, coverage, read_data
from kept.lab.fitting.options import FitOptions
from kept.lab.fitting.run import fit
from kept.lab.fitting.search import Candidate
from kept.model_files import seal_model
from kept.tasks.datasets.tables import read_labelled
from kept.training.finetuning.predictor import Predictor
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import ExistsError, WriteError
from tests.kept.lab.fitting.private_worlds import WORLDS

TINY = {"methods": "words", "budget": 0.001}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the world of roles, forty people."""
    WORLDS["roles"](40, 0).write(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", WORLDS)
def test_each_world_is_fitted_and_its_folder_opens(name: str, tmp_path: Path, host: Path) -> None:
    world = WORLDS[name](40, 0)
    kg, data = world.write(tmp_path)
    result = kept.fit(data, kg=kg, output=tmp_path / "run", host=str(host), **TINY)
    assert result["kind"] == {"relations": "relation", "tags": "tagging"}.get(name, "mention")
    stored = json.loads((tmp_path / "run/fit.json").read_text(encoding="utf-8"))
    assert stored["scores"] == result["scores"]
    assert set(stored["scores"]) >= {"chosen", "none", "majority"}
    assert stored["verdict"]["verdict"][1:] in repr(result)
    assert not (tmp_path / "run/search").exists()
    for file in (tmp_path / "run/data").iterdir():
        rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        mentions = [mention for row in rows for mention in row["mentions"]]
        assert max(len(mention.get("candidates") or ()) for mention in mentions) <= 3
    predictor = Predictor.from_pretrained(tmp_path / "run")
    first = read_labelled(data).examples[0]
    text, is_tagged = first.linked.text, result["kind"] == "tagging"
    targets = [] if is_tagged else [text[each.start : each.end] for each in first.targets]
    (labels,) = predictor.predict([kept.question(text, *targets)], kg)
    known = {label for row in world.rows for label in (row[-1].split() if is_tagged else row[-1:])}
    assert set(labels) <= known


def test_the_command_prints_scores_and_the_verdict(folder: Path, host: Path) -> None:
    arguments = [
        "fit", str(folder / "data.csv"), "--kg", str(folder / "kg"), "-o", str(folder / "run"),
        "--host", str(host), "--methods", "words", "--budget", "0.001",
    ]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "task: mention, " in done.output
    assert "always the most frequent answer" in done.output
    assert re.search(r"took .* reading and linking, .* choosing, .*forecast", done.output)
    assert (folder / "run/README.md").is_file()
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 1
    assert "give a new folder" in again.output


def test_what_predict_reads_of_a_fit_is_sealed(folder: Path, host: Path) -> None:
    """A finished run: other links or columns in fit.json are refused, trials are removed whole."""
    call = {"kg": folder / "kg", "output": folder / "run", "host": str(host), **TINY}
    kept.fit(folder / "data.csv", **call)
    path = folder / "run/fit.json"
    whole = path.read_bytes()
    method = b'"link_method": "prior"'
    assert method in whole
    path.write_bytes(whole.replace(method, b'"link_method": "dense"'))
    with pytest.raises(CheckpointError, match=r"fit\.json was altered"):
        Predictor.from_pretrained(folder / "run")
    path.write_bytes(whole)
    Predictor.from_pretrained(folder / "run")
    (folder / "run/.search.part").mkdir()  # as a process leaves it that died while it removed them
    with pytest.raises(ExistsError, match="its run of kept fit is finished; give a new folder"):
        kept.fit(folder / "data.csv", **call)
    assert not (folder / "run/.search.part").exists()


def test_a_fit_that_died_before_it_wrote_anything_begins_anew(folder: Path, host: Path) -> None:
    (folder / "run/search").mkdir(parents=True)
    call = {"kg": folder / "kg", "output": folder / "run", "host": str(host), **TINY}
    assert kept.fit(folder / "data.csv", **call)["kind"] == "mention"


def test_an_interrupted_fit_goes_on_with_the_trials_it_has(
    folder: Path, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = FitOptions.read(None, {
        "data": folder / "data.csv", "kg": folder / "kg", "output": folder / "run",
        "host": str(host), "methods": "words", "budget": 0.001,
    })  # fmt: skip
    real, trained = run_module.train, []

    def killed(*args: Any, **settings: Any) -> Any:
        trained.append(args[3])
        if len(trained) == 2:
            raise KeyboardInterrupt
        return real(*args, **settings)

    monkeypatch.setattr(run_module, "train", killed)
    with pytest.raises(KeyboardInterrupt):
        fit(options)
    first = (folder / "run/search/none-1-40.json").read_bytes()
    result = fit(options)
    assert trained.count(folder / "run/search/none-1-40") == 1
    assert json.loads(first)["score"] == result.trials[0].score
    assert result.trials[0].candidate == Candidate("none")


def test_an_unfinished_fit_of_other_options_is_refused(folder: Path, host: Path) -> None:
    fields = {
        "data": folder / "data.csv", "kg": folder / "kg", "output": folder / "run",
        "host": str(host),
    }  # fmt: skip
    (folder / "run/search").mkdir(parents=True)
    options = FitOptions.read(None, fields)
    request = run_module.request_of(options) | {"seed": 7}
    (folder / "run/search/options.json").write_text(json.dumps(request), encoding="utf-8")
    with pytest.raises(ExistsError, match="an unfinished run with other options"):
        fit(options)


def test_a_table_with_other_columns_names_them_and_leaves_the_folder_free(
    folder: Path, host: Path
) -> None:
    text = (folder / "data.csv").read_text(encoding="utf-8")
    (folder / "other.csv").write_text(text.replace("label", "role", 1), encoding="utf-8")
    call = {"kg": folder / "kg", "output": folder / "run", "host": str(host), **TINY}
    with pytest.raises(ConfigError, match=r"no column for label: its columns are .*role") as caught:
        kept.fit(folder / "other.csv", **call)
    assert "--column label=role" in str(caught.value)
    assert kept.fit(folder / "other.csv", column={"label": "role"}, **call)["kind"] == "mention"


def test_the_run_knows_the_columns_that_it_was_given_by_name(folder: Path, host: Path) -> None:
    header, *rows = (folder / "data.csv").read_text(encoding="utf-8").splitlines()
    renamed = header.replace("text", "sentence").replace("mention", "who")
    (folder / "mine.csv").write_text("\n".join([renamed, *rows]), encoding="utf-8")
    call = {"kg": folder / "kg", "output": folder / "run", "host": str(host), **TINY}
    kept.fit(folder / "mine.csv", column={"text": "sentence", "mention": "who"}, **call)
    (folder / "new.csv").write_text("\n".join([renamed, *rows[:3]]), encoding="utf-8")
    (folder / "usual.csv").write_text("\n".join([header, *rows[:3]]), encoding="utf-8")
    predictions = [
        [
            row["prediction"]
            for row in kept.predict(folder / "run", folder / name, folder / "kg").rows
        ]
        for name in ("new.csv", "usual.csv")
    ]
    assert predictions[0] == predictions[1]
    assert len(predictions[0]) == 3
    stored = json.loads((folder / "run/fit.json").read_text(encoding="utf-8"))
    stored["data"]["columns"] = {"text": 3}
    (folder / "run/fit.json").write_text(json.dumps(stored), encoding="utf-8")
    seal_model(folder / "run")
    with pytest.raises(CheckpointError, match="are not names by use"):
        kept.predict(folder / "run", folder / "new.csv", folder / "kg")


def test_all_faults_of_a_call_are_named_at_once(folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        kept.fit(folder / "data.csv", kg=folder / "kg", linker="best", budget=-1.0)
    assert "budget" in str(caught.value)
    assert "linker" in str(caught.value)


def test_too_few_examples_are_refused_with_a_remedy(folder: Path) -> None:
    (folder / "few.csv").write_text("text,label\na b,x\nc d,y\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="give more rows"):
        kept.fit(folder / "few.csv", kg=folder / "kg", output=folder / "run")


def rows(folder: Path, *lines: str, header: str = "text,label") -> Path:
    (folder / "rows.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return folder / "rows.csv"


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("{i}.5", "24 different labels, all numbers: kept fit predicts classes; replace them by"),
        ("In year {i} it rained.", "are text and label interchanged"),
        ("x", "has 1 different label; at least 2 are needed"),
    ],
)
def test_labels_that_are_no_classes_are_refused(folder: Path, label: str, message: str) -> None:
    path = rows(folder, *[f"A day {i}.,{label.format(i=i)}" for i in range(24)])
    with pytest.raises(ConfigError, match=message):
        kept.fit(path, kg=folder / "kg", output=folder / "run", **TINY)


def test_rows_of_one_text_say_why_they_are_too_few(folder: Path) -> None:
    path = rows(folder, *[f"A day.,{'xy'[i % 2]}" for i in range(40)])
    with pytest.raises(ConfigError, match="40 rows of 1 different text or name give 0 training"):
        kept.fit(path, kg=folder / "kg", output=folder / "run", **TINY)


def test_tags_that_are_numbers_are_refused_and_labels_of_two_cases_said(folder: Path) -> None:
    path = rows(folder, *["Ada left .,1 0 0"] * 24, header="tokens,tags")
    with pytest.raises(ConfigError, match=r"the tags are numbers \(0, 1\); write their names"):
        kept.fit(path, kg=folder / "kg", output=folder / "run", **TINY)
    path = rows(folder, *[f"A day {i}.,{'xXy'[i % 3]}" for i in range(30)])
    options = FitOptions.read(None, {"data": path, "kg": folder / "kg", **TINY})
    notes = read_data(options, KnowledgeGraph.open(folder / "kg")).notes
    assert notes[1] == "labels that differ by case alone: 'X' and 'x'"


@pytest.mark.parametrize("max_words", [16, 32, 64])
def test_texts_that_are_cut_are_counted_on_the_screen(
    max_words: int, folder: Path, host: Path
) -> None:
    """As many as have more pieces than fit between the first and the last, of the training texts
    for the model that is chosen and its rivals; the remedy only where the host reads more."""
    lines = (folder / "data.csv").read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(lines))
    for number, n_words in enumerate((20, 50, 70)):
        rows[number]["text"] += " old" * n_words
    splits = ["train"] * 3 + ["dev", "test", "train"] * len(rows)
    rows = [row | {"part": split} for row, split in zip(rows, splits, strict=False)]
    with (folder / "data.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    arguments = [
        "fit", str(folder / "data.csv"), "--kg", str(folder / "kg"), "-o", str(folder / "run"),
        "--host", str(host), "--methods", "none", "--budget", "0.001", "--column", "split=part",
        "--max-words", str(max_words),
    ]  # fmt: skip
    ended = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    assert ended.exit_code == 0, ended.output
    tokenizer = load_tokenizer(host)
    texts = [row["text"] for row in rows if row["part"] == "train"]
    n_cut = sum(len(tokenizer(text)["input_ids"]) > max_words for text in texts)
    assert n_cut
    words = f"train: {n_cut} of {len(texts)} texts cut at {max_words} word pieces"
    (line,) = [line for line in ended.output.splitlines() if words in line]
    assert line.endswith(
        "the language model reads no longer texts: give parts of them"
        if max_words == 64
        else "--max-words 64 reads more"
    )


DAMAGED = {
    "empty": b"",
    "cut": b'{"seed": ',
    "NUL": bytes(40),
    "nested": b'{"a":' * 100_000,
    "no encoding": b'{"\xff": 1}',
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_part_of_an_unfinished_fit_is_named(
    damage: str, folder: Path, host: Path
) -> None:
    options = FitOptions.read(None, {
        "data": folder / "data.csv", "kg": folder / "kg", "output": folder / "run",
        "host": str(host),
    })  # fmt: skip
    (folder / "run/search").mkdir(parents=True)
    (folder / "run/search/options.json").write_bytes(DAMAGED[damage])
    with pytest.raises(CheckpointError, match=r"options\.json of an unfinished fit is damaged"):
        fit(options)
    with pytest.raises(CheckpointError, match=r"is damaged .*; remove .*run, and fit again"):
        run_module.stored_part(folder / "run/search/options.json")
    shutil.rmtree(folder / "run")
    run_module.refuse_foreign(folder / "run", options)


def test_parts_of_an_unfinished_fit_are_no_pipes(folder: Path) -> None:
    os.mkfifo(folder / "trial.json")
    with pytest.raises(KeptError):
        run_module.stored_part(folder / "trial.json")


def test_a_full_disk_is_no_outcome_of_a_candidate(
    folder: Path, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops the fit; with room again the same command trains what the disk did not take."""
    options = FitOptions.read(None, {
        "data": folder / "data.csv", "kg": folder / "kg", "output": folder / "run",
        "host": str(host), "methods": "none", "budget": 0.001,
    })  # fmt: skip

    def full(*args: Any, **settings: Any) -> None:
        raise CheckpointError("step-00000040 could not be written") from WriteError("no room")

    def diverged(*args: Any, **settings: Any) -> None:
        raise TrainingError("the loss is nan")

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "train", full)
        with pytest.raises(CheckpointError, match="could not be written"):
            fit(options)
        assert [path.name for path in (folder / "run/search").iterdir()] == ["options.json"]
        patched.setattr(run_module, "train", diverged)
        with pytest.raises(ConfigError, match="no candidate could be trained: the loss is nan"):
            fit(options)


def test_surnames_and_inflected_names_are_linked_in_fit_and_in_predictions(tmp_path: Path) -> None:
    kg, data = WORLDS["surnames"](40, 0).write(tmp_path)
    graph = KnowledgeGraph.open(kg)
    fit_data = read_data(FitOptions(data=data, kg=kg), graph)
    assert coverage(fit_data.splits["train"], "mention", graph).linked > 0.9
    assert as_fields(fit_data)["links_given"] is True


def test_a_run_links_given_mentions_as_its_training_did(tmp_path: Path, host: Path) -> None:
    kg, data = WORLDS["surnames"](40, 0).write(tmp_path)
    kept.fit(data, kg=kg, output=tmp_path / "run", host=str(host), **TINY)
    predictor = Predictor.from_pretrained(tmp_path / "run")
    graph, example = KnowledgeGraph.open(kg), read_labelled(data).examples[0]
    (linked,) = predictor._examples([example], graph, None)
    assert [link.mention for link in linked.linked.links if link.entity] == [*example.targets]
    predictor.links_given = False  # a run of kept finetune
    (linked,) = predictor._examples([example], graph, None)
    assert not any(link.entity for link in linked.linked.links)
