"""KBLaM's facts, attention, pruning and generation against the original's.

The released code rounds facts to bfloat16; the golden numbers have that only in the case that says
so. Its quirks are on (`misaligned_scores`, `padding_reads`), as in `AS_RELEASED`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from kept.decoders import running_positions
from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.files import released_name
from kept.decoders.kblam.model import FactEncoder, KBLaM, KBLaMOutput
from kept.decoders.kblam.rectangular import best_facts, gathered, products
from kept.decoders.kblam.training import (
    training_loss,
)
from tests.parity.kblam.kblam_golden import (
    LOSS,
    STATES,
    WEIGHTS,
    Golden,
    close,
    loss_of,
    named,
    names_of,
    read,
    small,
)

METHOD = "kblam"
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


# ---- facts ---------------------------------------------------------------------------------------
def test_encoders(golden: Golden, encoder: str, compared: Any) -> None:
    record, inputs = golden.config["kb_encoders"][encoder], golden.load("kb_encoder_inputs")
    expected, options = golden.part("kb_encoder_outputs", f"{encoder}."), record["projector_kwargs"]
    result = FactEncoder(
        vector_width=golden.config["sentence_embedding_width"], stacked_width=record["out_dim"],
        mlp_depth=options.get("mlp_depth", 0), mlp_width=options.get("mlp_hidden_dim", 512),
    )  # fmt: skip
    state = golden.part("kb_encoder_state", f"{encoder}.")
    encoder_state = {n: state[released_name(f"encoder.{n}")] for n in result.state_dict()}
    result.load_state_dict(encoder_state)
    facts = result(inputs["key_embeddings"], inputs["value_embeddings"])
    for name, value in (("keys", facts.keys), ("values", facts.values)):
        close(compared, f"encoder.{name}", value, expected[name], atol=STATES)
        rounded = f"{name}_bfloat16"
        if rounded in expected:
            equal = value.bfloat16().float() == expected[rounded].float()
            assert float(equal.float().mean()) > 0.99
    config = KBLaMConfig(vector_width=1, every=record["kb_layer_frequency"])
    n_layers = golden.config["llama"]["num_hidden_layers"]
    compared.equal("slices", config.n_slices(n_layers), record["slices"])


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
    golden: Golden, record: dict[str, Any], family: str, compared: Any
) -> tuple[KBLaM, KBLaMOutput, dict[str, Tensor]]:
    """States, attention, losses of one case, over every place: padding too."""
    model = golden.model(record, family)
    out, inputs = golden.run(model, record)
    file = "phi3_outputs" if family == "phi3" else "forward_outputs"
    expected, seen = golden.part(file, f"{record['name']}."), set()
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
            close(compared, "loss", loss_of(out.logits, inputs["labels"]), value, atol=LOSS)
        elif kind == "training_loss":
            of_training = training_loss(out.logits, inputs["labels"])
            close(compared, "training loss", of_training, value, atol=LOSS)
        seen.add(kind)
    assert {"logits", "loss"} < seen
    return model, out, inputs


def test_forward(golden: Golden, case: dict[str, Any], compared: Any) -> None:
    model, out, inputs = compare(golden, case, "llama", compared)
    compared.equal(
        "columns", {w.shape[-1] for w in out.states.fact_weights.values()}, {case["kb_columns"]}
    )
    if not case["gradients"]:
        return
    training_loss(out.logits, inputs["labels"]).backward()
    expected = golden.part("grads", f"{case['name']}.")
    gradients = {released_name(name): value.grad for name, value in model.trained()}
    assert expected
    assert expected.keys() <= gradients.keys()  # they may be stored for a part of the parameters
    for name, value in expected.items():
        actual = gradients[name]
        assert actual is not None
        close(compared, f"gradient {name}", actual, value, atol=small(value))


def test_phi3(golden: Golden, phi3_case: dict[str, Any], compared: Any) -> None:
    """Its released code does not prune, whatever is asked for."""
    compare(golden, phi3_case, "phi3", compared)


@pytest.mark.parametrize("side", ["right", "left"])
def test_without_facts_the_host_is_unchanged(golden: Golden, side: str, compared: Any) -> None:
    model = golden.model(read(golden.folder, "cases")["cases"][0])
    inputs = golden.part("inputs", f"{side}.")
    mask = inputs["attention_mask"].bool()
    positions = running_positions(mask)
    out = model(inputs["input_ids"], mask, None, positions)
    of_host = model.host(
        inputs["input_ids"], attention_mask=mask.long(), position_ids=positions,
        output_hidden_states=True,
    )  # fmt: skip
    assert torch.equal(out.logits[mask], of_host.logits[mask])
    expected = golden.part("host_outputs", f"{side}.")
    for key, value in expected.items():
        kind, _, number = key.partition(".")
        actual = out.states.hidden_states[int(number)] if kind == "hidden" else out.logits
        if kind == "hidden":
            assert torch.equal(actual[mask], of_host.hidden_states[int(number)][mask])
        close(compared, f"host.{kind}", actual[mask], value[mask], atol=STATES)


# ---- generation ----------------------------------------------------------------------------------
def test_generation(golden: Golden, generation: dict[str, Any], compared: Any) -> None:
    """Pruning depends on what is fed at once: there the original has other words without cache."""
    fallback = next(iter(golden.config["kb_encoders"]))
    model = golden.model(generation, name=encoder_for(golden, generation, fallback))
    inputs, facts = golden.part("inputs", "prompt_left."), golden.facts(model, generation)
    n_new = len(generation["sequences"][0]) - inputs["input_ids"].shape[1]
    for use_cache in [True, False] if generation["same_tokens_without_cache"] else [True]:
        new = model.generate(
            inputs["input_ids"], inputs["attention_mask"].bool(), facts, n_new=n_new,
            end_id=golden.config["token_ids"]["eos_and_padding"], use_cache=use_cache,
        )  # fmt: skip
        whole = torch.cat([inputs["input_ids"], new], dim=1)
        compared.equal("written", whole.tolist(), generation["sequences"])


def encoder_for(golden: Golden, record: dict[str, Any], fallback: str) -> str:
    """An encoder of the case's frequency, which a case without facts does not name."""
    every = record["kb_layer_frequency"]
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
    inputs, facts = golden.part("inputs", "prompt_left."), golden.facts(model, generation)
    cache, mask = DynamicCache(config=model.host.config), inputs["attention_mask"].bool()
    words = torch.tensor(generation["sequences"])
    n_prompt = inputs["input_ids"].shape[1]
    start = 0
    for step, value in enumerate(expected):
        stop = n_prompt + step
        seen = torch.cat([mask, torch.ones(len(mask), step, dtype=torch.bool)], dim=1)
        with torch.no_grad():
            positions = running_positions(seen)[:, start:stop]
            out = model(words[:, start:stop], seen, facts, positions, cache)
        close(compared, "generation.logits", out.logits[:, -1], value, atol=STATES)
        start = stop
