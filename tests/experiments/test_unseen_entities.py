"""experiments/unseen_entities: splits, texts, networks, mixes, the page, and a positive control."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from experiments.unseen_entities.cells import (
    FITTED,
    CellSettings,
    Outcome,
    PartQuestions,
    fit_weights,
    mixed,
    run_cell,
)
from experiments.unseen_entities.paths import (
    DeviceEdges,
    PathSettings,
    ReadGraph,
    device_scores,
    make_path_model,
    path_scores,
)
from experiments.unseen_entities.tables import (
    MIX,
    PATHS,
    TEXT,
    Results,
    better_part,
    over_splits,
    page,
)
from experiments.unseen_entities.texts import (
    CLS,
    PAD,
    SEP,
    PieceTable,
    TextSettings,
    control_rows,
)
from experiments.unseen_entities.trial import (
    StudyConfig,
    UnseenTrial,
    questions_of,
)
from experiments.unseen_entities.worlds import (
    CONTEXT,
    SEEN_ALONE,
    TEST,
    TEST_CONTEXT,
    TEXT_KINDS,
    TRAIN,
    VALID,
    VALID_CONTEXT,
    Pieces,
    SplitGraph,
    SplitSettings,
    cut_names,
    split_arrays,
    with_facts,
    write_graph,
    write_host,
)
from kept.errors import CheckpointError
from kept.evaluation.crossed import Effect
from kept.evaluation.ranking import rank
from kept.kgc.mixing import ValidationQueries
from kept.kgc.mixing import fit_weights as fit_weights_of_the_library
from kept.kge.inductive import DegreeScorer
from kept.kge.splits import Splits
from kept.kge.ultra.graphs import Edges, relation_graph, without_easy
from kg_loaders import Text, TextKind, Triple, graph_from_records

FOLDER = Path(__file__).parents[2] / "experiments/unseen_entities"
N_RELATIONS = 4


def random_world(seed: int = 0, n: int = 60) -> SplitGraph:
    """Random triples of 60 entities: 6 held out for validation, 8 for the test."""
    draws = np.random.default_rng(seed)
    group = np.zeros(n, np.uint8)
    group[:6], group[6:14] = 1, 2
    triples = np.unique(draws.integers(0, [n, N_RELATIONS, n], (500, 3)), axis=0)
    ends = group[triples[:, [0, 2]]]
    use = np.full(len(triples), TRAIN, np.uint8)
    is_read = draws.random(len(triples)) < 0.5
    for number, part in ((1, VALID), (2, TEST)):
        touches = (ends == number).any(1)
        use[touches & is_read], use[touches & ~is_read] = CONTEXT[part], part
    use[(ends == 1).any(1) & (ends == 2).any(1)] = 0
    return world_of(triples, use, group, [draws.integers(3, 50, 5).tolist() for _ in range(n)])


def world_of(
    triples: np.ndarray, use: np.ndarray, group: np.ndarray, texts: list[list[int]],
    n_relations: int = N_RELATIONS,
) -> SplitGraph:  # fmt: skip
    """A world in which all held-out triples that may not be read are queries."""
    pieces = Pieces.of(texts, 47)
    relations = Pieces.of([[3 + i] for i in range(2 * n_relations)], 16)
    queries = {part: np.flatnonzero(use == part) for part in (VALID, TEST)}
    kinds = dict.fromkeys(TEXT_KINDS, pieces)
    world = SplitGraph("tiny", 0, n_relations, triples, use, group, queries, kinds, relations)
    world.check()
    return world


# ---- splits and texts ----------------------------------------------------------------------------
def random_splits() -> Splits:
    draws = np.random.default_rng(1)
    triples = np.unique(draws.integers(0, [80, 3, 80], (900, 3)), axis=0)
    rows = draws.permutation(triples)
    records = [Triple(f"e{h:02}", f"r{r}", f"e{t:02}") for h, r, t in rows.tolist()]
    graph = graph_from_records(records, sources=["random"])
    ids = np.array([(graph.entities.id(t.head), graph.relations.id(t.relation),
                     graph.entities.id(t.tail)) for t in records], np.int32)  # fmt: skip
    return Splits(graph, ids[:-200], ids[-200:-100], ids[-100:])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_entity_of_the_test_is_trained_on(seed: int) -> None:
    settings = SplitSettings(0.05, 0.1, 0.5, 20, 40)
    splits = random_splits()
    triples, use, group, queries = split_arrays(splits, settings, seed)
    ends = group[triples[:, [0, 2]]]
    assert (group == 1).sum() == 4
    assert (group == 2).sum() == 8
    assert not ends[np.isin(use, (TRAIN, SEEN_ALONE))].any()
    for number, part in ((1, VALID), (2, TEST)):
        of_part = ends[np.isin(use, (part, CONTEXT[part]))]
        assert (of_part == number).any(1).all()
        assert np.isin(of_part, (0, number)).all()
        assert (use[queries[part]] == part).all()
    assert len(queries[TEST]) == 40
    assert (
        len(triples)
        == len(np.unique(triples, axis=0))
        == 900
        - (
            900
            - len({tuple(row) for part in splits.as_mapping().values() for row in part.tolist()})
        )
    )


def test_splits_differ_by_seed_alone() -> None:
    settings, splits = SplitSettings(0.05, 0.1, 0.5, 20, 40), random_splits()
    one, again, other = (split_arrays(splits, settings, seed) for seed in (0, 0, 1))
    assert (one[1] == again[1]).all()
    assert (one[2] != other[2]).any()


def test_a_world_that_trains_on_a_held_out_entity_is_refused() -> None:
    world = random_world()
    use = world.use.copy()
    use[world.queries[TEST][0]] = TRAIN
    with pytest.raises(ValueError, match="is trained on"):
        replace(world, use=use).check()


@pytest.mark.parametrize("n", [0, 1, 3])
def test_so_many_facts_of_an_unseen_entity_may_be_read(n: int) -> None:
    world = with_facts(random_world(), n)
    for part, number in ((VALID, 1), (TEST, 2)):
        facts = world.facts(part)[:, [0, 2]].tolist()
        degrees = Counter(end for ends in facts for end in {*ends} if world.group[end] == number)
        assert max(degrees.values(), default=0) <= n
    assert np.isin(random_world().use, (TEST_CONTEXT, VALID_CONTEXT)).sum() > 20
    assert (world.filter(TEST).known("tail", world.train)[0].shape
            >= random_world().filter(TEST).known("tail", world.train)[0].shape)  # fmt: skip


def test_names_of_neighbours_are_cut() -> None:
    records: list[Triple | Text] = [
        Triple("p", "born", "c"), Text("p", TextKind.LABEL, "Ann", "en"),
        Text("c", TextKind.LABEL, "York", "en"), Text("n", TextKind.LABEL, "New York", "en"),
        Triple("n", "in", "n2"), Text("n2", TextKind.LABEL, "USA", "en"),
    ]  # fmt: skip
    graph = graph_from_records(records, sources=["names"])
    texts = {"p": "from York, not Yorkshire, nor the USA", "n": "a city in the USA"}
    descriptions = [texts.get(name, "") for name in graph.entities]
    cut = dict(zip(graph.entities, cut_names(graph, descriptions), strict=True))
    assert cut["p"] == "from , not Yorkshire, nor the USA"
    assert cut["n"] == "a city in the USA"  # a name of three letters stays


def test_another_entitys_text_is_of_another_unseen_one() -> None:
    world = random_world()
    rows = control_rows(world, "another", 2)
    is_unseen = world.group == 2
    assert (rows[is_unseen] != np.flatnonzero(is_unseen)).all()
    assert (world.group[rows[is_unseen]] == 2).all()
    assert (rows[~is_unseen] == np.flatnonzero(~is_unseen)).all()


@pytest.mark.parametrize("n_tokens", [7, 12])
def test_pieces_are_put_together_as_a_tokenizer_does(n_tokens: int) -> None:
    texts, names = [[5, 6], [7, 8, 9, 10, 11], []], [[20], [21, 22]]
    table, relations = (PieceTable.of(Pieces.of(rows, 47), "cpu") for rows in (texts, names))
    rows, kinds = torch.tensor([0, 1, 2, 1]), torch.tensor([1, 0, 1, 1])
    alone = table.entities(rows, n_tokens)
    pairs = table.questions(rows, relations, kinds, n_tokens)
    for i, (row, kind) in enumerate(zip(rows.tolist(), kinds.tolist(), strict=True)):
        first = [CLS, *texts[row][: n_tokens - 2], SEP]
        assert alone.ids[i][alone.mask[i]].tolist() == first
        room = n_tokens - 3 - len(names[kind])
        whole = [CLS, *texts[row][:room], SEP, *names[kind], SEP]
        assert pairs.ids[i][pairs.mask[i]].tolist() == whole
        n_first = min(len(texts[row]), room) + 2
        assert pairs.types[i].tolist() == [
            int(n_first <= position < len(whole)) for position in range(pairs.ids.shape[1])
        ]
    assert (alone.ids[~alone.mask] == PAD).all()


# ---- networks, ranks and mixes -------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["ultra", "nbfnet"])
def test_path_scores_are_those_of_the_library(kind: str) -> None:
    world = random_world()
    model = make_path_model(kind, world, PathSettings(1, 4, width=8, n_layers=3), 0)
    batch = torch.from_numpy(world.train[:8])
    is_head = torch.arange(8) >= 4
    anchors = torch.where(is_head, batch[:, 2], batch[:, 0])
    edges = Edges.of(world.train, n_entities=world.n_entities, n_relations=N_RELATIONS)
    kept = edges.only(without_easy(edges, batch))
    expected = model(kept, relation_graph(edges), anchors, batch[:, 1], is_head)
    graph = ReadGraph.of(world.train, world, "cpu")
    keep = graph.on_device.without(batch)
    for function in (path_scores, device_scores):
        scores = function(model, graph, anchors, batch[:, 1], is_head, keep=keep)
        torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)
        candidates = torch.arange(5).expand(8, 5)
        few = function(model, graph, anchors, batch[:, 1], is_head, candidates, keep)
        torch.testing.assert_close(few, scores[:, :5], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("part", [VALID, TEST])
def test_ranks_are_those_of_the_library(part: int) -> None:
    world = random_world()
    scorer = DegreeScorer(
        world.context(part), n_entities=world.n_entities, n_relations=world.n_relations
    )
    questions = PartQuestions.of(world, part, "cpu")
    ours = questions.doubled_ranks(questions.scored(scorer)) / 2
    theirs = rank(
        scorer, world.questions(part), filter=world.filter(part), ties="realistic",
        directions=("head", "tail"), candidates=world.candidates(part),
    )  # fmt: skip
    assert ours.tolist() == theirs.ranks.tolist()


def test_weights_are_those_of_the_library() -> None:
    draws = np.random.default_rng(0)
    scores = draws.normal(size=(40, 2, 12))
    gold, side = draws.integers(0, 12, 40), np.repeat([0, 1], 20)
    scores[np.arange(40), :, gold] += 1.5
    scores[:, :, 3] = np.where((gold == 3)[:, None], scores[:, :, 3], -np.inf)
    queries = ValidationQueries(scores, gold, side, np.zeros(40, np.int64))
    expected = fit_weights_of_the_library(queries, "direction", 1)[:, 0]
    parts = [torch.from_numpy(scores[:, i]) for i in range(2)]
    weights = fit_weights(parts, torch.from_numpy(gold), torch.from_numpy(side))
    np.testing.assert_allclose(weights, expected, atol=1e-3)
    total = mixed(parts, weights, torch.from_numpy(side))
    assert total[0, 3] == -torch.inf or gold[0] == 3
    np.testing.assert_allclose(total[0, 0], weights[0] @ scores[0, :, 0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels need a GPU")
def test_the_kernels_sum_what_the_library_sums() -> None:
    draws = np.random.default_rng(0)
    rows = np.unique(draws.integers(0, [3000, 20, 3000], (40_000, 3)), axis=0)
    edges = Edges.of(rows, n_entities=3000, n_relations=20)
    results = []
    for device_name in ("cpu", "cuda"):
        on_device = DeviceEdges.of(edges, device_name)
        keep = on_device.without(torch.from_numpy(rows[:64]).to(device_name))
        torch.manual_seed(0)
        inputs = [torch.randn(20, n, 32).to(device_name).requires_grad_() for n in (3000, 40, 3000)]
        weight = torch.randn(20, 3000, 32).to(device_name)
        out = on_device.sums(keep)(*inputs)
        gradients = torch.autograd.grad((out * weight).sum(), inputs)
        results.append([value.detach().cpu() for value in (out, *gradients)])
    for one, other in zip(*results, strict=True):
        assert (one - other).norm() < 1e-4 * one.norm()


# ---- positive control ----------------------------------------------------------------------------
N_CLASSES, N_CLUBS, N_PEOPLE = 8, 12, 240
BY_TEXT, BY_PATH, MEMBER, SEAT = range(4)


def world_of_two_halves() -> SplitGraph:
    """Each person has a class that a word of the text says, and a town that the club's seat says.

    Of an unseen person the club alone may be read: class and town are queries.
    """
    draws = np.random.default_rng(3)
    clubs = N_CLASSES + np.arange(N_CLUBS)
    towns = clubs + N_CLUBS
    people = np.arange(N_PEOPLE) + N_CLASSES + 2 * N_CLUBS
    kinds, clubs_of = draws.integers(0, N_CLASSES, N_PEOPLE), draws.integers(0, N_CLUBS, N_PEOPLE)
    triples = [(club, SEAT, town) for club, town in zip(clubs, towns, strict=True)]
    for person, kind, club in zip(people, kinds, clubs_of, strict=True):
        triples += [(person, BY_TEXT, kind), (person, BY_PATH, towns[club])]
        triples.append((person, MEMBER, clubs[club]))
    rows = np.unique(np.array(triples, np.int64), axis=0)
    group = np.zeros(people[-1] + 1, np.uint8)
    group[people[:40]], group[people[40:100]] = 1, 2
    use = np.full(len(rows), TRAIN, np.uint8)
    for number, part in ((1, VALID), (2, TEST)):
        is_held = group[rows[:, 0]] == number
        use[is_held] = np.where(rows[is_held, 1] == MEMBER, CONTEXT[part], part)
    noise = draws.integers(40, 120, (len(group), 3)).tolist()
    texts = [[20 + kind] for kind in range(N_CLASSES)] + noise[N_CLASSES : people[0]]
    texts += [[20 + kind, *noise[person]] for person, kind in zip(people, kinds, strict=True)]
    return world_of(rows, use, group, texts)


@pytest.fixture(scope="module")
def two_halves(tmp_path_factory: pytest.TempPathFactory) -> tuple[SplitGraph, Outcome]:
    """The cell of the world of two halves, with a small host that knows no word."""
    world, folder = world_of_two_halves(), tmp_path_factory.mktemp("pack")
    tiny_host(folder)
    paths = PathSettings(200, 32, width=16, n_layers=3, n_negatives=32)
    settings = CellSettings(TextSettings(200, 64, learning_rate=3e-3), paths, paths, 64)
    return world, run_cell(world, folder, settings, 0, "cpu")


def mrr(outcome: Outcome, row: str, mask: np.ndarray) -> float:
    return float((2 / outcome.ranks[row])[mask].mean())


def test_text_knows_one_half_paths_the_other_and_the_mix_both(
    two_halves: tuple[SplitGraph, Outcome],
) -> None:
    world, outcome = two_halves
    relation = questions_of(world)["relation"]
    tails = np.repeat([False, True], len(relation) // 2)
    of_text, of_path = (tails & (relation == kind) for kind in (BY_TEXT, BY_PATH))
    assert mrr(outcome, TEXT, of_text) > 0.9 > 0.5 > mrr(outcome, TEXT, of_path)
    assert mrr(outcome, PATHS, of_path) > 0.9 > 0.5 > mrr(outcome, PATHS, of_text)
    assert mrr(outcome, MIX, tails) > max(mrr(outcome, row, tails) for row in (TEXT, PATHS)) + 0.2


def test_controls_take_the_half_away_that_they_name(two_halves: tuple[SplitGraph, Outcome]) -> None:
    world, outcome = two_halves
    relation = questions_of(world)["relation"]
    tails = np.repeat([False, True], len(relation) // 2)
    paths = mrr(outcome, PATHS, tails)
    assert mrr(outcome, "text (another) + paths", tails) < paths + 0.05
    assert mrr(outcome, "text + paths, facts withheld", tails & (relation == BY_PATH)) < 0.5
    assert mrr(outcome, "text + paths, facts withheld", tails & (relation == BY_TEXT)) > 0.8
    assert mrr(outcome, "paths, at most 1", tails) == pytest.approx(paths, abs=0.02)
    assert {len(ranks) for ranks in outcome.ranks.values()} == {len(relation)}
    assert set(outcome.notes["weights"]) == set(FITTED)


# ---- the study in small --------------------------------------------------------------------------
FILE = FOLDER / "study.yaml"


def tiny_host(folder: Path) -> None:
    """A small host of 120 words that knows none of them."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=120, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    write_host(folder, BertModel(config), list(range(120)))


