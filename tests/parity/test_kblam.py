"""KBLaM's facts, attention, pruning, generation, texts, losses and training against the original's.

The released code rounds facts to bfloat16; the golden numbers have that only in the case that says
so. Its quirks are on (`misaligned_scores`, `padding_reads`), as in `AS_RELEASED`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, PreTrainedModel

from kept.batches import IGNORE
from kept.decoders import running_positions
from kept.decoders.kblam import wording as text
from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.files import load_released, released_name
from kept.decoders.kblam.measures import all_nodes, attention_accuracy, attention_sums
from kept.decoders.kblam.model import FactEncoder, KBLaM, KBLaMOutput
from kept.decoders.kblam.rectangular import FactTokens, best_facts, gathered, products
from kept.decoders.kblam.training import (
    MicroBatch,
    graph_size,
    kind_of,
    new_optimiser,
    train_step,
    training_loss,
    turn_labels,
    with_context,
)

METHOD = "kblam"
STATES, WEIGHTS, LOSS, TRAINED = 3e-5, 3e-6, 1e-5, 1e-6
GRADIENT = 1e-5
"""Of the largest entry."""


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text("utf-8"))


def names_of(folder: Path, file: str, part: str | None = None) -> Iterator[str]:
    told = read(folder, file)
    for case in told if part is None else told[part]:
        yield case["name"]


PARAMETERS = {
    "case": lambda folder: names_of(folder, "cases", "cases"),
    "phi3_case": lambda folder: names_of(folder, "cases", "phi3"),
    "pruning": lambda folder: names_of(folder, "cases", "pruning"),
    "generation": lambda folder: names_of(folder, "generation"),
    "encoder": lambda folder: iter(read(folder, "config")["kb_encoders"]),
}


@pytest.fixture(scope="module")
def case(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    return named(read(folder, "cases")["cases"], request.param)


@pytest.fixture(scope="module")
def phi3_case(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    return named(read(folder, "cases")["phi3"], request.param)


@pytest.fixture(scope="module")
def pruning(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    return named(read(folder, "cases")["pruning"], request.param)


@pytest.fixture(scope="module")
def generation(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    return named(read(folder, "generation"), request.param)


@pytest.fixture(scope="module")
def encoder(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def named(cases: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = (case for case in cases if case["name"] == name)
    return found


@dataclass(frozen=True, eq=False)
class Golden:
    folder: Path
    config: dict[str, Any]
    kb_sets: dict[str, Any]

    def load(self, name: str) -> dict[str, Tensor]:
        return load_file(self.folder / f"{name}.safetensors")

    def part(self, name: str, prefix: str) -> dict[str, Tensor]:
        tensors = self.load(name).items()
        return {k.removeprefix(prefix): v for k, v in tensors if k.startswith(prefix)}

    def host(self, family: str) -> PreTrainedModel:
        sizes = self.config["llama"] | {"head_dim": self.config["head_dim"]}
        sizes |= {"pad_token_id": sizes["eos_token_id"]}
        if family == "phi3":
            sizes |= self.config["phi3"]
        made = AutoConfig.for_model(family, **sizes)
        return AutoModelForCausalLM.from_config(made, attn_implementation="eager").eval()

    def state(self, family: str) -> dict[str, Tensor]:
        return self.load("phi3_state_dict" if family == "phi3" else "state_dict")

    def model(self, told: dict[str, Any], family: str = "llama", name: str = "") -> KBLaM:
        """With the released weights; `name` is the encoder where a case has none."""
        sizes = self.config["kb_encoders"][told["encoder"] or name]
        projector = sizes["projector_kwargs"]
        pruned = told.get("dynamic_sparsify") and family == "llama"
        separate = told["sep_query_head"]
        config = KBLaMConfig(
            vector_width=self.config["sentence_embedding_width"],
            every=told["kb_layer_frequency"],
            separate_queries=separate,
            scale=told.get("kb_scale_factor") if separate else None,
            top_k=told["top_k_kb"] if pruned else None,
            mlp_depth=projector.get("mlp_depth", 0),
            mlp_width=projector.get("mlp_hidden_dim", 512),
            misaligned_scores=separate,
            padding_reads=True,
        )
        host, state = self.host(family), self.state(family)
        host.load_state_dict({k: v for k, v in state.items() if k in host.state_dict()})
        model = KBLaM(host, config)
        load_released(model, state, self.part("kb_encoder_state", f"{told['encoder'] or name}."))
        return model

    def facts(self, model: KBLaM, told: dict[str, Any]) -> FactTokens | None:
        if told["kb_set"] is None:
            return None
        vectors, rows = self.load("kb_encoder_inputs"), torch.tensor(self.kb_sets[told["kb_set"]])
        facts = model.encoder(vectors["key_embeddings"], vectors["value_embeddings"])
        if told.get("kb_rounded_to_bfloat16"):
            facts = FactTokens(facts.keys.bfloat16().float(), facts.values.bfloat16().float())
        return facts[rows]

    def run(self, model: KBLaM, told: dict[str, Any]) -> tuple[KBLaMOutput, dict[str, Tensor]]:
        """Without position ids the original counts from 0 through the padding."""
        given = self.part("inputs", f"{told['inputs']}.")
        ids, mask = given["input_ids"], given["attention_mask"].bool()
        if not told.get("attention_mask_given", True):
            mask = torch.ones_like(mask)
        positions = torch.arange(ids.shape[1]).expand_as(ids)
        if told["position_ids_given"]:
            positions = given["position_ids"]
        return model(ids, mask, self.facts(model, told), positions), given


@pytest.fixture(scope="module")
def golden(folder: Path) -> Golden:
    return Golden(folder, read(folder, "config"), read(folder, "cases")["kb_sets"])


def close(compared: Any, name: str, found: Any, expected: Any, *, atol: float) -> None:
    found = found.detach() if isinstance(found, Tensor) else found
    compared.close(name, found, expected, atol=atol)


def small(value: Tensor) -> float:
    """What a gradient may be off by."""
    return GRADIENT * float(value.abs().max())


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORE
    )


# ---- facts ---------------------------------------------------------------------------------------
def test_encoders(golden: Golden, encoder: str, compared: Any) -> None:
    told, given = golden.config["kb_encoders"][encoder], golden.load("kb_encoder_inputs")
    expected, options = golden.part("kb_encoder_outputs", f"{encoder}."), told["projector_kwargs"]
    made = FactEncoder(
        vector_width=golden.config["sentence_embedding_width"], stacked_width=told["out_dim"],
        mlp_depth=options.get("mlp_depth", 0), mlp_width=options.get("mlp_hidden_dim", 512),
    )  # fmt: skip
    state = golden.part("kb_encoder_state", f"{encoder}.")
    own = {n: state[released_name(f"encoder.{n}")] for n in made.state_dict()}
    made.load_state_dict(own)
    facts = made(given["key_embeddings"], given["value_embeddings"])
    for name, value in (("keys", facts.keys), ("values", facts.values)):
        close(compared, f"encoder.{name}", value, expected[name], atol=STATES)
        rounded = f"{name}_bfloat16"
        if rounded in expected:
            equal = value.bfloat16().float() == expected[rounded].float()
            assert float(equal.float().mean()) > 0.99
    config = KBLaMConfig(vector_width=1, every=told["kb_layer_frequency"])
    n_layers = golden.config["llama"]["num_hidden_layers"]
    compared.equal("slices", config.n_slices(n_layers), told["slices"])


def test_pruning(golden: Golden, pruning: dict[str, Any], compared: Any) -> None:
    data, k = golden.part("pruning", f"{pruning['name']}."), pruning["topk"]
    query, keys, values = data["query"], data["keys"], data["values"]
    counted = torch.ones(query.shape[0], query.shape[2], dtype=torch.bool)
    chosen = best_facts(query, keys, k, counted)
    compared.equal("chosen", chosen.tolist(), pruning["chosen"])
    if k < pruning["kb_len"]:
        keys, values = gathered(keys, chosen), gathered(values, chosen)
    scores = products(query * query.shape[-1] ** -0.5, data["keys"])[..., :k]
    for name, value in (("keys", keys), ("values", values), ("scores", scores)):
        close(compared, f"pruned.{name}", value, data[f"out_{name}"], atol=STATES)


# ---- attention -----------------------------------------------------------------------------------
def compare(
    golden: Golden, told: dict[str, Any], family: str, compared: Any
) -> tuple[KBLaM, KBLaMOutput, dict[str, Tensor]]:
    """States, attention, losses of one case, over every place: padding too."""
    model = golden.model(told, family)
    out, given = golden.run(model, told)
    file = "phi3_outputs" if family == "phi3" else "forward_outputs"
    expected, seen = golden.part(file, f"{told['name']}."), set()
    for key, value in expected.items():
        kind, _, number = key.partition(".")
        if kind == "logits":
            close(compared, f"{family}.logits", out.logits, value, atol=STATES)
        elif kind == "hidden":
            state = out.states.hidden_states[-1 if number == "last" else int(number)]
            close(compared, f"{family}.hidden", state, value, atol=STATES)
        elif kind == "attn_kb" or (kind == "attn" and int(number) in out.states.fact_weights):
            weights = out.states.fact_weights[int(number)]
            close(compared, "weights", weights, value[..., : weights.shape[-1]], atol=WEIGHTS)
        elif kind == "loss":
            close(compared, "loss", loss_of(out.logits, given["labels"]), value, atol=LOSS)
        elif kind == "training_loss":
            own = training_loss(out.logits, given["labels"])
            close(compared, "training loss", own, value, atol=LOSS)
        seen.add(kind)
    assert {"logits", "loss"} < seen
    return model, out, given


def test_forward(golden: Golden, case: dict[str, Any], compared: Any) -> None:
    model, out, given = compare(golden, case, "llama", compared)
    compared.equal(
        "columns", {w.shape[-1] for w in out.states.fact_weights.values()}, {case["kb_columns"]}
    )
    if not case["gradients"]:
        return
    training_loss(out.logits, given["labels"]).backward()
    expected = golden.part("grads", f"{case['name']}.")
    own = {released_name(name): value.grad for name, value in model.trained()}
    assert own.keys() == expected.keys()
    for name, value in expected.items():
        found = own[name]
        assert found is not None
        close(compared, f"gradient {name}", found, value, atol=small(value))


def test_phi3(golden: Golden, phi3_case: dict[str, Any], compared: Any) -> None:
    """Its released code does not prune, whatever is asked for."""
    compare(golden, phi3_case, "phi3", compared)


@pytest.mark.parametrize("side", ["right", "left"])
def test_without_facts_the_host_is_unchanged(golden: Golden, side: str, compared: Any) -> None:
    model = golden.model(read(golden.folder, "cases")["cases"][0])
    given = golden.part("inputs", f"{side}.")
    mask = given["attention_mask"].bool()
    positions = running_positions(mask)
    out = model(given["input_ids"], mask, None, positions)
    own = model.host(
        given["input_ids"], attention_mask=mask.long(), position_ids=positions,
        output_hidden_states=True,
    )  # fmt: skip
    assert torch.equal(out.logits[mask], own.logits[mask])
    expected = golden.part("host_outputs", f"{side}.")
    for key, value in expected.items():
        kind, _, number = key.partition(".")
        found = out.states.hidden_states[int(number)] if kind == "hidden" else out.logits
        if kind == "hidden":
            assert torch.equal(found[mask], own.hidden_states[int(number)][mask])
        close(compared, f"host.{kind}", found[mask], value[mask], atol=STATES)


# ---- generation ----------------------------------------------------------------------------------
def test_generation(golden: Golden, generation: dict[str, Any], compared: Any) -> None:
    """Pruning depends on what is fed at once: there the original has other words without cache."""
    fallback = next(iter(golden.config["kb_encoders"]))
    model = golden.model(generation, name=encoder_for(golden, generation, fallback))
    given, facts = golden.part("inputs", "prompt_left."), golden.facts(model, generation)
    n_new = len(generation["sequences"][0]) - given["input_ids"].shape[1]
    for use_cache in [True, False] if generation["same_tokens_without_cache"] else [True]:
        new = model.generate(
            given["input_ids"], given["attention_mask"].bool(), facts, n_new=n_new,
            end_id=golden.config["token_ids"]["eos_and_padding"], use_cache=use_cache,
        )  # fmt: skip
        whole = torch.cat([given["input_ids"], new], dim=1)
        compared.equal("written", whole.tolist(), generation["sequences"])


def encoder_for(golden: Golden, told: dict[str, Any], fallback: str) -> str:
    """An encoder of the case's frequency, which a case without facts does not name."""
    every = told["kb_layer_frequency"]
    of_frequency = (
        name for name, each in golden.config["kb_encoders"].items()
        if each["kb_layer_frequency"] == every
    )  # fmt: skip
    return next(of_frequency, fallback)


