"""Every arm under every condition on a tiny host: it runs, and what is measured is what it says."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch

from kept.errors import ConfigError
from kept.graphs.graph import NodeKind
from kept.lab.reading.arms import ARMS, TASK_NAMES, WITHOUT_CONTROL, arms_of, recipe_arms
from kept.lab.reading.cell import Budget, Cell
from kept.lab.reading.conditions import CONDITIONS
from kept.lab.reading.measures import gradient_norms, read_states
from kept.lab.reading.study import run_cell
from kept.lab.reading.tables import to_markdown
from kept.lab.reading.trial import ReadingTrial, with_facts
from kept.lab.reading.worlds import TASKS, Size
from kept.methods import METHODS
from kept.training.finetuning.recipes import with_recipe
from tests.kept.tiny_hosts import tiny_host

SIZE = Size(n_train=16, n_test=8, n_returning=8)
BUDGET = Budget(steps=2, batch_size=4, every=1, warmup_steps=0)


def cell(arm: str, condition: str = "true", task: str | None = None, **budget: Any) -> Cell:
    """A cell of two steps."""
    return Cell(
        task=task or ARMS[arm].tasks[0],
        arm=arm,
        condition=condition,
        seed=0,
        size=SIZE,
        budget=dataclasses.replace(BUDGET, **budget),
    )


@pytest.fixture
def opened(tokenizer: Any) -> tuple[Any, Any]:
    return tiny_host(n_words=len(tokenizer), n_positions=128), tokenizer


def test_a_check_of_recipes_leaves_the_costly_measures_out(opened: Any) -> None:
    """The training and its answers are the same; a cell with measures keeps the hash it had."""
    full = cell("kbert-mention")
    lean = cell("kbert-mention", measures=False)
    with_measures, without = (run_cell(each, opened_copy(opened)) for each in (full, lean))
    assert without.curve == with_measures.curve
    assert without.accuracy == with_measures.accuracy
    measures = (without.probe, without.moved, without.gradients, without.edited)
    assert measures == (None, None, None, None)
    assert "measures" not in full.settings["budget"]
    assert lean.key != full.key
    page = to_markdown([without], "kept check reading --recipes")
    assert "kbert-mention" in page


def opened_copy(opened: Any) -> Any:
    """The same untrained host once more."""
    return copy.deepcopy(opened[0]), opened[1]


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_runs_and_tells_all(name: str, opened: Any) -> None:
    result = run_cell(cell(name), opened)
    assert result.stopped_at == 2
    assert [step for step, _ in result.curve] == [0, 1, 2]
    assert [step for step, _ in result.losses] == [1, 2]
    assert result.n == 8
    assert result.chance == 1 / 8
    assert 0 <= result.accuracy <= 1
    assert result.gradients is not None
    for norms in result.gradients:
        assert all(value >= 0 for value in norms.values())
        assert max(norms.values()) > 0
    if ARMS[name].tasks[0] in ("occupation", "description"):
        assert result.edited is not None
        assert result.moved is not None
        # in two layers ERNIE fuses at the last one alone, which no mark reads from; a text with one
        # link has no entities between, so that the papers' subgraphs hold that entity alone
        unmoved = ("ernie-published", "qagnn-published", "greaselm-published")
        assert (result.moved[0] > 0) == (name not in unmoved)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("name", ["kbert-mention", "colake-redrawn"])
def test_every_condition_runs(name: str, condition: str, opened: Any) -> None:
    result = run_cell(cell(name, condition), opened)
    assert result.condition == condition
    for measured in (result.probe, result.moved, result.gradients, result.edited):
        assert (measured is not None) == (condition == "true")


@pytest.mark.parametrize("task", TASKS)
def test_every_task_runs(task: str, opened: Any) -> None:
    result = run_cell(cell("kbert-mention", task=task), opened)
    assert result.edited is None or task not in ("relation", "two-hops")


def test_a_cell_comes_out_the_same_twice(tokenizer: Any) -> None:
    once, twice = (
        run_cell(
            cell("colake-published"),
            (tiny_host(n_words=len(tokenizer), n_positions=128), tokenizer),
        )
        for _ in range(2)
    )
    assert (once.curve, once.losses, once.probe) == (twice.curve, twice.losses, twice.probe)


def test_a_key_changes_with_whatever_decides_the_outcome() -> None:
    base = cell("kbert-published")
    changed = [
        cell("kbert-mention"),
        cell("kbert-published", "off"),
        cell("kbert-published", task="typing"),
        cell("kbert-published", steps=3),
        dataclasses.replace(base, seed=1),
        dataclasses.replace(base, size=Size(n_train=17, n_test=8)),
    ]
    assert len({base.key, *(each.key for each in changed)}) == 7
    assert base.key == cell("kbert-published").key


def test_what_cannot_be_run_is_refused() -> None:
    for fields, message in (
        ({"task": "occupations"}, "occupation"),
        ({"condition": "shufled"}, "shuffled"),
        ({"arm": "kbert-mentoin"}, "kbert-mention"),
        ({"task": "description"}, "does not take the task description"),
    ):
        with pytest.raises(ConfigError, match=message):
            Cell(**{"task": "occupation", "arm": "words", "condition": "true", "seed": 0, **fields})


def test_every_method_has_an_arm_as_published_or_a_reason() -> None:
    published = [arm.method for arm in ARMS.values() if arm.is_published]
    as_arm = ["words"]  # a change of K-BERT before it was a method
    assert sorted([*published, *WITHOUT_CONTROL, *as_arm]) == sorted(METHODS)
    for name, arm in ARMS.items():
        assert arm.is_published == (name == f"{arm.method}-published")


def test_every_method_that_reads_facts_with_a_text_has_a_recipe_arm() -> None:
    arms = recipe_arms()
    reading = [n for n, m in METHODS.items() if m.reads == "links" and n not in WITHOUT_CONTROL]
    assert list(arms) == [f"{name}-recipe" for name in reading]
    for name, arm in arms.items():
        recipe = METHODS[arm.method].recipe
        fields = {"task": "typing", "method": arm.method, "training": {"steps": 200}}
        filled = with_recipe(fields)
        assert filled["markers"] == arm.markers == "none"
        assert filled.get("head", "targets") == arm.head
        assert filled.get("head_options", {}) == arm.head_options
        assert (filled.get("options", {}), filled.get("view", {})) == (
            arm.options,
            arm.view,
        )
        assert {n: filled["training"][n] for n in arm.rates} == arm.rates
        assert recipe.examples is not None
        assert recipe.examples <= 200 * 16, name


def test_arms_by_name_and_by_method() -> None:
    assert arms_of(["all"]) == list(ARMS)
    assert arms_of(["words", "colake", "words"]) == [
        "words", "colake-published", "colake-anchor", "colake-redrawn",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="ernie"):
        arms_of(["erny"])
    assert {task for arm in ARMS.values() for task in arm.tasks} == {*TASK_NAMES}


def test_gradients_of_branches_are_those_of_a_backward_pass(opened: Any) -> None:
    """The norm at injected pieces, against a gradient taken from the table's own output."""
    trial = ReadingTrial.of(cell("words"), opened)
    data = trial.data(trial.world.train)
    norms = gradient_norms(trial.model, data, 4)
    samples = [data.sample(i, epoch=0, seed=0) for i in range(4)]
    batch = data.collate(samples, epoch=0, seed=0, step=0)
    table = trial.model.encoder.host.get_input_embeddings()
    table.requires_grad_(True)
    taken: list[torch.Tensor] = []
    hook = table.register_forward_hook(lambda _, __, vectors: taken.append(vectors))
    loss = trial.model.eval()(batch).losses["class"]
    hook.remove()
    (gradient,) = torch.autograd.grad(loss, taken)
    injected = (batch.node_kinds != NodeKind.WORD) & batch.node_mask
    assert bool(injected.any())
    assert norms["injected"] == pytest.approx(float(gradient[injected].norm()), rel=1e-4)
    assert norms["injected"] > 0


