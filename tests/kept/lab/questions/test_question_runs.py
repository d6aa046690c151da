"""Runs of questions on a tiny decoder: every row and condition, resuming, controls, edits."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from kept.decoders.learning import Training
from kept.decoders.trees import Continuation, LabelVectors
from kept.errors import CheckpointError, ConfigError, NoKnowledgeError
from kept.lab.questions import rows as table
from kept.lab.questions import training
from kept.lab.questions import trial as module
from kept.lab.questions.answering import is_right
from kept.lab.questions.pages.compared import tables
from kept.lab.questions.pages.page import to_json, to_markdown, write_page
from kept.lab.questions.plan import ABSENT, EDITED, TEST
from kept.lab.questions.readers import Reader, TreeReader
from kept.lab.questions.rows import ROWS, Row
from kept.lab.questions.showing import CONDITIONS, ItemSet, ShownItem
from kept.lab.questions.training import NoTraining
from kept.lab.questions.training_context import TrainingContext
from kept.lab.questions.trial import QuestionTrial
from kept.lab.study import run as engine
from kept.lab.study.design import RunKey
from kept.lab.study.run import RunOutcome, Study, run_missing, stored_outcome
from kept.lab.study.store import RECORDS, read_records
from kept.training.finetuning.answers import ANSWERS, Answer, read_answers
from kept.training.log import StepRecord
from tests.kept.tiny_chat import WordVectors
from tests.kept.tiny_questions import SMALL, plan_of, write_decoder

CONTROLS = CONDITIONS[1:]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("decoder"))


@pytest.fixture(autouse=True)
def word_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HostSentenceEncoder", lambda name: WordVectors())


class RecordingReporter:
    """A reporter of steps and notices."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.notices: list[str] = []

    def step(self, record: StepRecord) -> None:
        self.steps.append(record.step)

    def notice(self, message: str) -> None:
        self.notices.append(message)


def run_all_of(runs: Study[QuestionTrial], seeds: int = 1) -> RunOutcome:
    runs.folder.mkdir(exist_ok=True)
    return run_missing(runs, methods=runs.trial.rows, controls=CONTROLS, seeds=seeds)


def answers(runs: Study[QuestionTrial], key: RunKey, name: str = TEST) -> list[Answer]:
    return read_answers(runs.folder / runs.of(key).name / ANSWERS, name)


def test_every_row_under_every_condition(host: Path, tmp_path: Path) -> None:
    assert set(SMALL) == set(ROWS), "a row without a test"
    trained = RecordingReporter()
    runs = Study(QuestionTrial(plan_of(host), tmp_path, tmp_path / "runs", reporter=trained))
    outcome = run_all_of(runs, seeds=2)
    assert not outcome.missing
    assert not outcome.left_out
    assert len(outcome.done) == 2 * (1 + len(ROWS) * len(CONDITIONS))
    for key, record in outcome.done.items():
        name = key.method
        sets = {TEST} if name == "none" or key.knowledge != "true" else {TEST, EDITED, ABSENT}
        sets -= {ABSENT} if name in ("lora", "adapter") else set()
        assert set(record.scores) == sets, key
        assert all(len(answers(runs, key, each)) == 6 for each in sets)
        copied = key.knowledge == "off" and name in ROWS and ROWS[name].off_is_host
        assert ("same_as" in record.costs) == copied, key
        trains = name in ROWS and ROWS[name].trains != "nothing"
        other = runs.of(dataclasses.replace(key, seed=1 - key.seed)).name
        assert (other == record.run) != (trains and True), key
    tables_ = tables(runs.trial, outcome)
    page = to_markdown(tables_, "the command")
    for name in ROWS:
        assert page.count(f"\n| {name} |") >= 4
    assert "as none" in page
    assert "A control is evaluated, not trained" in page
    family = [pair for each in tables_.measures.values() for pair in each.pairs]
    least = min(family, key=lambda pair: pair.effect.p)
    assert least.holm == pytest.approx(min(1.0, least.effect.p * len(family)))
    numbers = to_json(tables_)
    assert numbers["measures"]["chosen"]["words"]["true"]["n"] == 6
    assert set(numbers["edited"]["exact"]) == set(ROWS)
    assert 0 < tables_.chance < 1
    for path in write_page(tables_, tmp_path / "page.html"):
        assert path.stat().st_size > 50
    steps = len(trained.steps)
    again = run_all_of(Study(dataclasses.replace(runs.trial)), seeds=2)
    assert {key: record.run for key, record in again.done.items()} == {
        key: record.run for key, record in outcome.done.items()
    }
    assert len(trained.steps) == steps > 0
    for folder in (runs.folder / "pretrained").glob("*/training"):
        assert {path.name for path in folder.iterdir()} == {"log.jsonl", "curves.png"}