def small_study(folder: Path) -> StudyConfig:
    """The shipped file with two steps, on a random graph of one split and two seeds."""
    config = StudyConfig.read(FILE)
    training = {
        kind: value if kind == "scored" else {**value, "steps": 2, "batch_size": 8}
        for kind, value in config.training["codex-s"].items()
    }
    world = random_world()
    rows = [[3 + entity % 40, 5] for entity in range(world.n_entities)]
    pieces = dict.fromkeys(TEXT_KINDS, rows) | {"relations": [[4]] * (2 * N_RELATIONS)}
    arrays = world.triples, world.use, world.group, world.queries
    (folder / "pack").mkdir()
    write_graph(folder / "pack/codex-s.npz", pieces, [arrays])
    tiny_host(folder / "pack")
    small_settings = {"graphs": ("codex-s",), "splits": (0,), "seeds": (0, 1)}
    return config.model_copy(update={**small_settings, "training": {"codex-s": training}})


def test_the_study_in_small(tmp_path: Path) -> None:
    trial = UnseenTrial(small_study(tmp_path), tmp_path / "answers", tmp_path / "pack")
    trial.write_questions()
    (tmp_path / "answers/relations.json").write_text('{"codex-s": ["a", "b", "c", "d"]}')
    trial.run_missing()
    results = Results.read(tmp_path / "answers")
    assert [split.seeds for split in results.splits["codex-s"]] == [(0, 1)]
    assert "| text + paths |" in page(results)
    path = trial.path("codex-s-0", 1)
    before = path.stat().st_mtime_ns
    trial.run_missing()
    assert path.stat().st_mtime_ns == before


