"""CommonsenseQA in small: one budget for the study and its positive control, which only a graph
answers."""

from __future__ import annotations

from pathlib import Path

from experiments.commonsense_questions.control import N_CHOICES, OCCUPATION, SIZES, write_control
from kept.lab.comparison.experiment import Experiment
from kept.tasks.datasets.formats import read_examples
from kg_loaders import KnowledgeGraph

FOLDER = Path(__file__).parents[2] / "experiments/commonsense_questions"
SMALL, CONTROL = FOLDER / "csqa_small.yaml", FOLDER / "csqa_control.yaml"
BUDGET = ("host", "freeze", "max_train", "max_asked", "graph", "training", "link")


def test_study_and_control_have_one_budget() -> None:
    small, control = Experiment.read(SMALL), Experiment.read(CONTROL)
    assert small.methods == control.methods
    assert {"none", "words", "kbert", "qagnn", "greaselm"} == {*small.methods}
    for name in BUDGET:
        assert small.task[name] == control.task[name], name
    for name in small.methods:
        rows = [plan.row(name) for plan in (small, control)]
        for part in ("graph", "view", "training", "options"):
            assert rows[0].get(part) == rows[1].get(part), (name, part)
    assert control.task["max_train"] <= SIZES["train"]


def test_only_the_graph_answers_the_control(tmp_path: Path) -> None:
    write_control(tmp_path)
    graph = KnowledgeGraph.open(tmp_path / "graph")
    facts = {
        (graph.entities.name(h), graph.relations.name(r), graph.entities.name(t))
        for h, r, t in graph.triples.tolist()
    }
    names: list[str] = []
    right = []
    for part, size in SIZES.items():
        examples = read_examples(tmp_path / f"{part}.jsonl", "lettered")
        assert len(examples) == size
        for example in examples:
            text, targets = example.linked.text, example.targets
            choices = [text[target.start : target.end] for target in targets]
            assert len(choices) == N_CHOICES
            bakers = [c for c in choices if (c, "works as", OCCUPATION) in facts]
            number = int(example.labels[0])
            assert bakers == [choices[number - 1]]
            names += choices
            right.append(number)
    assert len(set(names)) == len(names)  # nobody is in two questions
    counts = [right.count(number) for number in range(1, N_CHOICES + 1)]
    assert min(counts) > len(right) / N_CHOICES * 0.75