def test_a_run_that_was_killed_goes_on_and_nothing_is_made_twice(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(host, methods={name: SMALL[name] for name in ("words-lora", "lora")})
    trained: list[str] = []
    for name in ("reading", "remembering"):
        real = getattr(training, name)

        def counted(*arguments: object, _real: object = real, _name: str = name) -> Training:
            trained.append(_name)
            return _real(*arguments)  # type: ignore[operator,no-any-return]

        monkeypatch.setattr(f"kept.lab.questions.making.{name}", counted)
    whole = run_all_of(Study(QuestionTrial(plan, tmp_path, tmp_path / "whole")))
    n_trained = len(trained)
    assert trained == ["reading"] + ["remembering"] * 3  # true, shuffled, another's

    class Killed(BaseException):
        pass

    runs = Study(QuestionTrial(plan, tmp_path, tmp_path / "killed"))
    real_write, left = engine.write_answers, [3]

    def dying(*arguments: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        real_write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "write_answers", dying)
    with pytest.raises(Killed):
        run_all_of(runs)
    before = read_records(runs.folder)
    assert len(before) == 3
    trained.clear()
    monkeypatch.setattr(engine, "write_answers", real_write)
    outcome = run_all_of(Study(QuestionTrial(plan, tmp_path, tmp_path / "killed")))
    assert len(trained) == n_trained - 1  # the reader's weights were there
    assert len((runs.folder / RECORDS).read_bytes().splitlines()) == len(outcome.done)
    for key in outcome.done:
        theirs = answers(Study(QuestionTrial(plan, tmp_path, tmp_path / "whole")), key)
        assert answers(runs, key) == theirs
    assert stored_outcome(runs).done.keys() == whole.done.keys()


STOPPED = {
    "words-lora": ("words-lora", {"n_steps": 4, "batch_size": 4}, 2),
    "a prompt's words": ("soft-prompt", {**SMALL["soft-prompt"], "n_aligned": 4}, 2),
    "a prompt's answers": ("soft-prompt", {**SMALL["soft-prompt"], "n_aligned": 4}, 5),
    "lora": ("lora", {"n_epochs": 4}, 2),
    "adapter": ("adapter", {**SMALL["adapter"], "n_epochs": 4}, 2),
    "kblam's alignment": ("kblam", SMALL["kblam"], 2),
    "kblam": ("kblam", SMALL["kblam"], 5),
}
"""A row with its options, and after how many steps of all its trainings it is stopped."""


@pytest.mark.parametrize("name", STOPPED)
def test_a_training_that_was_stopped_goes_on_to_the_same_weights(
    name: str, host: Path, tmp_path: Path
) -> None:
    row, options, n_steps = STOPPED[name]
    plan, key = plan_of(host, methods={row: options}), RunKey(row, "true", 0)
    whole = Study(QuestionTrial(plan, tmp_path, tmp_path / "whole", reporter=RecordingReporter()))
    whole.folder.mkdir()
    assert whole.run(key) is not None
    reporter = RecordingReporter()
    runs = Study(
        dataclasses.replace(
            whole.trial, folder=tmp_path / "stopped", reporter=reporter,
            should_stop=lambda: len(reporter.steps) >= n_steps,
        )
    )  # fmt: skip
    runs.folder.mkdir()
    assert runs.run(key) is None
    assert runs.record(key) is None
    assert len(reporter.steps) == n_steps
    rest = Study(
        dataclasses.replace(runs.trial, reporter=RecordingReporter(), should_stop=lambda: False)
    )
    assert rest.run(key) is not None
    assert isinstance(whole.trial.reporter, RecordingReporter)
    assert isinstance(rest.trial.reporter, RecordingReporter)
    assert reporter.steps + rest.trial.reporter.steps == whole.trial.reporter.steps
    assert any("resumed from" in notice for notice in rest.trial.reporter.notices)
    kind = "trained/kblam" if row == "kblam" else "weights"
    weights = [
        sorted(each.folder.glob(f"pretrained/*/{kind}.safetensors")) for each in (whole, rest)
    ]
    assert len(weights[0]) == 1
    for one, other in zip(*weights, strict=True):
        mine, theirs = load_file(one), load_file(other)
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[each], theirs[each]) for each in mine)
    assert answers(rest, key) == answers(whole, key)