def test_cells_of_other_settings_are_refused(tmp_path: Path) -> None:
    trial = UnseenTrial(small_study(tmp_path), tmp_path / "answers", tmp_path / "pack")
    cell = {"ranks": {TEXT: np.array([2, 4])}, "notes": {}}
    trial.write("codex-s-0", 0, cell)
    assert trial.read("codex-s-0", 0) is not None
    training = {"codex-s": {**trial.config.training["codex-s"], "scored": 7}}
    other = trial.config.model_copy(update={"training": training})
    with pytest.raises(CheckpointError, match="other settings"):
        replace(trial, config=other).read("codex-s-0", 0)


def test_what_slices_read_of_a_question() -> None:
    world = random_world()
    traits = questions_of(world)
    rows, read = world.questions(TEST).tolist(), world.context(TEST)[:, [0, 2]].tolist()
    n_facts = Counter(end for h, _, t in world.facts(TEST).tolist() for end in (h, t))
    for i, (head, relation, tail) in enumerate(rows * 2):
        anchor, answer = (tail, head) if i < len(rows) else (head, tail)
        is_answer = not world.group[anchor]
        assert traits["is_answer"][i] == is_answer
        assert traits["unseen"][i] == (answer if is_answer else anchor)
        assert traits["n_facts"][i] == n_facts[answer if is_answer else anchor]
        assert traits["both"][i] == bool(world.group[head] and world.group[tail])
        assert traits["shares_fact"][i] == ([head, tail] in read or [tail, head] in read)
        assert traits["relation"][i] == relation
    assert 0 < traits["shares_fact"].mean() < 1