def test_logits_of_generation(golden: Golden, generation: dict[str, Any], compared: Any) -> None:
    """Step by step with the cache, fed with the original's own words."""
    expected = golden.load("generation_logits")[f"{generation['name']}.logits"]
    fallback = next(iter(golden.config["kb_encoders"]))
    model = golden.model(generation, name=encoder_for(golden, generation, fallback))
    given, facts = golden.part("inputs", "prompt_left."), golden.facts(model, generation)
    cache, mask = DynamicCache(config=model.host.config), given["attention_mask"].bool()
    words = torch.tensor(generation["sequences"])
    n_prompt = given["input_ids"].shape[1]
    start = 0
    for step, value in enumerate(expected):
        stop = n_prompt + step
        seen = torch.cat([mask, torch.ones(len(mask), step, dtype=torch.bool)], dim=1)
        with torch.no_grad():
            positions = running_positions(seen)[:, start:stop]
            out = model(words[:, start:stop], seen, facts, positions, cache)
        close(compared, "generation.logits", out.logits[:, -1], value, atol=STATES)
        start = stop


# ---- texts ---------------------------------------------------------------------------------------
def facts_of(told: dict[str, Any]) -> list[text.Fact]:
    return [text.Fact(t["name"], t["description_type"], t["description"]) for t in told["triples"]]


