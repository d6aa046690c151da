"""What a page of a comparison says of its runs and of its rows."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.items import item_traits
from kept.lab.comparison.report import _published, differences
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.study.comparison_tables import conditions, to_json, to_markdown
from kept.lab.study.design import PrimaryContrast, RunKey, planned_runs
from kept.lab.study.effects import finished, summarise
from kept.lab.study.judge import Judge
from kept.lab.study.run import RunOutcome, Study
from kept.lab.study.slices import KNOWLEDGE
from kept.lab.study.verdicts import headline
from kept.training.finetuning.answers import ANSWERS
from kg_loaders import KnowledgeGraph
from tests.kept.lab.comparison.written_runs import COSTS, N, experiment_of, write_run
from tests.kept.tiny_task_files import TOWNS


@pytest.mark.parametrize(
    ("ours", "theirs", "is_won"),
    [
        ("abc", "zza", None),  # one of three on both sides
        ("aab", "zza", True),
        ("abc", "zaa", False),
        ("ab", "zz", None),  # half is not most
        ("ab", "aa", False),
    ],
)
def test_won_is_right_in_more_than_half_of_the_seeds(
    ours: str, theirs: str, is_won: bool | None, data: Path, tmp_path: Path
) -> None:
    runs = Study(ComparisonTrial(experiment_of("tiny"), data, tmp_path))
    for name, knowledge, answers in (("kbert", "true", ours), ("none", "off", theirs)):
        for seed, answer in enumerate(answers):
            key = RunKey(name, knowledge, seed)  # type: ignore[arg-type]
            write_run(runs, key, [answer] + ["a"] * (N - 1))
    changed_items = differences(finished(runs), Judge(runs), "kbert")
    assert [(each.index, each.is_won) for each in changed_items] == [(0, is_won)][
        : is_won is not None
    ]
    if ours == "aab":
        answers_of_item = {
            "knowledge true": "a (2 of 3), b (1 of 3)",
            "none": "z (2 of 3), a (1 of 3)",
        }
        assert changed_items[0].answers == answers_of_item


def test_tags_are_right_word_by_word(data: Path, tmp_path: Path) -> None:
    lines = "".join(f"a{i}\tO\nb\tX\n\n" for i in range(3))
    (tmp_path / "tags.txt").write_text(lines, encoding="utf-8")
    file = str(tmp_path / "tags.txt")
    task = experiment_of("x").task | {"task": "tagging", "format": "conll", "keep_repeats": True}
    tagging = Experiment(
        name="tags", task=task | {"train": file, "dev": file}, methods={"kbert": {}}
    )
    runs = Study(ComparisonTrial(tagging, data, tmp_path))
    for key, tags in ((RunKey("none", "off", 0), "XO"), (RunKey("kbert", "true", 0), "OX")):
        record = write_run(runs, key, ["a"] * 2)
        row = {"set": "dev", "id": "", "gold": ["O", "X"]}
        rows = [row | {"index": i, "group": str(i), "predicted": list(tags)} for i in range(2)]
        text = "".join(json.dumps(each) + "\n" for each in rows)
        (tmp_path / record.run / ANSWERS).write_text(text, encoding="utf-8")
    changed_items = differences(finished(runs), Judge(runs), "kbert")
    assert [each.is_won for each in changed_items] == [True, True]


def test_what_the_file_says_of_itself_is_shown(data: Path, tmp_path: Path) -> None:
    statements = {"differs": "Five <shots>.", "notes": ("<b>One</b> host.", "Two graphs.")}
    stage = {"text": "trex", "n_texts": 100_000, "training": {"steps": 1, "batch_size": 2}}
    plan = Experiment.read(
        None, experiment_of("tiny", **statements).model_dump() | {"pretraining": stage}
    )
    runs = Study(ComparisonTrial(plan, data, tmp_path))
    for key in planned_runs(["kbert"], [], 1):
        record = write_run(runs, key, ["a"] * N)
        runs.keep(dataclasses.replace(record, costs=COSTS | {"n_texts": 30}))
    compared = finished(runs)
    page = to_markdown(compared, "kept compare")
    assert "same 30 linked sentences (trex; 100,000 were requested), for" in page
    assert page.endswith("What differs: Five <shots>.\n\n- <b>One</b> host.\n- Two graphs.\n")
    html = "".join(_published(compared))
    assert html == (
        "<p>What differs: Five &lt;shots&gt;.</p><p>&lt;b&gt;One&lt;/b&gt; host.</p>"
        "<p>Two graphs.</p>"
    )
    without_statements = dataclasses.replace(compared, experiment=experiment_of("tiny"))
    assert _published(without_statements) == ()
    assert "No continued pre-training." in conditions(without_statements)
    old = [dataclasses.replace(r, records=(dataclasses.replace(r.record, costs={}),))
           for r in compared.rows]  # fmt: skip
    lines = conditions(dataclasses.replace(compared, rows=tuple(old)))
    assert "the same linked sentences (trex; 100,000 were requested)" in lines


def test_a_control_is_left_out_of_the_pairs_only_if_all_its_runs_are_copies(
    data: Path, tmp_path: Path
) -> None:
    for n_copies, is_paired in ((1, True), (2, False)):
        runs = Study(ComparisonTrial(experiment_of("e"), data, tmp_path / f"{n_copies}"))
        keys = planned_runs(["none", "kbert"], ["shuffled"], 2)
        done = {key: write_run(runs, key, list("ab") * 20) for key in keys}
        for seed in range(n_copies):
            key = RunKey("kbert", "shuffled", seed)
            done[key] = dataclasses.replace(done[key], costs={"same_as": "another"})
        theirs = [pair.theirs for pair in summarise(runs, RunOutcome(done, [], {})).pairs]
        assert theirs == [("none", "off"), *([("kbert", "shuffled")] if is_paired else [])]


def test_what_is_there_is_shown_without_the_baseline(data: Path, tmp_path: Path) -> None:
    runs = Study(ComparisonTrial(experiment_of("e"), data, tmp_path))
    write_run(runs, RunKey("kbert", "true", 0), list("ab") * 20)
    compared = finished(runs)
    assert [(row.method, row.knowledge) for row in compared.rows] == [("kbert", "true")]
    assert compared.conclusion("kbert") == "not compared with none"


def test_a_gain_is_told_where_it_lies_and_the_contrast_that_was_named(
    data: Path, tmp_path: Path, world: KnowledgeGraph
) -> None:
    """Right wherever the graph has a fact and nowhere else; the contrast is named by the file."""
    plan = PrimaryContrast(against="shuffled", margin=0.1)
    task = experiment_of("x").task | {"kg": str(tmp_path / "kg")}
    few = np.isin(world.triples[:, 2], [world.entities.find(name) for name in TOWNS[:1]])
    world.with_triples(world.triples[few], note="of one town").save(tmp_path / "kg")
    experiment = Experiment(name="tiny", task=task, methods={"kbert": {}}, primary=plan)
    runs = Study(ComparisonTrial(experiment, data, tmp_path))
    traits = item_traits(
        *(runs.trial.data.examples[name] for name in ("dev", "train")), runs.trial.data.graph
    )
    has_fact = [trait.has_fact for trait in traits]
    n_facts = sum(has_fact)
    assert 5 < n_facts < N - 5
    noise = np.random.default_rng(0)
    for seed in range(3):
        for name, kind in (("none", "off"), ("kbert", "true"), ("kbert", "shuffled")):
            right = np.array(has_fact) if kind == "true" else np.zeros(N, bool)
            right = right ^ (noise.random(N) < 0.1)
            record = write_run(runs, RunKey(name, kind, seed), ["za"[int(r)] for r in right])  # type: ignore[arg-type]
            named = plan.model_dump(mode="json")
            runs.keep(dataclasses.replace(record, primary=named, costs=COSTS))
    compared = finished(runs)
    gains = {(g.theirs[1], g.kind, g.name): g for g in compared.gains}
    fact = gains["shuffled", KNOWLEDGE, "a fact"]
    assert fact.n == n_facts
    assert fact.effect is not None
    assert fact.effect.interval().low > 0
    placebo = [g for g in compared.gains if g.kind == KNOWLEDGE and g.name != "a fact"]
    assert sum(g.n for g in placebo if g.theirs[1] == "shuffled") == N - n_facts
    for gain in placebo:
        assert gain.effect is None or gain.effect.interval().low < 0
    (result,) = compared.primary
    assert result.before
    assert (result.on.n, result.against.n) == (n_facts, N - n_facts)
    assert result.on.effect is not None
    assert result.against.effect is not None
    expected = result.on.effect.estimate - result.against.effect.estimate
    assert result.effect.estimate == pytest.approx(expected)
    assert result.effect.p < 0.05
    assert result.in_words.startswith("K-BERT: the gain is where facts are: +")
    page = to_markdown(compared, "kept compare")
    assert "| before the runs |" in page
    assert page.index("is larger with a fact for K-BERT (+0.") < page.index("## Scores")
    assert "### By what the graph says" in page
    assert to_json(compared)["primary"][0]["visible"] == result.effect.visible()
    for named, n in ((PrimaryContrast(), 1), (None, 0)):
        other = experiment.model_copy(update={"primary": named})
        late = finished(Study(ComparisonTrial(other, data, tmp_path)))
        assert len(late.primary) == n
        assert not any(each.before for each in late.primary)
        assert ("(named after runs were made)" in headline(late)) == bool(n)
    with pytest.raises(ValidationError, match="name the control"):
        PrimaryContrast(against="true")
