"""What a report knows of a folder of runs: every run by its hash, and what was asked for."""

from __future__ import annotations

import dataclasses
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tiny_task_files import TOWNS, wiki80_row

from entity_linking import RelationExample
from kept.comparison.compare import compare, finished
from kept.comparison.compared import Compared
from kept.comparison.experiment import Experiment, PrimaryContrast, RunRecord
from kept.comparison.judging import Judge
from kept.comparison.pages.headline import headline
from kept.comparison.pages.report import _published, differences
from kept.comparison.pages.summary import summarise
from kept.comparison.pages.tables import conditions, score_cells, to_json, to_markdown
from kept.comparison.requested import ASKED, RequestedRow, read_requested, remember
from kept.comparison.runs import ExperimentRuns
from kept.comparison.stored import RunKey, planned
from kept.comparison.strata import KNOWLEDGE, item_traits
from kept.controls.conditions import Knowledge
from kept.errors import CheckpointError
from kept.evaluation.statistics import holm
from kept.finetuning.scoring.answers import ANSWERS
from kg_loaders import KnowledgeGraph

N = 40
COSTS = {
    "added": 0, "trained": 0, "steps": 1, "reads_graph": False, "milliseconds_a_sentence": 1.0,
    "seconds": 1.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def data(
    tmp_path_factory: pytest.TempPathFactory,
    examples: list[RelationExample],
    world: KnowledgeGraph,
) -> Path:
    """The files that a hash is made of; no two examples are of one pair, each is its own group."""
    root = tmp_path_factory.mktemp("reports")
    examples = list({(e.head, e.tail): e for e in examples}.values())
    assert len(examples) > N
    for name, part in (("train", examples[N:]), ("dev", examples[:N])):
        lines = [json.dumps(wiki80_row(example)) for example in part]
        (root / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    world.save(root / "kg")
    return root


def experiment_of(name: str, **changes: Any) -> Experiment:
    task = {
        "task": "relation", "format": "wiki80", "train": "train.txt", "dev": "dev.txt", "kg": "kg",
        "training": {"steps": 2, "batch_size": 8},
    }  # fmt: skip
    return Experiment(name=name, task=task, **{"methods": {"kbert": {}}} | changes)


def write_run(runs: ExperimentRuns, key: RunKey, answers: list[str]) -> RunRecord:
    """A finished run that gave these answers, the right one being "a"."""
    n_right = answers.count("a")
    shares = dict.fromkeys(("precision", "recall", "f1"), 0.0)
    score = {
        "accuracy": {"estimate": n_right / len(answers)}, "n_scored": len(answers),
        "n_asked": len(answers),
        "micro": shares, "macro": shares,
    }  # fmt: skip
    record = RunRecord(
        runs.of(key).name, runs.experiment.name, key.method, key.knowledge, key.seed,
        {"dev": {**score, "baseline": {**score, "official": {"estimate": 1.0}}}}, {}, {},
    )  # fmt: skip
    (runs.folder / record.run).mkdir(parents=True)
    rows = [
        {"set": "dev", "index": i, "id": str(i), "group": str(i), "gold": ["a"], "predicted": [x]}
        for i, x in enumerate(answers)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (runs.folder / record.run / ANSWERS).write_text(text, encoding="utf-8")
    return runs.keep(record)


def test_one_text_asked_twice_is_one_group_also_in_runs_stored_before(
    examples: list[RelationExample], world: KnowledgeGraph, tmp_path: Path
) -> None:
    rows = [wiki80_row(example) for example in examples[:N]]
    for row in rows:
        row["h"].pop("id"), row["t"].pop("id")  # no pair: a text is what is asked about
    twice = [{**row, "h": row["t"], "t": row["h"]} for row in rows]  # other marks, the same text
    root = tmp_path / "data"
    root.mkdir()
    for name, part in (("dev", [*rows, *twice]), ("train", rows)):
        text = "\n".join(map(json.dumps, part))
        (root / f"{name}.txt").write_text(text, encoding="utf-8")
    world.save(root / "kg")
    task = experiment_of("x").task | {"format": "semeval", "keep_repeats": True}
    experiment = Experiment(name="twice", task=task, methods={"kbert": {}})
    runs = ExperimentRuns(experiment, root, tmp_path / "runs")
    for key, answers in ((RunKey("none", "off", 0), "az"), (RunKey("kbert", "true", 0), "aa")):
        write_run(runs, key, list(answers) * N)
    compared = finished(runs)
    n_texts = len({example.linked.text for example in examples[:N]})
    assert {row.score.n for row in compared.rows} == {n_texts}
    assert compared.pairs[0].effect.n_items == n_texts
    assert compared.n_regrouped == 2
    assert "2 of the runs were stored with other groups" in conditions(compared)
    for row in compared.rows:
        path = runs.folder / row.record.run / ANSWERS
        stored = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for answer in stored:
            answer["group"] = rows[answer["index"] % N]["token"]
            answer["group"] = " ".join(answer["group"])
        text = "".join(json.dumps(answer) + "\n" for answer in stored)
        path.write_text(text, encoding="utf-8")
    assert finished(runs).n_regrouped == 0
    assert "other groups" not in conditions(finished(runs))
    path.write_text(text.replace('"index": 0,', '"index": 80,'), encoding="utf-8")
    with pytest.raises(CheckpointError, match="answers item 80, but the split has 80"):
        finished(runs)


def test_what_no_run_could_read_is_wrong_in_an_official_comparison(
    examples: list[RelationExample], world: KnowledgeGraph, tmp_path: Path
) -> None:
    rows = [wiki80_row(example) for example in examples[::3][:N]]
    root = tmp_path / "data"
    root.mkdir()
    world.save(root / "kg")
    task = experiment_of("x").task | {"format": "tacred", "keep_repeats": True}
    tokens = [
        {"token": r["token"], "relation": "a", "subj_start": 0, "subj_end": 0, "obj_start": 1,
         "obj_end": 1} for r in rows
    ]  # fmt: skip
    for name in ("dev", "train"):
        (root / f"{name}.txt").write_text(json.dumps(tokens), encoding="utf-8")
    experiment = Experiment(name="cut", task=task, methods={"kbert": {}}, metric="official")
    runs = ExperimentRuns(experiment, root, tmp_path / "runs")
    for key in (RunKey("none", "off", 0), RunKey("kbert", "true", 0)):
        write_run(runs, key, ["a"] * 3)  # what is right of N: the rest was cut off
        path = runs.folder / "runs.jsonl"
        path.write_text(path.read_text().replace('"n_asked":3', f'"n_asked":{N}'))
    compared = finished(runs)
    recall = 3 / N
    for row in compared.rows:
        assert row.score.estimate == row.seeds[0] == pytest.approx(2 * recall / (1 + recall))
        assert (row.n, row.n_asked) == (3, N)
    assert compared.baseline == 1.0  # as the runs say
    told = to_markdown_scores(compared)
    assert f"3 of {N}" in told
    assert f"{N - 3} items whose targets were cut off with their texts count as wrong." in (
        conditions(compared)
    )


def to_markdown_scores(compared: Compared) -> str:
    return "\n".join(" | ".join(cells) for cells in score_cells(compared))


def say(compared: Compared) -> tuple[list[tuple[str, Knowledge, int]], str]:
    rows = [(row.method, row.knowledge, len(row.seeds)) for row in compared.rows]
    return rows, compared.conclusion("kbert")


def compare_again(runs: ExperimentRuns, controls: list[Knowledge], seeds: int = 1) -> Compared:
    """What `kept compare` says when its budget is spent."""
    return compare(
        runs.experiment, root=runs.root, folder=runs.folder, methods=["none", "kbert"],
        controls=controls, seeds=seeds, should_stop=lambda: True,
    )  # fmt: skip


def test_a_run_counts_whoever_recorded_it(data: Path, tmp_path: Path) -> None:
    first = ExperimentRuns(experiment_of("tiny"), data, tmp_path)
    second = ExperimentRuns(experiment_of("second"), data, tmp_path)
    write_run(first, RunKey("none", "off", 0), ["z"] * N)
    write_run(first, RunKey("ernie", "true", 0), ["a"] * N)  # no row of the second
    write_run(second, RunKey("kbert", "true", 0), ["a"] * N)
    told = say(compare_again(second, []))
    assert told == (
        [("none", "off", 1), ("kbert", "true", 1)],
        "no verdict from one seed: what another would give is not known",
    )
    assert say(finished(second)) == told
    assert [row.method for row in finished(first).rows] == ["none", "kbert", "ernie"]


def test_p_is_corrected_over_the_whole_table(data: Path, tmp_path: Path) -> None:
    """By itself the shuffled control would be beaten; among four questions it is not."""
    runs = ExperimentRuns(experiment_of("tiny"), data, tmp_path)
    n_right: dict[Knowledge, int] = {
        "true": 20, "off": 10, "shuffled": 15, "random-entity": 20, "random-tokens": 20,
    }  # fmt: skip
    for (knowledge, n), seed in product(n_right.items(), range(3)):
        key = RunKey("none" if knowledge == "off" else "kbert", knowledge, seed)
        write_run(runs, key, ["a"] * n + ["z"] * (N - n))
    pairs = finished(runs).pairs
    assert len(pairs) == 4
    assert [pair.holm for pair in pairs] == holm([pair.effect.p for pair in pairs])
    (shuffled,) = (pair for pair in pairs if pair.effect.p < 0.05 < pair.holm)
    assert shuffled.effect.interval().low > 0
    assert (shuffled.theirs[1], shuffled.is_better) == ("shuffled", False)


def test_a_report_says_what_is_not_finished(data: Path, tmp_path: Path) -> None:
    runs = ExperimentRuns(experiment_of("tiny"), data, tmp_path)
    helps = "knowledge helps; effects below 0.000 are not visible with"
    for key, answer in zip(planned(["kbert"], ["off"], 2), "zaz" * 2, strict=True):
        write_run(runs, key, [answer] * N)
    assert say(finished(runs))[1] == f"{helps} 2 seeds"  # nobody asked for more
    told = compare_again(runs, ["off", "shuffled"], seeds=2)
    assert told.missing == tuple(f"kbert, knowledge shuffled, seed {seed}" for seed in (0, 1))
    assert told.conclusion("kbert") == "better than none so far; not every run is finished"
    shown = finished(runs)
    assert (say(shown), shown.missing) == (say(told), told.missing)
    compare_again(runs, ["off"], seeds=2)  # the last word on this row
    assert say(finished(runs))[1] == f"{helps} 2 seeds"
    assert finished(runs).missing == ()
    compare_again(runs, ["off"], seeds=3)
    assert [name.partition(",")[0] for name in finished(runs).missing] == ["none", "kbert", "kbert"]
    assert finished(runs).conclusion("kbert").startswith("better than none so far")
    for key, answer in zip(list(planned(["kbert"], ["off"], 3))[6:], "zaz", strict=True):
        write_run(runs, key, [answer] * N)
    assert finished(runs).conclusion("kbert") == f"{helps} 3 seeds"


def test_what_was_asked_of_other_rows_stays_asked(data: Path, tmp_path: Path) -> None:
    runs = ExperimentRuns(experiment_of("tiny"), data, tmp_path)
    for key, answer in zip(planned(["kbert"], ["off"], 1), "zaz", strict=True):
        write_run(runs, key, [answer] * N)
    why = "it would be no control"
    remember(tmp_path, "tiny", {"kbert": RequestedRow(("off", "shuffled"), 1, {"shuffled": why})})
    remember(tmp_path, "tiny", {"ernie": RequestedRow((), 1), "gone": RequestedRow((), 3)})
    remember(tmp_path, "other", {"kbert": RequestedRow(("off",), 9)})
    shown = finished(runs)
    assert shown.left_out == {"kbert, knowledge shuffled": why}
    assert shown.missing == ("ernie, knowledge true, seed 0",)  # no word on a row that is gone
    assert shown.conclusion("kbert").startswith("no verdict from one seed")
    (tmp_path / ASKED).write_text("[]")
    with pytest.raises(CheckpointError, match="does not say what was requested"):
        read_requested(tmp_path, "tiny")


def test_a_row_may_go_with_some_kinds_of_knowledge_alone(data: Path, tmp_path: Path) -> None:
    own = {"kbert": {}, "ernie": {"options": {"vectors": "here"}}}  # refused with knowledge off
    runs = ExperimentRuns(experiment_of("tiny", methods=own), data, tmp_path)
    for key in planned(["kbert"], ["off"], 1):
        write_run(runs, key, ["a"] * N)
    write_run(runs, RunKey("ernie", "true", 0), ["a"] * N)
    assert [row.method for row in finished(runs).rows] == ["none", "kbert", "kbert", "ernie"]


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
    runs = ExperimentRuns(experiment_of("tiny"), data, tmp_path)
    for name, knowledge, answers in (("kbert", "true", ours), ("none", "off", theirs)):
        for seed, answer in enumerate(answers):
            key = RunKey(name, knowledge, seed)  # type: ignore[arg-type]
            write_run(runs, key, [answer] + ["a"] * (N - 1))
    found = differences(finished(runs), Judge(runs), "kbert")
    assert [(each.index, each.is_won) for each in found] == [(0, is_won)][: is_won is not None]
    if ours == "aab":
        told = {"knowledge true": "a (2 of 3), b (1 of 3)", "none": "z (2 of 3), a (1 of 3)"}
        assert found[0].answers == told


def test_tags_are_right_word_by_word(data: Path, tmp_path: Path) -> None:
    lines = "".join(f"a{i}\tO\nb\tX\n\n" for i in range(3))
    (tmp_path / "tags.txt").write_text(lines, encoding="utf-8")
    file = str(tmp_path / "tags.txt")
    task = experiment_of("x").task | {"task": "tagging", "format": "conll", "keep_repeats": True}
    tagging = Experiment(
        name="tags", task=task | {"train": file, "dev": file}, methods={"kbert": {}}
    )
    runs = ExperimentRuns(tagging, data, tmp_path)
    for key, tags in ((RunKey("none", "off", 0), "XO"), (RunKey("kbert", "true", 0), "OX")):
        record = write_run(runs, key, ["a"] * 2)
        row = {"set": "dev", "id": "", "gold": ["O", "X"]}
        rows = [row | {"index": i, "group": str(i), "predicted": list(tags)} for i in range(2)]
        text = "".join(json.dumps(each) + "\n" for each in rows)
        (tmp_path / record.run / ANSWERS).write_text(text, encoding="utf-8")
    found = differences(finished(runs), Judge(runs), "kbert")
    assert [each.is_won for each in found] == [True, True]


def test_what_the_file_says_of_itself_is_shown(data: Path, tmp_path: Path) -> None:
    own = {"differs": "Five <shots>.", "notes": ("<b>One</b> host.", "Two graphs.")}
    stage = {"text": "trex", "n_texts": 100_000, "training": {"steps": 1, "batch_size": 2}}
    plan = Experiment.read(None, experiment_of("tiny", **own).model_dump() | {"pretraining": stage})
    runs = ExperimentRuns(plan, data, tmp_path)
    for key in planned(["kbert"], [], 1):
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
    bare = dataclasses.replace(compared, experiment=experiment_of("tiny"))
    assert _published(bare) == ()
    assert "No continued pre-training." in conditions(bare)
    old = [dataclasses.replace(r, records=(dataclasses.replace(r.record, costs={}),))
           for r in compared.rows]  # fmt: skip
    told = conditions(dataclasses.replace(compared, rows=tuple(old)))
    assert "the same linked sentences (trex; 100,000 were requested)" in told


def test_a_control_is_left_out_of_the_pairs_only_if_all_its_runs_are_copies(
    data: Path, tmp_path: Path
) -> None:
    for n_copies, is_paired in ((1, True), (2, False)):
        runs = ExperimentRuns(experiment_of("e"), data, tmp_path / f"{n_copies}")
        keys = planned(["none", "kbert"], ["shuffled"], 2)
        done = {key: write_run(runs, key, list("ab") * 20) for key in keys}
        for seed in range(n_copies):
            key = RunKey("kbert", "shuffled", seed)
            done[key] = dataclasses.replace(done[key], costs={"same_as": "another"})
        theirs = [pair.theirs for pair in summarise(runs, done).pairs]
        assert theirs == [("none", "off"), *([("kbert", "shuffled")] if is_paired else [])]


def test_what_is_there_is_shown_without_the_baseline(data: Path, tmp_path: Path) -> None:
    runs = ExperimentRuns(experiment_of("e"), data, tmp_path)
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
    runs = ExperimentRuns(experiment, data, tmp_path)
    traits = item_traits(*(runs.data.examples[name] for name in ("dev", "train")), runs.data.graph)
    has_fact = [trait.has_fact for trait in traits]
    n_facts = sum(has_fact)
    assert 5 < n_facts < N - 5
    told = np.random.default_rng(0)
    for seed in range(3):
        for name, kind in (("none", "off"), ("kbert", "true"), ("kbert", "shuffled")):
            right = np.array(has_fact) if kind == "true" else np.zeros(N, bool)
            right = right ^ (told.random(N) < 0.1)
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
        late = finished(ExperimentRuns(other, data, tmp_path))
        assert len(late.primary) == n
        assert not any(each.before for each in late.primary)
        assert ("(named after runs were made)" in headline(late)) == bool(n)
    with pytest.raises(ValidationError, match="name the control"):
        PrimaryContrast(against="true")