def test_texts(folder: Path, compared: Any) -> None:
    told = read(folder, "text")
    for fact, triple in zip(facts_of(told), told["triples"], strict=True):
        compared.equal("key", fact.key, triple["key_string"])
        compared.equal("question", fact.question(), triple["Q"])
        compared.equal("answer", fact.answer, triple["A"])
    for row in told["augment_row"]:
        fact = text.Fact(row["name"], row["description_type"], "")
        compared.equal("template", fact.question(row["template"]), row["output"])
    for row in told["multi_entity"]:
        several = [
            text.Fact(*each)
            for each in zip(row["names"], row["properties"], row["answers"], strict=True)
        ]
        found = text.question_of_several(several, row["template"])
        compared.equal("question of several", found, row["question"])
        compared.equal("answer of several", text.answer_of_several(several), row["answer"])
    compared.equal("refusal", text.REFUSAL, told["idk_answer"])
    for row in told["format"]:
        for name, chat in (("llama", text.LLAMA3), ("phi3", text.PHI3)):
            compared.equal("dialogue", chat.dialogue(row["Q"], row["A"]), row[f"{name}_QA"])
            compared.equal("prompt", chat.prompt(row["Q"]), row[f"{name}_Q"])
    for row in told["prune"]:
        compared.equal("stripped", text.LLAMA3.strip(row["input"]), row["llama"])
        compared.equal("stripped", text.PHI3.strip(row["input"]), row["phi3"])