def test_the_read_state_is_that_of_the_target(opened: Any) -> None:
    trial = ReadingTrial.of(cell("kbert-mention"), opened)
    data = trial.data(trial.world.test)
    states, classes = read_states(trial.model, data, 3)
    sample = data.sample(2, epoch=0, seed=0)
    output = trial.model.eval()(data.collate([sample], epoch=0, seed=0, step=0))
    assert sample.target_spans is not None
    at = int(sample.target_spans[0, 0, 0])
    assert torch.allclose(states[2], output.node_states[0, at], atol=1e-5)
    assert classes[2] == trial.world.classes.index(trial.world.test[2].labels[0])


def test_hiding_facts_leaves_links_where_facts_are_read_with_them(opened: Any) -> None:
    for name, n_links in (("kbert", 1), ("colake", 1), ("ernie", 0), ("knowbert", 0)):
        hidden = ReadingTrial.of(cell(f"{name}-published"), opened).hidden()
        assert hidden is not None
        assert {len(e.linked.links) for e in hidden.examples} == {n_links}


def test_facts_are_changed_for_the_heads_that_are_named() -> None:
    world = TASKS["occupation"](SIZE, 0)
    edited = with_facts(world.graph, world.telling, {"H3": 5, "H0": 0})
    for name, wanted in (("H3", 5), ("H0", 0)):
        head = edited.entities.find(name)
        facts = {edited.relation_label(r): edited.label(t) for _, r, t in edited.outgoing(head)}
        assert facts["occupation"] == world.classes[wanted]
        assert len(facts) == 2
    untouched = edited.entities.find("H1")
    assert edited.outgoing(untouched).tolist() == world.graph.outgoing(untouched).tolist()


def test_a_host_is_cut_to_its_first_layers(monkeypatch: pytest.MonkeyPatch, opened: Any) -> None:
    from kept.lab.reading import cell as module

    monkeypatch.setattr(module.hosts, "load_host", lambda name: opened[0])
    monkeypatch.setattr(module.hosts, "load_tokenizer", lambda name: opened[1])
    host, _ = module.open_host(Budget(n_layers=1))
    assert len(host.encoder.layer) == host.config.num_hidden_layers == 1


def test_the_word_table_stands_still_unless_it_is_asked_for(opened: Any) -> None:
    for train_words in (False, True):
        trial = ReadingTrial.of(cell("kbert-published", train_words=train_words), opened)
        opened[0].requires_grad_(True)
        trial = ReadingTrial.of(cell("kbert-published", train_words=train_words), opened)
        table = trial.model.encoder.host.get_input_embeddings()
        assert table.weight.requires_grad == train_words
