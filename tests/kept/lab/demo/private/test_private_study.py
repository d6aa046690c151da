"""The private chapter: runs under four conditions, changes of the graph, its part of the page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import pytest

from kept.errors import CheckpointError, ConfigError
from kept.lab.demo.private.changes import after_changes, with_wrong_facts
from kept.lab.demo.private.page import private_sections
from kept.lab.demo.private.study import CONDITIONS, PrivateConfig, PrivateResult, run_private
from kept.lab.demo.private.world import company
from kept.tasks.datasets.example import TaskExample
from kept.training.finetuning.predictor import Explanation, Influence
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import tiny_host

CONFIG = PrivateConfig(
    host="tiny",
    arm="kbert-mention",
    seeds=(0, 1),
    n_layers=2,
    steps=2,
    batch_size=8,
    learning_rate=1e-3,
    warmup_steps=0,
    threads=1,
    n_test=12,
    n_new=8,
    n_explained=2,
)


class Reader:
    """Answers what the graph says: the first or the last role of who is asked about."""

    def __init__(self, answer_index: int) -> None:
        self.answer_index = answer_index

    def predict(
        self, examples: Sequence[TaskExample], graph: KnowledgeGraph
    ) -> list[tuple[str, ...]]:
        return [(self.answer(self.rows(e, graph), graph),) for e in examples]

    def explain(self, example: TaskExample, graph: KnowledgeGraph) -> Explanation:
        rows = self.rows(example, graph)
        label = self.answer(rows, graph)
        without = {row: self.answer([r for r in rows if r != row], graph) for row in rows}
        influences = [
            Influence("fact", f"row {row}", row, 0, 0.0, float(answer != label), answer)
            for row, answer in without.items()
        ]
        ordered = tuple(sorted(influences, key=lambda one: -one.change))
        return Explanation(example.linked.text, label, label, {label: 1.0}, ordered)

    def rows(self, example: TaskExample, graph: KnowledgeGraph) -> list[int]:
        linked = {link.entity for link in example.linked.links if link.mention in example.targets}
        relation = graph.relations.find("works as")
        return [
            row
            for row, (head, relation_of_row, _) in enumerate(graph.triples.tolist())
            if relation_of_row == relation and graph.entities.name(head) in linked
        ]

    def answer(self, rows: Sequence[int], graph: KnowledgeGraph) -> str:
        if not rows:
            return "nobody knows"
        return str(graph.label(int(graph.triples[rows[self.answer_index], 2])))


COMPANY = company(0, n_train=8, n_test=12, n_new=8)


def test_who_reads_the_graph_follows_it() -> None:
    outcome = after_changes(Reader(0), COMPANY, seed=0, n_explained=4)  # type: ignore[arg-type]
    assert (outcome.edited.n, outcome.edited.new, outcome.edited.old) == (12, 1.0, 0.0)
    assert outcome.edited.before.label == COMPANY.world.test[0].labels[0]
    assert outcome.edited.after.label != outcome.edited.before.label
    assert (outcome.added.n, outcome.added.without, outcome.added.accuracy) == (8, 0.0, 1.0)
    assert outcome.added.explanation.label == COMPANY.new[0].labels[0]


def test_a_wrong_fact_is_named_and_without_it_the_answer_is_right() -> None:
    graphs = COMPANY.world.graph, with_wrong_facts(COMPANY.world.graph, "works as", {"person8": 0})
    assert graphs[1].n_triples == graphs[0].n_triples + 1
    shares = []
    for answer_index in (0, -1):
        misled = after_changes(Reader(answer_index), COMPANY, seed=0, n_explained=4).misled  # type: ignore[arg-type]
        assert misled.wrong + misled.right == pytest.approx(1.0)
        if misled.n_explained:
            assert (misled.named, misled.restored) == (1.0, 1.0)
            assert misled.explanation is not None
        shares.append(misled.wrong)
    assert sum(shares) == pytest.approx(1.0)  # one of the two roles comes first


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> tuple[Path, PrivateResult]:
    folder = tmp_path_factory.mktemp("private")
    return folder, run_private(folder, CONFIG, announce=lambda _: None, opened=opener(tokenizer))


def opener(tokenizer: Any) -> Any:
    return lambda _: (tiny_host(n_words=len(tokenizer), n_positions=128), tokenizer)


def test_every_condition_and_seed_is_asked(run: tuple[Path, PrivateResult]) -> None:
    _, result = run
    assert set(result.right) == set(CONDITIONS)
    for seeds in result.right.values():
        assert [len(seed) for seed in seeds] == [12, 12]
    assert result.ceiling == 1.0
    for name in CONDITIONS:
        mean = sum(result.by_seed(name)) / 2
        assert result.accuracy(name).estimate == pytest.approx(mean)
        gain = sum(result.by_seed("true")) / 2 - mean
        assert result.gain(name).estimate == pytest.approx(gain)
    values = result.as_json()
    assert values["chance"] == 1 / 8
    assert set(values["true minus"]) == set(CONDITIONS) - {"true"}


def test_what_is_done_stays_done(run: tuple[Path, PrivateResult], tokenizer: Any) -> None:
    folder, result = run
    heard: list[str] = []

    def refused(_: Any) -> Any:
        raise AssertionError("nothing is left to train")

    again = run_private(folder, CONFIG, announce=heard.append, opened=refused)
    assert again.as_json() == result.as_json()
    assert not any("running" in each for each in heard)
    other = CONFIG.model_copy(update={"seeds": (0, 2)})
    heard.clear()
    run_private(folder, other, announce=heard.append, opened=opener(tokenizer))
    assert [each for each in heard if "running" in each] == [
        f"{condition}, seed 2: running" for condition in CONDITIONS
    ]


def test_a_damaged_answer_is_refused_by_name(
    run: tuple[Path, PrivateResult], tmp_path: Path
) -> None:
    stored = sorted((run[0] / "private").glob("*.json"))
    (tmp_path / "private").mkdir()
    for path in stored:
        (tmp_path / "private" / path.name).write_text("{}")
    with pytest.raises(
        CheckpointError, match=r"\.json is not a file of kept demo.*remove it and run again"
    ):
        run_private(tmp_path, CONFIG, announce=lambda _: None)


def test_the_page_shows_each_number(run: tuple[Path, PrivateResult]) -> None:
    folder, result = run
    text = "".join(f"{s.title}{''.join(s.blocks)}" for s in private_sections(result, folder))
    for name, described in CONDITIONS.items():
        n_right = sum(map(sum, result.right[name]))
        assert f"<td>{name}</td><td>{escape(described)}</td><td>{n_right} of 24</td>" in text
    assert f"{result.changes.edited.new:.1%} of the answers are the new role" in text
    assert f"{result.changes.added.accuracy:.1%} of the questions" in text
    assert f"{result.changes.misled.wrong:.1%} of the answers are the wrong role" in text
    assert "data:image/png" in text


def test_what_is_not_shown_is_not_claimed(run: tuple[Path, PrivateResult]) -> None:
    folder, result = run
    all_right = [[True] * 12] * 2
    known = {"true": all_right, "off": [[False] * 12, [i == 1 for i in range(12)]]}
    for right, is_shown in ((known, True), (dict.fromkeys(CONDITIONS, all_right), False)):
        outcome = dataclasses.replace(result, right=result.right | right)
        blocks = "".join(private_sections(outcome, folder)[0].blocks)
        assert ("not shown here" in blocks) != is_shown
        assert "(the rule of three)" in blocks
        assert "24 of 24" in blocks


def test_one_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="two or more different seeds"):
        PrivateConfig(**(CONFIG.model_dump() | {"seeds": (0,)}))
    with pytest.raises(ConfigError, match="two or more different seeds"):
        PrivateConfig.read(None, CONFIG.model_dump() | {"seeds": [1, 1]})