INSTRUCTIONS = {
    ("icl", False): text.IN_CONTEXT, ("icl", True): text.IN_CONTEXT_SEVERAL,
    ("zeroshot", False): text.ZERO_SHOT, ("zeroshot", True): text.ZERO_SHOT_SEVERAL,
}  # fmt: skip


def test_evaluation(folder: Path, compared: Any) -> None:
    told = read(folder, "text")
    facts = facts_of(told)
    for row in told["evaluation"]:
        several, mode = row["multi_entities"] > 0, row["mode"]
        graph = [facts[i] for i in row["kb_indices"]]
        extract = text.extracted_several if several else text.extracted
        found = [extract(written) for written in row["stub_outputs"]]
        compared.equal("extracted", found, row["predictions_after_extraction"])
        start = INSTRUCTIONS.get((mode, several), "")
        begin = text.prompt_in_context(graph if mode == "icl" else [], "", start)
        for i, prompt in enumerate(row["prompts"]):
            if several:
                assert prompt.startswith(begin)
            else:
                compared.equal("prompt", prompt, begin + graph[i].question())
                compared.equal("reference", graph[i].value, row["references"][i])


REFUSING = {"kb": "", "icl": text.IN_CONTEXT_OR_REFUSE, "zeroshot": text.ZERO_SHOT_OR_REFUSE}