def copier(shop: TrainingContext, options: NoTraining) -> Reader:
    """What copies the asked fact's value from words in view, and nothing where there is none."""

    def read(
        items_shown: ItemSet, items: Sequence[ShownItem], n_new: int
    ) -> tuple[Continuation, int]:
        tokenizer, words, scores = shop.prompting.tokenizer, [], []
        for each in items:
            text = shop.prompting.in_words(items_shown.questions, each.item, each.entity).text
            before = f"{each.item.begin} "
            value = text.split(before)[1].split(".")[0] if text.count(before) else ""
            ids = tokenizer(f" {value}." if value else ".")["input_ids"][:n_new]
            logits = torch.zeros(len(tokenizer))
            logits[ids[0]] = 1.0
            scores.append(logits)
            words.append(ids + [tokenizer.pad_token_id] * (n_new - len(ids)))
        return Continuation(torch.tensor(words), torch.stack(scores)), 1

    return read


def test_a_row_that_copies_follows_edits_and_controls(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The positive control: what a comparison must show of a row that reads every fact."""
    row = Row(about="copies", options=NoTraining, make=copier, trains="nothing", off_is_host=True)
    monkeypatch.setattr(table, "ROWS", {**ROWS, "copy": row})
    runs = Study(QuestionTrial(plan_of(host, methods={"copy": {}}), tmp_path, tmp_path / "runs"))
    outcome = run_all_of(runs)
    tables_ = tables(runs.trial, outcome)
    for measure in ("exact", "chosen"):
        rows = {row.knowledge: row.score.estimate for row in tables_.measures[measure].rows}
        assert rows["true"] == 1.0
        assert max(rows["shuffled"], rows["random-entity"], rows["off"]) < 0.6
        assert tables_.edited[measure].rows[0].score.estimate == 1.0
    gone = answers(runs, RunKey("copy", "true", 0), ABSENT)
    assert not any((each.counts or {})["exact"][0] for each in gone)  # nothing is in view there
    true, edited = (answers(runs, RunKey("copy", "true", 0), name) for name in (TEST, EDITED))
    for before, after in zip(true, edited, strict=True):
        assert not set(before.gold) & set(after.gold)
        assert is_right(after.predicted[0], after.gold[0])
        assert not is_right(after.predicted[0], before.gold[0])


def test_controls_show_other_facts(host: Path, tmp_path: Path) -> None:
    runs = Study(QuestionTrial(plan_of(host), tmp_path, tmp_path / "runs"))
    reader = TreeReader(runs.trial.host, runs.trial.prompting, "words")
    texts = {
        kind: [
            reader.prompting.in_words(each.questions, one.item, one.entity).text
            for one in each.items
        ]
        for kind in CONDITIONS
        for each in (module.items_under(runs.trial.test_questions, kind, 0),)
    }
    assert all(len(set(texts)) == 6 for texts in texts.values())
    for kind in CONTROLS:
        assert all(a != b for a, b in zip(texts["true"], texts[kind], strict=True)), kind
    assert all(
        text == reader.prompting.text(item, None).text
        for text, item in zip(texts["off"], runs.trial.test_questions.items, strict=True)
    )


def test_vectors_of_labels_are_made_once_for_a_graph_and_its_controls(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Study(QuestionTrial(plan_of(host), tmp_path, tmp_path / "runs"))
    real, n_made = LabelVectors.of.__func__, list[int]()  # type: ignore[attr-defined]

    def counted(cls: type[LabelVectors], *arguments: object) -> LabelVectors:
        n_made.append(1)
        return real(cls, *arguments)  # type: ignore[no-any-return]

    monkeypatch.setattr(LabelVectors, "of", classmethod(counted))
    reader = TreeReader(runs.trial.host, runs.trial.prompting, "nodes")
    for kind in ("true", "shuffled"):
        each = module.items_under(runs.trial.test_questions, kind, 0)  # type: ignore[arg-type]
        reader(each, each.items[:2], 1)
    assert len(n_made) == 1
    train = module.items_under(runs.trial.sets[0], "true", 0)  # labels of its own
    reader(train, train.items[:2], 1)
    assert len(n_made) == 2


@pytest.mark.parametrize(("controls", "n"), [("asked", 1), ("trained", 3)])
def test_controls_are_asked_or_trained(host: Path, tmp_path: Path, controls: str, n: int) -> None:
    methods = {"words-lora": SMALL["words-lora"]}
    runs = Study(
        QuestionTrial(
            plan_of(host, methods=methods, controls=controls), tmp_path, tmp_path / "runs"
        )
    )
    outcome = run_missing(runs, methods=runs.trial.rows, controls=("off", "shuffled"), seeds=1)
    assert not outcome.missing
    weights = list((runs.folder / "pretrained").glob("*/weights.safetensors"))
    assert len(weights) == n
    page = to_markdown(tables(runs.trial, outcome), "command")
    assert ("A control is evaluated, not trained" in page) == (controls == "asked")


def test_faults_are_named(host: Path, tmp_path: Path) -> None:
    runs = Study(QuestionTrial(plan_of(host), tmp_path, tmp_path))
    with pytest.raises(ConfigError, match="with knowledge true, off, shuffled, random-entity, not"):
        runs.trial.require(RunKey("words", "redrawn", 0))
    with pytest.raises(ConfigError, match="there is no row 'word'; did you mean words"):
        runs.trial.require(RunKey("word", "true", 0))
    with pytest.raises(ValueError, match="there is no row of questions 'prompt'; did you mean"):
        plan_of(host, methods={"prompt": {}})
    with pytest.raises(ValueError, match="n_step: extra inputs are not permitted"):
        plan_of(host, methods={"words-lora": {"n_step": 3}})
    few = plan_of(host, max_facts=1, questions={"world": "company", "n_train": 4, "n_test": 4})
    with pytest.raises(NoKnowledgeError, match="raise max_facts"):
        _ = dataclasses.replace(runs.trial, questions=few).test_questions
    with pytest.raises(CheckpointError, match="remove its folder"):
        runs.trial.counted([], tmp_path)


def test_a_record_that_names_its_settings(host: Path, tmp_path: Path) -> None:
    plan = plan_of(host, methods={"words": {}})
    runs = Study(QuestionTrial(plan, tmp_path, tmp_path / "runs"))
    run_all_of(runs)
    line = json.loads((runs.folder / RECORDS).read_text().splitlines()[0])
    assert line["settings"]["task"] == "questions"
    assert line["settings"]["chat"] == "chatml"
    shorter = plan.model_copy(update={"n_new": 1})
    other = Study(dataclasses.replace(runs.trial, questions=shorter))
    key = RunKey("words", "true", 0)
    assert runs.of(key).name != other.of(key).name
    assert other.record(key) is None
