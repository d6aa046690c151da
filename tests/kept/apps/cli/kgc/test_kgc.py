"""`kept kgc` from the training to an answer, and its refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from kept.apps.cli import app
from kept.apps.cli.kgc import shared_parts as kgc_shared
from kept.apps.cli.kgc.train_options import TrainOptions
from kept.batches import N_SPECIAL_ROWS
from kept.errors import ConfigError
from kept.kge.kinds import NETWORK_RECIPES
from kept.kge.splits import read_splits
from kept.kge.trained import SCORER, WEIGHTS, load_scorer, read_description
from kept.kge.vectors import entity_vectors
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.seals import seal
from tests.flips import forge

N = 12


def kept(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["kgc", *map(str, arguments)])


@pytest.fixture(scope="module")
def benchmark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chain")
    lines = [f"e{i:02}\tnext\te{i + 1:02}" for i in range(N)]
    lines += [f"e{i + 1:02}\tprevious\te{i:02}" for i in range(N)]
    parts = {"train": lines[:-4], "valid": lines[-4:-2], "test": lines[-2:]}
    for name, part in parts.items():
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n")
    return folder


@pytest.fixture(scope="module")
def model(benchmark_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("models") / "m"
    result = kept("train", benchmark_folder, "--scorer", "complex", "-o", output, "--epochs", 40,
                  "--width", 16)  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "validation MRR" in result.output
    return output


def test_eval_prints_the_metrics_and_their_conditions(benchmark_folder: Path, model: Path):
    result = kept("eval", benchmark_folder, "-m", model, "--split", "train", "--json")
    result_ = json.loads(result.stdout)
    assert result_["metrics"]["mrr"] > 0.5
    assert (result_["n_asked"], result_["n_scored"], result_["n_unseen"]) == (40, 40, 0)
    assert (result_["ties"], result_["filter"]) == ("realistic", "train+valid+test")
    table = kept("eval", benchmark_folder, "-m", model, "--directions", "tail,relation")
    assert "4 asked, 4 scored; ties realistic; filter train+valid+test" in table.stdout
    assert "asked relation+tail" in table.stdout


def test_inverse_relations_and_triple_classification(benchmark_folder: Path, tmp_path: Path):
    output = tmp_path / "m"
    trained = kept("train", benchmark_folder, "--scorer", "distmult", "--reciprocal", "-o", output,
                   "--epochs", 3, "--width", 8)  # fmt: skip
    assert "distmult with inverse relations" in trained.output
    for name in ("valid", "test"):
        (tmp_path / f"{name}_negatives.txt").write_text("e01\tnext\te09\ne02\tnext\te09\n")
    arguments = ("eval", benchmark_folder, "-m", output, "--negatives", tmp_path)
    classification = json.loads(kept(*arguments, "--json").stdout)["classification"]
    assert (classification["n_true"], classification["n_false"]) == (2, 2)
    assert 0 <= classification["accuracy"]["low"] <= classification["accuracy"]["estimate"] <= 1
    page = kept(*arguments).stdout
    assert "triple classification of test: accuracy" in page
    assert "0 of 2 relations" in page
    (tmp_path / "test_negatives.txt").write_text("e01\tnext\tnobody\n")
    refused = kept(*arguments)
    assert refused.exit_code == 1
    assert "test_negatives.txt, line 1: 'nobody' is not among" in refused.stderr


def test_a_norm_is_trained_and_kept_with_the_model(benchmark_folder: Path, tmp_path: Path):
    common = ("--epochs", 1, "--width", 8, "--norm")
    for scorer, norm in (("rotate", 2), ("transe", 1)):
        output = tmp_path / scorer
        result = kept("train", benchmark_folder, "--scorer", scorer, "-o", output, *common, norm)
        assert result.exit_code == 0, result.output
        assert json.loads((output / "model.json").read_text())["norm"] == norm
    refused = kept(
        "train", benchmark_folder, "--scorer", "complex", "-o", tmp_path / "c", *common, 1
    )
    assert refused.exit_code == 1
    assert "complex takes no --norm; it takes --epochs" in refused.stderr
    with pytest.raises(ConfigError, match="takes no --ask, --host, --norm, --top-k; it takes"):
        TrainOptions.of("complex", seed=0, holdout=0.1, top_k=1, norm=2, ask=5, host="minilm")


@pytest.mark.parametrize("name", sorted(NETWORK_RECIPES))
def test_a_graph_network_is_trained_evaluated_and_a_provider(
    name: str, benchmark_folder: Path, tmp_path: Path
):
    output = tmp_path / name
    common = ("train", benchmark_folder, "--scorer", name, "--width", 16)
    trained = kept(*common, "-o", output, "--epochs", 40)
    assert trained.exit_code == 0, trained.output
    assert f": {name}, " in trained.output
    described = read_description(output)
    network = described["training"]["network"]
    assert network.get("layers", "bertmk") == name
    assert described["scorer"] == network.get("decoder", "transe")
    arguments = ("eval", benchmark_folder, "-m", output, "--split", "train", "--json")
    network = json.loads(kept(*arguments).stdout)
    assert network["metrics"]["mrr"] > 0.45
    assert min(losses := described["training"]["losses"]) < losses[0]
    graph = read_splits(benchmark_folder, holdout=0.05, seed=0).graph
    rows = entity_vectors(graph, width=16, seed=0, path=output)
    assert rows.shape == (graph.n_entities + N_SPECIAL_ROWS, 16)
    scorer = load_scorer(output, graph).scorer
    vectors = scorer.entities / scorer.entities.norm(dim=1).mean()
    assert torch.allclose(rows[N_SPECIAL_ROWS:], vectors)
    refused = kept(*common, "-o", tmp_path / "r", "--reciprocal")
    assert refused.exit_code == 1
    assert f"{name} takes no --reciprocal; it takes --epochs, --width" in refused.stderr


@pytest.mark.parametrize(
    ("question", "answer"),
    [(("e03", "next"), "e04"), (("?", "next", "e04"), "e03"), (("e03", "?", "e04"), "next")],
)
def test_predict_finds_a_training_answer(
    benchmark_folder: Path, model: Path, question: tuple[str, ...], answer: str
):
    result = kept("predict", *question, "--kg", benchmark_folder, "-m", model, "--top", 2, "--json")
    rows = json.loads(result.stdout)
    assert len(rows) == 2
    assert rows[0]["id"] == answer
    assert rows[0]["known"]
    assert not rows[1]["known"]
    assert answer in kept("predict", *question, "--kg", benchmark_folder, "-m", model).stdout


def test_a_graph_folder_is_cut_the_same_way_each_time(tmp_path: Path, small_graph: KnowledgeGraph):
    small_graph.save(tmp_path / "kg")
    trained = kept("train", tmp_path / "kg", "-o", tmp_path / "m", "--epochs", 1, "--holdout", 0.2,
                   "--seed", 5)  # fmt: skip
    assert trained.exit_code == 0, trained.output
    report = json.loads(kept("eval", tmp_path / "kg", "-m", tmp_path / "m", "--json").stdout)
    assert sum(part["n_questions"] for part in report["strata"].values()) == 6
    labels = kept("predict", "Q90", "P17", "--kg", tmp_path / "kg", "-m", tmp_path / "m").stdout
    assert "France" in labels


def test_tested_triples_that_were_trained_on_are_told(benchmark_folder: Path, tmp_path: Path):
    for name in ("train", "valid", "test"):
        lines = (benchmark_folder / f"{name}.txt").read_text()
        shared_triple = "e00\tnext\te01\n" if name == "test" else ""
        (tmp_path / f"{name}.txt").write_text(lines + shared_triple)
    trained = kept("train", tmp_path, "-o", tmp_path / "m", "--epochs", 1, "--width", 4)
    evaluation = kept("eval", tmp_path, "-m", tmp_path / "m")
    for result in (trained, evaluation):
        assert "1 of the 3 triples of test are in train too" in result.stdout
    shared_triple = json.loads(kept("eval", tmp_path, "-m", tmp_path / "m", "--json").stdout)
    assert shared_triple["shared"] == {"test in train": 1}


def test_a_graph_with_a_triple_less_is_not_tested_but_asked(
    tmp_path: Path, small_graph: KnowledgeGraph
):
    small_graph.save(tmp_path / "kg")
    small_graph.with_triples(small_graph.triples[1:], note="less").save(tmp_path / "less")
    trained = kept("train", tmp_path / "kg", "-o", tmp_path / "m", "--epochs", 1, "--holdout", 0.2)
    assert trained.exit_code == 0, trained.output
    refused = kept("eval", tmp_path / "less", "-m", tmp_path / "m")
    assert refused.exit_code == 1
    assert "was trained with splits" in refused.stderr
    predictions = kept("predict", "Q90", "P17", "--kg", tmp_path / "less", "-m", tmp_path / "m")
    assert "France" in predictions.stdout
    forge(tmp_path / "m", {"training": {}}, "model.json")  # as another program may save a scorer
    refused = kept("eval", tmp_path / "kg", "-m", tmp_path / "m")
    assert "does not say with which splits" in refused.stderr
    predictions = kept("predict", "Q90", "P17", "--kg", tmp_path / "kg", "-m", tmp_path / "m")
    assert predictions.exit_code == 0


def test_refusals_are_one_line_and_exit_code_1(
    tmp_path: Path, benchmark_folder: Path, model: Path, small_graph: KnowledgeGraph
):
    small_graph.save(tmp_path / "kg")
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        (("train", benchmark_folder, "-o", model), "replace it with --force"),
        (("train", benchmark_folder, "-o", tmp_path / "x", "--scorer", "y"), "scorer 'y'"),
        (("train", tmp_path / "empty", "-o", tmp_path / "x"), "neither a graph folder"),
        (("eval", tmp_path / "kg", "-m", model), "id space"),
        (("eval", benchmark_folder, "-m", tmp_path / "no"), "no does not exist"),
        (("eval", benchmark_folder, "-m", model, "--ties", "best"), "tie rule 'best'"),
        (("eval", benchmark_folder, "-m", model, "--split", "dev"), "split 'dev'"),
        (("eval", benchmark_folder, "-m", model, "--directions", "up"), "directions ['up']"),
        (("predict", "e01", "next", "e02", "--kg", benchmark_folder, "-m", model), "exactly one"),
        (("predict", "e99", "next", "--kg", benchmark_folder, "-m", model), "label or alias 'e99'"),
    ):
        result = kept(*arguments)
        assert result.exit_code == 1
        assert message in result.stderr
        assert result.stderr.count("\n") == 1


# ---- what training never saw ---------------------------------------------------------------------
LONG = "http://example.org/resource/" + "a_very_long_identifier_" * 6
FAR = ["f0", "f1", "f2"]


@pytest.fixture(scope="module")
def holed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ring with a loop relation; test has 2 seen, 3 half seen and 2 unseen triples."""
    folder = tmp_path_factory.mktemp("holed")
    names = [f"e{i:02}" for i in range(N)]
    train = [f"{a}\tnext\t{b}" for a, b in zip(names, [*names[1:], names[0]], strict=True)]
    train += [f"{name}\tsame\t{name}" for name in names[:6]] + [f"e00\tnear\t{LONG}"]
    seen, half = ["e00\tnext\te05", "e03\tsame\te04"], [f"e00\tnext\t{FAR[0]}"]
    half += [f"{FAR[1]}\tnext\te01", "e01\tnever\te02"]
    test = [*seen, *half, f"{FAR[0]}\tnext\t{FAR[1]}", f"{FAR[2]}\tnever\t{FAR[2]}"]
    for part, lines in (("train", train), ("valid", train[:2]), ("test", test)):
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module", params=["transe", "complex"])
def scorer(
    request: pytest.FixtureRequest, holed: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    output: Path = tmp_path_factory.mktemp("holed") / request.param
    done = kept("train", holed, "--scorer", request.param, "-o", output, "--epochs", 2,
                "--width", 8)  # fmt: skip
    assert done.exit_code == 0, done.output
    return output


def test_triples_that_training_never_saw_are_scored_apart(holed: Path, scorer: Path) -> None:
    report = json.loads(kept("eval", holed, "-m", scorer, "--json").stdout)
    assert report["scored_over"] == "seen"
    assert (report["n_asked"], report["n_scored"], report["n_unseen"]) == (4, 4, 5)
    strata = report["strata"]
    assert {name: part["n_triples"] for name, part in strata.items()} == {
        "seen": 2, "half seen": 3, "unseen": 2,
    }  # fmt: skip
    assert report["metrics"] == strata["seen"]["metrics"]
    pooled = json.loads(kept("eval", holed, "-m", scorer, "--pooled", "--json").stdout)
    assert (pooled["scored_over"], pooled["n_scored"]) == ("all", 14)
    assert pooled["strata"] == strata
    weighted = [part["n_questions"] * part["metrics"]["mrr"] for part in strata.values()]
    assert pooled["metrics"]["mrr"] == pytest.approx(sum(weighted) / 14)
    page = " ".join(kept("eval", holed, "-m", scorer).stdout.split())
    assert "the 2 of 7 triples whose head, relation and tail training saw" in page
    assert "half seen" in page
    assert "--pooled" in " ".join(kept("eval", holed, "-m", scorer, "--pooled").stdout.split())
    all_seen = kept("eval", holed, "-m", scorer, "--split", "valid").stdout
    assert "training saw every entity and relation of the 2 triples" in all_seen


def test_the_epoch_is_chosen_by_seen_triples(
    holed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks of vectors that were never trained would be noise in the choice."""
    source = tmp_path / "source"
    shutil.copytree(holed, source)
    unseen = "".join(f"{FAR[0]}\tnext\te{i:02}\n" for i in range(3))
    valid = (source / "valid.txt").read_text()
    (source / "valid.txt").write_text(unseen + valid)
    ranked_rows: list[list[list[int]]] = []
    rank = kgc_shared.rank
    monkeypatch.setattr(
        kgc_shared,
        "rank",
        lambda s, rows, **how: ranked_rows.append(rows.tolist()) or rank(s, rows, **how),
    )
    options = ("--scorer", "transe", "--epochs", 30, "--width", 4)
    done = kept("train", source, *options, "-o", tmp_path / "m")
    assert done.exit_code == 0, done.output
    assert "by the 2 of 5 validation triples that training has seen all of" in done.stdout
    splits = read_splits(source, holdout=0.05, seed=0)
    assert {str(rows) for rows in ranked_rows} == {str(splits.valid[3:].tolist())}
    (source / "valid.txt").write_text(unseen)
    done = kept("train", source, *options, "-o", tmp_path / "pooled")
    assert "validation triples" not in done.stdout, "there is nothing else to choose by"
    assert len(ranked_rows[-1]) == 3


def test_a_split_of_which_training_saw_nothing_is_pooled_or_refused(
    holed: Path, tmp_path: Path
) -> None:
    for part in ("train", "valid"):
        (tmp_path / f"{part}.txt").write_text((holed / f"{part}.txt").read_text())
    (tmp_path / "test.txt").write_text(f"{FAR[0]}\tnext\t{FAR[1]}\n")
    kept("train", tmp_path, "-o", tmp_path / "m", "--epochs", 1, "--width", 4)
    refused = kept("eval", tmp_path, "-m", tmp_path / "m")
    assert refused.exit_code == 1
    assert (
        "none of the 1 triples of test has only entities and relations that were in training; --pooled"  # noqa: E501
        in refused.stderr
    )
    assert kept("eval", tmp_path, "-m", tmp_path / "m", "--pooled").exit_code == 0


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ((FAR[0], "next"), "'f0'"), (("?", "next", FAR[1]), "'f1'"), (("e01", "never"), "'never'"),
        ((FAR[0], "?", FAR[1]), "'f0' and 'f1'"), ((FAR[2], "never"), "'f2' and 'never'"),
    ],
)  # fmt: skip
def test_what_training_never_saw_is_refused_by_name(
    holed: Path, scorer: Path, question: tuple[str, ...], names: str
) -> None:
    refused = kept("predict", *question, "--kg", holed, "-m", scorer)
    assert refused.exit_code == 1
    assert f"{names}: in no training triple" in refused.stderr
    assert "--untrained" in refused.stderr
    untrained = kept("predict", *question, "--kg", holed, "-m", scorer, "--untrained", "--json")
    rows = json.loads(untrained.stdout)
    assert rows
    assert not any(row["trained"] for row in rows)
    table = kept("predict", *question, "--kg", holed, "-m", scorer, "--untrained").stdout
    assert "the score means nothing" in table


def test_no_answer_was_never_trained_unless_asked_for(holed: Path, scorer: Path) -> None:
    flags = ("--kg", holed, "-m", scorer, "--top", 99, "--json")
    rows = json.loads(kept("predict", "e00", "next", *flags).stdout)
    ids = [row["id"] for row in rows]
    assert all(row["trained"] for row in rows)
    assert not {*FAR} & {*ids}
    assert len(ids) == N  # and the long one, without e00 itself
    more = json.loads(kept("predict", "e00", "next", *flags, "--untrained").stdout)
    assert {row["id"] for row in more if not row["trained"]} == {*FAR}
    relations = json.loads(kept("predict", "e00", "?", "e01", *flags).stdout)
    assert {row["id"] for row in relations} == {"next", "same", "near"}
    table = kept("predict", "e00", "next", "--kg", holed, "-m", scorer).stdout
    assert "3 left out: training never saw them" in table


def test_an_entity_is_no_answer_to_itself_unless_the_relation_has_loops(
    holed: Path, scorer: Path
) -> None:
    flags = ("--kg", holed, "-m", scorer, "--top", 99)
    for question in (("e00", "next"), ("?", "next", "e00")):
        rows = json.loads(kept("predict", *question, *flags, "--json").stdout)
        assert "e00" not in [row["id"] for row in rows]
        assert "e00 itself is left out" in kept("predict", *question, *flags).stdout
    same = json.loads(kept("predict", "e00", "same", *flags, "--json").stdout)
    assert "e00" in [row["id"] for row in same]
    assert "itself is left out" not in kept("predict", "e00", "same", *flags).stdout


def test_identifiers_are_never_cut(
    holed: Path, scorer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    table = kept("predict", "e00", "near", "--kg", holed, "-m", scorer, "--top", 99).stdout
    lines = table.splitlines()
    assert any(LONG in line for line in lines)
    assert "…" not in table


def test_what_was_seen_is_kept_with_the_scorer(holed: Path, scorer: Path, tmp_path: Path) -> None:
    """The source may hold other triples by now: what the training saw does not change."""
    for part in ("valid", "test"):
        (tmp_path / f"{part}.txt").write_text((holed / f"{part}.txt").read_text())
    more = (holed / "train.txt").read_text() + f"{FAR[0]}\tnext\te01\n"
    (tmp_path / "train.txt").write_text(more)
    refused = kept("predict", FAR[0], "next", "--kg", tmp_path, "-m", scorer)
    assert refused.exit_code == 1
    assert "'f0': in no training triple" in refused.stderr
    path, old = scorer / "model.json", (scorer / "model.json").read_text()
    described = read_description(scorer)
    del described["training"]["unseen"]  # trained by hand: by the splits of the source
    seal(scorer, SCORER, described, [WEIGHTS])
    try:
        prediction = kept("predict", FAR[0], "next", "--kg", tmp_path, "-m", scorer)
        assert prediction.exit_code == 0, prediction.output
        assert kept("predict", FAR[0], "next", "--kg", holed, "-m", scorer).exit_code == 1
    finally:
        path.write_text(old)


def test_a_training_off_a_terminal_writes_lines(benchmark_folder: Path, tmp_path: Path) -> None:
    trained = kept("train", benchmark_folder, "-o", tmp_path / "m", "--epochs", 3, "--width", 4)
    assert "epoch 1 of 3: loss " in trained.stderr
    assert "left at most" in trained.stderr
    assert "epoch 3 of 3: loss " in trained.stderr
    assert "━" not in trained.stderr


def test_a_table_in_a_pipe_is_cut_at_no_column(
    benchmark_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    long = tmp_path / ("a_model_with_a_name_of_its_own_" * 5)
    assert kept("train", benchmark_folder, "-o", long, "--epochs", 1, "--width", 4).exit_code == 0
    table = kept("eval", benchmark_folder, "-m", long, "--pooled").stdout
    assert f"│ {long.name} │" in table
    monkeypatch.setenv("COLUMNS", "60")
    table = kept("eval", benchmark_folder, "-m", long, "--pooled").stdout
    assert f"│ {long.name} │" not in table


def test_a_scorer_below_a_baseline_says_so_with_a_command(
    benchmark_folder: Path, model: Path, tmp_path: Path
) -> None:
    """An untrained scorer is no better than by degree; one that has learned is."""
    output = tmp_path / "short"
    options = ("--scorer", "transe", "--epochs", 1, "--width", 4)
    assert kept("train", benchmark_folder, "-o", output, *options).exit_code == 0
    for split in ("train", "test"):
        report = json.loads(kept("eval", benchmark_folder, "-m", output, "--split", split,
                               "--json").stdout)  # fmt: skip
        ours, degree = (report["beside"][n]["metrics"]["mrr"] for n in ("model", "degree"))
        assert bool(report["warnings"]) is (ours <= degree or ours <= report["beside"]["PageRank"]
                                          ["metrics"]["mrr"])  # fmt: skip
    done = kept("eval", benchmark_folder, "-m", output, "--split", "train")
    page = " ".join(done.stdout.split())
    assert "warning: MRR" in page
    assert "is no better than that of" in page
    assert f"kept kgc train {benchmark_folder} --scorer transe -o NEW --epochs 4" in page
    good = kept("eval", benchmark_folder, "-m", model, "--split", "train").stdout
    assert "warning" not in good


def test_a_graph_network_trains_as_long_as_it_is_given(
    benchmark_folder: Path, tmp_path: Path
) -> None:
    flags = ("--scorer", "compgcn", "--width", 16, "--epochs", 2, "-o", tmp_path / "m")
    trained = kept("train", benchmark_folder, *flags)
    assert trained.exit_code == 0, trained.output
    assert len(read_description(tmp_path / "m")["training"]["losses"]) == 2
    assert "training stopped early" not in trained.output, "all epochs were run"


def test_it_says_that_a_training_stopped_early_where_it_did(
    benchmark_folder: Path, tmp_path: Path
) -> None:
    flags = ("--scorer", "complex", "--width", 4, "--epochs", 200)
    trained = kept("train", benchmark_folder, *flags, "-o", tmp_path / "m")
    assert trained.exit_code == 0, trained.output
    training = read_description(tmp_path / "m")["training"]
    assert training["validations"]
    is_early = len(training["losses"]) < 200
    assert ("training stopped early" in trained.output) is is_early
    assert f"the weights of epoch {training['best_epoch']} were kept" in trained.output