def test_refusal(folder: Path, compared: Any) -> None:
    told = read(folder, "text")
    facts = facts_of(told)
    for row in told["refusal"]:
        graph = [facts[i] for i in row["kb_indices"]]
        n_there, n_not = text.refusal_counts(
            row["kb_size"], row["question_size"], row["outlier_ratio"]
        )
        asked = [*graph[:n_there], *(facts[i] for i in row["outliers_after_shuffle"][:n_not])]
        shown = graph if row["mode"] == "icl" else []
        begin = text.prompt_in_context(shown, "", REFUSING[row["mode"]])
        compared.equal("prompts", [begin + fact.question() for fact in asked], row["prompts"])
        answers = re.findall(r"Model output: (.*?)\nTrue answer: ", row["report"], re.DOTALL)
        predicted = [int(text.is_refusal(answer)) for answer in answers]
        compared.equal("refused", predicted, row["prediction"])
        compared.equal("no fact", [0] * n_there + [1] * n_not, row["true_label"])


# ---- training ------------------------------------------------------------------------------------
def test_labels(folder: Path, compared: Any) -> None:
    for row in read(folder, "text")["labels"]:
        is_llama = row["model"] == "llama"
        marker, n_after = row["start_header_id" if is_llama else "user_id"], int(is_llama)
        labels = turn_labels(torch.tensor(row["input_ids"]), marker, n_after=n_after)
        compared.equal("labels", labels.tolist(), row["labels"])


KINDS = {"multi": "several"}


def test_schedule(folder: Path, compared: Any) -> None:
    told = read(folder, "text")
    for row in told["step_config"]:
        found = [
            kind_of(
                i, row["total"], n_outliers=row["outlier_num"],
                several=row["multi_entities"] is not None, extended=row["use_extended_qa"],
            )
            for i in range(row["total"])
        ]  # fmt: skip
        compared.equal("kinds", found, [KINDS.get(kind, kind) for kind in row["kinds"]])
    for row in told["kb_size_schedule"]:
        compared.equal("graph size", graph_size(row["step"], row["kb_size"]), row["size"])