def test_the_interval_over_splits_is_not_below_that_within_them() -> None:
    alike = [Effect(0.1, 0.0004, 0.0005, 3, 100)] * 3
    assert over_splits(alike).standard_error == pytest.approx(0.03 / 3**0.5)
    apart = [Effect(x, 0.0004, 0.0005, 3, 100) for x in (0.0, 0.1, 0.2)]
    effect = over_splits(apart)
    assert effect.standard_error == pytest.approx(0.1 / 3**0.5)
    low = effect.interval().low
    assert low == pytest.approx(0.1 - 4.303 * effect.standard_error, abs=1e-3)


# ---- what is stored ------------------------------------------------------------------------------
def test_the_page_is_that_of_the_stored_ranks() -> None:
    results = Results.read(FOLDER / "answers")
    assert (FOLDER / "results.md").read_text(encoding="utf-8") == page(results)
    assert sum(path.stat().st_size for path in (FOLDER / "answers").iterdir()) < 3 << 20


def test_stored_cells_have_all_questions_and_no_rank_below_one() -> None:
    results = Results.read(FOLDER / "answers")
    assert results.graphs
    for graph in results.graphs:
        assert better_part(results, graph) in (TEXT, "ULTRA", "NBFNet", PATHS)
        for split in results.splits[graph]:
            n = len(split.questions["unseen"])
            assert {ranks.shape[1] for ranks in split.ranks.values()} == {n}
            assert min(int(ranks.min()) for ranks in split.ranks.values()) >= 2
