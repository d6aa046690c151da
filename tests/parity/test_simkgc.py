"""SimKGC's preprocessing, texts, scores, losses, gradients, training and ranks, as released."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedTokenizerBase

from kept.convert.kbert import read_vocabulary
from kept.evaluation.ranking import Filter, RankingResult, rank
from kept.kge.simkgc.benchmarks import Benchmark, freebase_relation, read_benchmark
from kept.kge.simkgc.networks import ORIGINAL, BiEncoder, Contrast, PreBatch, contrast
from kept.kge.simkgc.ranking import SimKGCScorer
from kept.kge.simkgc.texts import INVERSE, Links, Texts, named, tokenised, wordnet_name
from kept.kge.simkgc.training import (
    KnownTriples,
    SimKGCConfig,
    Step,
    make_optimiser,
    move,
    rates,
    with_inverses,
)

METHOD = "simkgc"
DTYPES = {"f64": torch.float64, "f32": torch.float32}
ATOL_VECTORS = {"f64": 1e-10, "f32": 1e-6}
ATOL_LOGITS = {"f64": 1e-10, "f32": 2e-5}
RTOL_LOSSES = {"f64": 1e-10, "f32": 1e-5}


def tasks_of(folder: Path) -> Iterator[str]:
    yield from sorted(p.stem.removeprefix("preprocess_") for p in folder.glob("preprocess_*.json"))


def cases_of(folder: Path) -> Iterator[str]:
    names = load_file(folder / "outputs.safetensors")
    yield from sorted({key.split(".")[1] for key in names if key.endswith("step0.logits")})


PARAMETERS = {"task": tasks_of, "case": cases_of}


@pytest.fixture(scope="module")
def task(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def case(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@dataclass(frozen=True, eq=False)
class World:
    """A benchmark with ids: entities in ascending order of their names, as graphs have them."""

    benchmark: Benchmark
    is_wordnet: bool
    is_linked: bool

    @cached_property
    def entities(self) -> list[str]:
        return sorted(self.benchmark.names)

    @cached_property
    def relations(self) -> list[str]:
        return list(self.benchmark.relations.values())

    def rows(self, triples: Any) -> NDArray[np.int64]:
        entity = {name: i for i, name in enumerate(self.entities)}
        n = len(self.relations)
        relation = {name: i for i, name in enumerate(self.relations)}
        relation |= {INVERSE + name: i + n for i, name in enumerate(self.relations)}
        ids = [(entity[h], relation[r], entity[t]) for h, r, t in triples]
        return np.array(ids, np.int64).reshape(-1, 3)

    @property
    def train(self) -> NDArray[np.int64]:
        return self.rows(self.benchmark.splits["train"])

    @property
    def links(self) -> Links:
        return Links(self.train, len(self.entities))

    @property
    def known(self) -> KnownTriples:
        return KnownTriples(self.train, **self.sizes)

    @property
    def sizes(self) -> dict[str, int]:
        return {"n_entities": len(self.entities), "n_relations": len(self.relations)}

    @cached_property
    def texts(self) -> Texts:
        names = [self.benchmark.names[name] for name in self.entities]
        return Texts(
            [wordnet_name(name) if self.is_wordnet else name for name in names],
            [self.benchmark.descriptions[name] for name in self.entities],
            self.relations,
            self.links if self.is_linked else None,
        )


@dataclass(frozen=True, eq=False)
class Golden:
    folder: Path

    def read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text("utf-8"))

    def load(self, name: str) -> dict[str, Tensor]:
        return load_file(self.folder / f"{name}.safetensors")

    @cached_property
    def training(self) -> dict[str, Any]:
        found: dict[str, Any] = self.read("training")
        return found

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        lower = self.read("config")["do_lower_case"]
        return read_vocabulary(self.folder / "vocab.txt", lower_case=lower)

    def world(self, task: str, *, is_linked: bool) -> World:
        raw = self.read(f"preprocess_{task}")["raw"]
        return World(read_benchmark(task, raw), task == "wn18rr", is_linked)

    def model(self, dtype: torch.dtype, pooling: Any = "mean") -> BiEncoder:
        config = BertConfig(**{k: v for k, v in self.read("config").items() if k[:3] != "do_"})
        torch.manual_seed(0)
        model = BiEncoder(BertModel(config), pooling=pooling, learn_temperature=True)
        state = {renamed(name): value for name, value in self.load("state_dict").items()}
        model.load_state_dict(state)
        return model.to(dtype).eval()

    def step(self, dtype: torch.dtype, **changes: Any) -> Step:
        told = self.training
        world = self.world(told["task"], is_linked=told["use_link_graph"])
        config = {
            "n_epochs": 1, "batch_size": told["batch_size"], "n_tokens": told["max_num_tokens"],
            "margin": float(np.float32(told["additive_margin"])),  # a float32 there, in f64 too
            "pre_batch_weight": told["pre_batch_weight"],
            "n_pre_batch": told["pre_batch"],
        }  # fmt: skip
        made = SimKGCConfig(**config | changes)  # type: ignore[arg-type]
        queue = self.queue(dtype) if made.n_pre_batch else None
        return Step(self.model(dtype), self.tokenizer, world.texts, world.known, made, queue)

    def queue(self, dtype: torch.dtype) -> PreBatch:
        start = self.load("inputs")["pre_batch_vectors_at_start"]
        n = self.training["pre_batch"]
        queue = PreBatch(
            n_batches=n, batch_size=len(start) // n, width=start.shape[1],
            generator=torch.Generator(),
        )  # fmt: skip
        queue.vectors = start.to(dtype).clone()
        return queue

    @cached_property
    def batches(self) -> list[NDArray[np.int64]]:
        world = self.world(self.training["task"], is_linked=False)
        return [
            world.rows((one["head_id"], one["relation"], one["tail_id"]) for one in batch)
            for batch in self.training["batches"]
        ]


CHANGES: dict[str, dict[str, Any]] = {
    "plain": {"margin": 0.0, "n_pre_batch": 0, "self_negative": False},
    "margin": {"n_pre_batch": 0, "self_negative": False},
    "self_negative": {"n_pre_batch": 0},
    "full": {},
}


def renamed(name: str) -> str:
    """Our name of a released parameter."""
    begin = next(begin for begin in ORIGINAL if name.startswith(begin))
    return ORIGINAL[begin] + name.removeprefix(begin)


@pytest.fixture(scope="module")
def golden(folder: Path) -> Golden:
    return Golden(folder)


# ---- preprocessing and texts ---------------------------------------------------------------------
def test_preprocessing(golden: Golden, task: str, compared: Any) -> None:
    expected = golden.read(f"preprocess_{task}")["processed"]
    made = golden.world(task, is_linked=False).benchmark
    assert isinstance(made, Benchmark)
    listed = dict(made.relations)
    if not task.startswith("wiki5m"):  # the file names those of training alone
        trained = {relation for _, relation, _ in made.splits["train"]}
        listed = {name: text for name, text in listed.items() if text in trained}
    compared.equal("simkgc relations", listed, expected["relations.json"])
    entities = [
        {"entity_id": e, "entity": made.names[e], "entity_desc": made.descriptions[e]}
        for e in made.names
    ]
    compared.equal("simkgc entities", entities, expected["entities.json"])
    for split, rows in made.splits.items():
        told = [(row["head_id"], row["relation"], row["tail_id"])
                for row in expected[f"{split}.txt.json"]]  # fmt: skip
        compared.equal(f"simkgc {split}", rows, told)


def test_texts_of_relations(golden: Golden, compared: Any) -> None:
    for name, text in golden.read("relation_text_fb15k237"):
        compared.equal("simkgc relation text", freebase_relation(name), text)


def test_texts_of_entities(golden: Golden, task: str, compared: Any) -> None:
    cases = golden.read(f"text_cases_{task}")
    for name, description, text in cases["concat_name_desc"]:
        compared.equal("simkgc named", named(name, description), text)
    parse = wordnet_name if task == "wn18rr" else str
    for name, text in cases["parse_entity_name"]:
        compared.equal("simkgc names", parse(name), text)


def test_word_pieces_of_triples(golden: Golden, task: str, compared: Any) -> None:
    worlds = {linked: golden.world(task, is_linked=linked) for linked in (False, True)}
    for one in golden.read(f"tokenization_{task}")["examples"]:
        world, others = worlds[one["use_link_graph"]], None
        row = world.rows([(one["head_id"], one["relation"], one["tail_id"])])[0].tolist()
        others = (None, None) if one["is_test"] else (row[2], row[0])
        head = world.texts.entity(row[0], without=others[0])
        tail = world.texts.entity(row[2], without=others[1])
        relation = world.texts.relation(row[1])
        compared.equal("simkgc pair", [head, relation], one["hr_text"])
        compared.equal("simkgc head", head, one["head_text"])
        compared.equal("simkgc tail", tail, one["tail_text"])
        for name, text, second in (("hr", head, relation), ("head", head, None),
                                   ("tail", tail, None)):  # fmt: skip
            seconds = None if second is None else [second]
            n = one["max_num_tokens"]
            tokens = tokenised(golden.tokenizer, [text], seconds, n_tokens=n)
            compared.equal("simkgc ids", tokens.ids[0].tolist(), one[f"{name}_token_ids"])
            compared.equal("simkgc types", tokens.types[0].tolist(), one[f"{name}_token_type_ids"])


def test_word_pieces_of_entities_and_free_texts(golden: Golden, task: str, compared: Any) -> None:
    told = golden.read(f"tokenization_{task}")
    worlds = {linked: golden.world(task, is_linked=linked) for linked in (False, True)}
    for one in told["entities"]:
        world = worlds[one["use_link_graph"]]
        text = world.texts.entity(world.entities.index(one["entity_id"]))
        compared.equal("simkgc entity", text, one["tail_text"])
    for one in told["free"]:
        seconds = None if one["text_pair"] is None else [one["text_pair"]]
        tokens = tokenised(golden.tokenizer, [one["text"]], seconds, n_tokens=one["max_num_tokens"])
        compared.equal("simkgc free", tokens.ids[0].tolist(), one["input_ids"])
        compared.equal("simkgc free types", tokens.types[0].tolist(), one["token_type_ids"])
    world = worlds[True]
    for name, key, limit in (("all", "link_graph", None), ("first", "neighbor_ids", 10)):
        for entity, others in told[key].items():
            found = world.links.of(world.entities.index(entity))[:limit]
            names = [world.entities[i] for i in found.tolist()]
            compared.equal(f"simkgc links {name}", names, others)


# ---- batches -------------------------------------------------------------------------------------
def test_batches_and_masks(golden: Golden, compared: Any) -> None:
    inputs, step = golden.load("inputs"), golden.step(torch.float32)
    world = golden.world(golden.training["task"], is_linked=golden.training["use_link_graph"])
    loaded = with_inverses(world.train, len(world.relations))
    for number, rows in enumerate(golden.batches):
        places = [one["index_in_loaded_train"] for one in golden.training["batches"][number]]
        compared.equal("simkgc loaded", loaded[places].tolist(), rows.tolist())
        heads = [step.texts.entity(h, without=t) for h, _, t in rows.tolist()]
        tails = [step.texts.entity(t, without=h) for h, _, t in rows.tolist()]
        relations = [step.texts.relation(r) for r in rows[:, 1].tolist()]
        n = golden.training["max_num_tokens"]
        for name, texts, seconds in (("hr", heads, relations), ("tail", tails, None),
                                     ("head", heads, None)):  # fmt: skip
            tokens = tokenised(golden.tokenizer, texts, seconds, n_tokens=n)
            for key, value in (("token_ids", tokens.ids), ("token_type_ids", tokens.types),
                               ("mask", tokens.mask.to(torch.uint8))):  # fmt: skip
                expected = inputs[f"batch{number}.{name}_{key}"]
                compared.equal(f"simkgc {key}", value.tolist(), expected.tolist())
        for name, mask in (("triplet_mask", step.known.mask(rows)),
                           ("self_negative_mask", step.known.head_mask(rows))):  # fmt: skip
            expected = inputs[f"batch{number}.{name}"]
            compared.equal(f"simkgc {name}", mask.tolist(), expected.tolist())
    for name in (key for key in inputs if key.startswith("pre_batch_mask")):
        row, column = (int(part.removeprefix("row_").removeprefix("col_").removeprefix("batch"))
                       for part in name.split(".")[1:])  # fmt: skip
        mask = step.known.competing(golden.batches[row], golden.batches[column][:, 2])
        compared.equal("simkgc pre-batch mask", mask.tolist(), inputs[name].tolist())


# ---- scores, losses, gradients -------------------------------------------------------------------
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_vectors(golden: Golden, precision: str, pooling: str, compared: Any) -> None:
    step, outputs = golden.step(DTYPES[precision]), golden.load("outputs")
    step.model.pooling = pooling  # type: ignore[assignment]
    rows, atol = golden.batches[0], ATOL_VECTORS[precision]
    heads = [step.texts.entity(h, without=t) for h, _, t in rows.tolist()]
    tails = [step.texts.entity(t, without=h) for h, _, t in rows.tolist()]
    relations = [step.texts.relation(r) for r in rows[:, 1].tolist()]
    n = golden.training["max_num_tokens"]
    pairs = tokenised(golden.tokenizer, heads, relations, n_tokens=n)
    with torch.no_grad():
        vectors = {
            "hr": step.model.encode_questions(pairs),
            "tail": step.model.encode_entities(tokenised(golden.tokenizer, tails, n_tokens=n)),
            "head": step.model.encode_entities(tokenised(golden.tokenizer, heads, n_tokens=n)),
        }
        states = step.model.questions(
            input_ids=pairs.ids, attention_mask=pairs.mask.long(), token_type_ids=pairs.types
        ).last_hidden_state
    for name, value in vectors.items():
        expected = outputs[f"{precision}.{pooling}.{name}_vector"]
        compared.close(f"simkgc {name}", value, expected, atol=atol)
    expected = outputs[f"{precision}.hr_last_hidden_state"]
    compared.close("simkgc states", states, expected, atol=10 * atol)


def stepped(golden: Golden, case: str, precision: str) -> Iterator[tuple[Contrast, Step]]:
    """Every step of a case, with fixed weights."""
    step = golden.step(DTYPES[precision], **CHANGES[case])
    outputs = golden.load("outputs")
    for number, batch in enumerate(golden.batches):
        if f"{precision}.{case}.step{number}.logits" in outputs:
            yield step.contrast(batch), step


@pytest.mark.parametrize("precision", DTYPES)
def test_scores_and_losses(golden: Golden, case: str, precision: str, compared: Any) -> None:
    outputs = golden.load("outputs")
    for number, (made, step) in enumerate(stepped(golden, case, precision)):
        prefix = f"{precision}.{case}.step{number}"
        atol, rtol = ATOL_LOGITS[precision], RTOL_LOSSES[precision]
        compared.close(f"simkgc {case}", made.logits.detach(), outputs[f"{prefix}.logits"],
                       atol=atol)  # fmt: skip
        forwards, backwards = (loss.detach() for loss in made.losses())
        named_losses = {
            "loss": forwards + backwards, "loss_hr_to_tail": forwards,
            "loss_tail_to_hr": backwards, "inv_t": step.model.log_scale.detach().exp(),
        }  # fmt: skip
        for name, value in named_losses.items():
            compared.close(f"simkgc {name}", value, outputs[f"{prefix}.{name}"], atol=0, rtol=rtol)
        if f"{prefix}.queue_after" in outputs and step.queue is not None:
            compared.close("simkgc queue", step.queue.vectors, outputs[f"{prefix}.queue_after"],
                           atol=atol)  # fmt: skip
            offset = int(outputs[f"{prefix}.queue_offset_after"])
            compared.equal("simkgc offset", step.queue.offset, offset)
            filled = golden.training["queue_filled_after_step"][number]
            compared.equal("simkgc filled", step.queue.is_filled, filled)


@pytest.mark.parametrize("precision", DTYPES)
def test_validation_reads_neither_margin_nor_queue(
    golden: Golden, precision: str, compared: Any
) -> None:
    outputs, step = golden.load("outputs"), golden.step(DTYPES[precision])
    with torch.no_grad():
        made = step.contrast(golden.batches[0], is_training=False)
    assert step.queue is not None
    assert step.queue.offset == 0
    compared.close("simkgc eval logits", made.logits, outputs[f"{precision}.eval.logits"],
                   atol=ATOL_LOGITS[precision])  # fmt: skip
    compared.close("simkgc eval loss", made.losses()[0], outputs[f"{precision}.eval.loss"],
                   atol=0, rtol=RTOL_LOSSES[precision])  # fmt: skip


def test_gradients(golden: Golden, compared: Any) -> None:
    grads = golden.load("grads")
    for prefix in sorted({".".join(name.split(".")[:2]) for name in grads}):
        case, number = prefix.split(".step")
        for i, (made, step) in enumerate(stepped(golden, case, "f64")):
            if i == int(number):
                sum(made.losses(), torch.zeros(())).backward()  # type: ignore[no-untyped-call]
                found = {name: p.grad for name, p in step.model.named_parameters()}
        for name, expected in grads.items():
            if name.startswith(f"{prefix}."):
                own = found[renamed(name.removeprefix(f"{prefix}."))]
                assert own is not None
                bound = max(1e-5 * float(expected.abs().max()), 1e-12)  # biases of keys have none
                compared.close("simkgc gradient", own, expected, atol=bound)


def test_the_temperature_is_learned_on_demand(golden: Golden) -> None:
    host = golden.model(torch.float32).questions
    fixed = BiEncoder(deepcopy(host), learn_temperature=False)
    told = golden.training["log_inv_t_requires_grad_without_finetune_t"]
    assert fixed.log_scale.requires_grad == told
    assert float(fixed.log_scale) == pytest.approx(golden.training["log_inv_t"])
    assert golden.training["temperature"] == 0.05


# ---- training ------------------------------------------------------------------------------------
def test_an_epoch_of_training(golden: Golden, compared: Any) -> None:
    told = golden.training["trainer"]
    world = golden.world(golden.training["task"], is_linked=golden.training["use_link_graph"])
    step = golden.step(
        torch.float32, learning_rate=told["lr"], warmup=told["warmup_given"],
        weight_decay=told["weight_decay"], gradient_norm=told["grad_clip"],
    )  # fmt: skip
    assert told["num_examples"] == 2 * len(world.train)
    per_epoch = told["num_examples"] // told["batch_size"]
    compared.equal("simkgc steps of an epoch", len(told["steps"]), per_epoch)
    schedule = rates_as_told(told, step.config, per_epoch)
    optimiser = make_optimiser(step.model, step.config)
    for number, (one, rate) in enumerate(zip(told["steps"], schedule, strict=False), 1):
        compared.close("simkgc rate", rate, one["lr"], atol=1e-12)
        forwards, backwards = step.contrast(world.rows(one["batch"])).losses()
        compared.close("simkgc forward loss", forwards.detach(), one["loss_hr_to_tail"],
                       atol=0, rtol=1e-3)  # fmt: skip
        compared.close("simkgc backward loss", backwards.detach(), one["loss_tail_to_hr"],
                       atol=0, rtol=1e-3)  # fmt: skip
        move(step.model, optimiser, forwards + backwards, number=number, rate=rate,
             norm=step.config.gradient_norm)  # fmt: skip
    state = step.model.state_dict()
    for name, expected in golden.load("trainer_after_epoch").items():
        compared.close("simkgc after epoch", state[renamed(name)], expected,
                       atol=1e-3 * float(expected.abs().max()))  # fmt: skip
    for one in told["valid"]:
        rows = world.rows(one["batch"])
        with torch.no_grad():
            made = step.contrast(rows, is_training=False)
        compared.close("simkgc valid", made.losses()[0], one["loss"], atol=0, rtol=1e-3)
    ranks = (made.logits > made.logits.diagonal()[:, None]).sum(1)
    for k in (1, 3):
        share = round(100 * float((ranks < k).float().mean()), 3)
        compared.close("simkgc Acc", share, told["valid_metric"][f"Acc@{k}"], atol=1e-3)


def rates_as_told(told: dict[str, Any], config: SimKGCConfig, per_epoch: int) -> list[float]:
    """The schedule of the number of epochs that the trainer's own rates are of."""
    after = told["valid"][0]["lr"]
    for n_epochs in range(1, 100):
        made = list(rates(n_epochs * per_epoch, config))
        warmup = min(config.warmup, len(made) // 10)
        if warmup == told["warmup_used"] and abs([*made, 0.0][per_epoch] - after) < 1e-9:
            return made
    raise AssertionError(f"no number of epochs has the rate {after} after {per_epoch} steps")


# ---- evaluation ----------------------------------------------------------------------------------
def test_ranks_with_re_ranking(golden: Golden, compared: Any) -> None:
    told, data = golden.read("evaluation"), golden.load("evaluation")
    world = golden.world(golden.training["task"], is_linked=golden.training["use_link_graph"])
    n = golden.training["max_num_tokens"]
    model = golden.model(torch.float32)
    scorer = SimKGCScorer(model, golden.tokenizer, world.texts, n_tokens=n)
    order = [world.entities.index(name) for name in told["entity_order"]]
    compared.close("simkgc entities", scorer.entities[order], data["entity_vectors"], atol=1e-6)
    splits = {name: world.rows(rows) for name, rows in world.benchmark.splits.items()}
    known, parts = Filter(splits, **world.sizes), {}
    for one in told["runs"]:
        if one.get("average"):
            metrics = averaged(*(parts[side] for side in ("forward", "backward")))
            for name, value in one["metrics"].items():
                compared.close(f"simkgc {name}", metrics[name], value, atol=1e-9)
            continue
        scorer.links, scorer.weight = world.links, one["neighbor_weight"]
        scorer.n_hops, direction = one["n_hop"], one["direction"]
        side = "tail" if direction == "forward" else "head"
        rows = torch.from_numpy(splits["test"])
        vectors = data[f"{direction}.hr_vectors"]
        compared.close("simkgc questions", scorer.questions(side, rows), vectors, atol=1e-6)
        scores = scorer.scores(side, rows)
        key = f"{direction}.w{one['neighbor_weight']}.hop{one['n_hop']}.scores_before_filter"
        if key in data:
            compared.close("simkgc scores", scores[:, order], data[key], atol=2e-6)
        anchors = splits["test"][:, 0 if direction == "forward" else 2].tolist()
        for anchor, near in zip(anchors, one["n_hop_entities"] or [], strict=False):
            found = [order.index(i) for i in world.links.within(anchor, one["n_hop"]).tolist()]
            compared.equal("simkgc near", sorted(found), sorted(near))
        result = rank(scorer, splits["test"], filter=known, ties="realistic", directions=(side,),
                      candidates="all")  # fmt: skip
        compared.equal("simkgc ranks", result.ranks.astype(int).tolist(), one["ranks"])
        compared_answers(one, scores[:, order], result, compared)
        parts[direction] = rounded(result)


def compared_answers(one: Any, scores: Tensor, result: RankingResult, compared: Any) -> None:
    """Every run's rounded metrics; the best three where nothing was filtered."""
    for name, value in one["metrics"].items():
        compared.close(f"simkgc {name}", rounded(result)[name], value, atol=1e-9)
    for row, filtered in enumerate(one["filtered"]):
        if not filtered:
            best = scores[row].topk(len(one["top3_indices"][row]))
            compared.equal("simkgc best", best.indices.tolist(), one["top3_indices"][row])
            compared.close("simkgc best scores", best.values, one["top3_scores"][row], atol=2e-6)


def rounded(result: RankingResult) -> dict[str, float]:
    """The metrics as the program prints them."""
    values = {"mean_rank": result.mr, "mrr": result.mrr}
    values |= {f"hit@{k}": result.hits(k) for k in (1, 3, 10)}
    return {name: round(value, 4) for name, value in values.items()}


def averaged(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: round((one[name] + other[name]) / 2, 4) for name in one}


def test_candidates_of_the_inductive_benchmark(golden: Golden, compared: Any) -> None:
    for path in sorted(golden.folder.glob("inductive_candidates_*.json")):
        told = json.loads(path.read_text("utf-8"))
        task = path.stem.removeprefix("inductive_candidates_")
        benchmark = golden.world(task, is_linked=False).benchmark
        compared.equal("simkgc all entities", list(benchmark.names), told["all_entities"])
        rows = benchmark.splits[told["test_file"].split(".")[0]]
        ends = {end for head, _, tail in rows for end in (head, tail)}
        found = [name for name in benchmark.names if name in ends]
        compared.equal("simkgc candidates", found, told["candidates"])


def test_contrast_alone_takes_no_more_than_its_columns(golden: Golden) -> None:
    """Without queue and heads the columns are the batch's."""
    vectors = torch.eye(3, dtype=torch.float64)
    made = contrast(vectors, vectors, torch.zeros(()), torch.ones(3, 3, dtype=torch.bool))
    assert made.logits.shape == (3, 3)