def test_training(golden: Golden, compared: Any) -> None:
    told, data = read(golden.folder, "training"), golden.load("training")
    given = {"kb_scale_factor": None} | told
    model = golden.model(given)
    fresh = KBLaM(model.host, model.config)  # queries begin as copies of the host's
    state = fresh.own_state()
    learnt = {k: v for k, v in model.own_state().items() if k.startswith("encoder.")}
    model.load_own_state(state | learnt)
    for name in told["trained_llm_tensors"]:
        own = {released_name(n): v for n, v in model.own_state().items()}[name]
        close(compared, "before", own, data[f"before.{name}"], atol=0)
    optimiser, schedule = new_optimiser(
        model, told["optimizer_steps"], learning_rate=told["lr"], decay=told["lr_decay"]
    )
    vectors = golden.load("kb_encoder_inputs")
    both = vectors["key_embeddings"], vectors["value_embeddings"]
    n_micro = told["micro_batches_per_step"]
    for step in range(told["optimizer_steps"]):
        compared.close("rate", schedule.get_last_lr()[0], told["steps"][step]["lr"], atol=1e-12)
        numbers = range(step * n_micro, (step + 1) * n_micro)
        batches = [micro_batch(golden.folder, data, told, number) for number in numbers]
        losses = train_step(model, batches, both, optimiser, schedule)
        expected = [told["micro_batches"][number]["loss"] for number in numbers]
        compared.close("training losses", losses, expected, atol=LOSS)
        for name, value in model.trained():
            theirs = released_name(name)
            place = theirs if theirs.startswith("model.") else f"kb_encoder.{theirs}"
            wanted = data.get(f"step{step}.grad.{place}")
            if wanted is not None:
                assert value.grad is not None
                close(compared, "summed gradient", value.grad, wanted, atol=small(wanted))
            if f"step{step}.after.{place}" in data:
                after = data[f"step{step}.after.{place}"]
                close(compared, "after a step", value, after, atol=TRAINED)
    assert any(key.startswith(f"step{step}.after.") for key in data)


def micro_batch(
    folder: Path, data: dict[str, Tensor], told: dict[str, Any], number: int
) -> MicroBatch:
    """The ids and facts of a micro-batch; its labels are made anew and must be the original's."""
    case = told["micro_batches"][number]
    ids, mask, labels = (
        data[f"micro{number}.{name}"] for name in ("input_ids", "attention_mask", "labels")
    )
    rows = with_context(
        torch.tensor(case["first_kb_indices"]), torch.tensor(case["context_indices"])
    )
    assert rows.shape[1] == case["kb_len"]
    marker = read(folder, "config")["token_ids"]["start_header"]
    assert torch.equal(turn_labels(ids, marker, n_after=1), labels)
    return MicroBatch(ids, mask.bool(), labels, rows)


# ---- attention to the right fact -----------------------------------------------------------------
def test_attention_accuracy(golden: Golden, compared: Any) -> None:
    data = golden.load("attention_accuracy")
    for told in read(golden.folder, "text")["attention_accuracy"]:
        sizes = golden.config["kb_encoders"][told["encoder"]]
        case = {
            "encoder": told["encoder"], "kb_layer_frequency": sizes["kb_layer_frequency"],
            "sep_query_head": True,
        }  # fmt: skip
        model, vectors = golden.model(case), golden.load("kb_encoder_inputs")
        rows = torch.tensor(told["kb_indices"])
        facts = model.encoder(vectors["key_embeddings"][rows], vectors["value_embeddings"][rows])
        name = told["name"]
        ids, mask = data[f"{name}.input_ids"], data[f"{name}.attention_mask"].bool()
        with torch.no_grad():
            out = model(ids, mask, facts)
        right = torch.arange(told["questions_are_the_first"])
        for row in told["result"]:
            weights = out.states.fact_weights[row["idx"]]
            sums = attention_sums(weights, all_nodes(weights))
            wanted = data[f"{name}.attention_sum.{row['idx']}"]
            close(compared, "attention sums", sums, wanted, atol=STATES * ids.shape[1])
            found = attention_accuracy(sums, right)
            shares = [found.first, found.in_five]
            compared.close("accuracy", shares, [row["acc"], row["top5acc"]], atol=1e-6)
