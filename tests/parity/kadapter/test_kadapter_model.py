"""K-Adapter's model half against the numbers of the original implementation.

`padding="released"`: every state is compared at every node, padding included, since the original's
adapters read padding. Both attention paths of the host are compared. Measured differences stay
below 8e-6 (states reach 10).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch, Visibility
from kept.convert import kadapter as keys
from kept.convert.tables import Rules, to_original, to_ours
from kept.encoders.kadapter import KAdapter, KAdapterConfig
from kept.encoders.loading import load_strictly
from kept.errors import ConfigError
from kept.heads.model import KnowledgeForTask
from kept.layers.spans import target_states
from kept.objectives.model import KnowledgeForPreTraining

METHOD = "kadapter"
ATOL = 1e-5
NAMES = {"fac": "factual", "lin": "linguistic"}
BATCHES = {"fac": "trex", "lin": "find_head", "et": "entity_typing"}
TASKS = ("et", "tacred")


@pytest.fixture(scope="module", params=["eager", "sdpa"])
def attention(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def sizes(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return result


def config_of(
    folder: Path,
    adapters: Sequence[str],
    *,
    layers: Sequence[int] | None = None,
    skip: int = 0,
    **options: Any,
) -> KAdapterConfig:
    read = sizes(folder)
    host, of_adapter = read["host"], read["adapter"]
    names = (
        "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "intermediate_size", "max_position_embeddings", "type_vocab_size", "layer_norm_eps",
        "hidden_act", "hidden_dropout_prob",
    )  # fmt: skip
    adapter = {
        "layers": list(of_adapter["adapter_list"] if layers is None else layers),
        "width": of_adapter["adapter_size"],
        "n_layers": of_adapter["num_hidden_layers"],
        "n_heads": of_adapter["num_attention_heads"],
        "intermediate": of_adapter["intermediate_size"],
        "skip": skip,
    }
    return keys.original_config(
        host={name: host[name] for name in names} | {"pad_token_id": host["padding_idx"]},
        adapters={NAMES[name]: adapter for name in adapters},
        n_relations=read["n_rel"],
        **options,
    )


def n_blocks(folder: Path) -> int:
    """How many modules an adapter has."""
    return len(sizes(folder)["adapter"]["adapter_list"])


def adapters_rules(folder: Path, names: Sequence[str]) -> dict[str, Rules]:
    return {name: keys.adapter_rules(NAMES[name], n_blocks(folder)) for name in names}


def encoder_state(folder: Path, names: Sequence[str]) -> dict[str, Tensor]:
    """Host and adapters under our names, with the prefix of a model around an encoder."""
    state = load(folder, "state_dict")
    ours = to_ours(part(state, "host."), keys.HOST)
    for name, rules in adapters_rules(folder, names).items():
        ours |= to_ours(part(state, f"{name}.adapter."), strip(rules))
    return ours


def strip(rules: Rules) -> Rules:
    return tuple((theirs.removeprefix("adapter."), ours) for theirs, ours in rules)


def encoder_of(folder: Path, names: Sequence[str], *, attention: str, **options: Any) -> KAdapter:
    model = KAdapter(config_of(folder, names, **options))
    state = encoder_state(folder, names)
    fusion = {k: v for k, v in task_state(folder, "et").items() if "fusion" in k}
    state |= {k: v for k, v in fusion.items() if k.removeprefix("encoder.") in model.state_dict()}
    load_strictly(model, {k.removeprefix("encoder."): v for k, v in state.items()})
    model.set_attn_implementation(attention)
    return model.eval()


def pretraining(folder: Path, name: str, attention: str) -> KnowledgeForPreTraining:
    read = sizes(folder)
    options = {"lin": {"n_positions": read["max_seq_length"]}}.get(name, {})
    encoder = KAdapter(config_of(folder, [name]))
    objective = keys.OBJECTIVES_OF[NAMES[name]]
    model = KnowledgeForPreTraining.of(encoder, {objective: options})
    state = load(folder, "state_dict")
    rules = keys.pretraining_rules(NAMES[name], n_blocks(folder))
    ours = to_ours(part(state, f"{name}."), rules) | to_ours(part(state, "host."), keys.HOST)
    load_strictly(model, ours)
    model.set_attn_implementation(attention)
    assert encoder.host.config._attn_implementation == attention
    return model.eval()


def task_state(folder: Path, task: str) -> dict[str, Tensor]:
    return to_ours(part(load(folder, "state_dict"), f"{task}."), keys.TYPING_OR_RELATION)


def task_model(folder: Path, task: str, fusion: str, attention: str) -> KnowledgeForTask:
    task_weights = task_state(folder, task)
    encoder = KAdapter(config_of(folder, ["fac", "lin"], fusion=fusion))
    model = KnowledgeForTask.of(
        encoder,
        "targets",
        [str(i) for i in range(len(task_weights["head.classes.weight"]))],
        problem_type=("multi" if task == "et" else "single") + "_label_classification",
        n_targets=1 if task == "et" else 2,
    )
    state, known = encoder_state(folder, ["fac", "lin"]) | task_weights, model.state_dict().keys()
    load_strictly(model, {k: v for k, v in state.items() if fusion == "concat" or k in known})
    model.set_attn_implementation(attention)
    return model.eval()


def batch_of(folder: Path, name: str) -> KnowledgeBatch:
    """An original batch in our form; markers become targets one piece long."""
    result = part(load(folder, "inputs"), f"{name}.")
    ids, mask = result["input_ids"], result["attention_mask"].bool()
    places = [
        k for k in ("start_id", "subj_special_start_id", "obj_special_start_id") if k in result
    ]
    spans = None
    if places:
        starts = torch.stack([result[k].argmax(1) for k in places], dim=1)
        spans = torch.stack([starts, starts + 1], dim=2)
    labels = result["labels"]
    by_node = name == "find_head"
    return KnowledgeBatch(
        node_ids=ids,
        node_kinds=torch.zeros_like(ids),
        node_mask=mask,
        positions=torch.zeros_like(ids),
        segment_ids=torch.zeros_like(ids),
        visibility=Visibility.among(mask),
        target_spans=spans,
        labels=None if by_node else labels,
        node_labels=labels.where(mask, IGNORE) if by_node else None,
    )


@pytest.mark.parametrize("name", NAMES)
def test_pretraining_states_and_losses(
    folder: Path, attention: str, name: str, compared: Any
) -> None:
    model, batch = pretraining(folder, name, attention), batch_of(folder, BATCHES[name])
    expected, encoder = part(load(folder, "outputs"), f"{name}."), model.encoder
    objective = model.objectives[keys.OBJECTIVES_OF[NAMES[name]]]
    with torch.no_grad():
        output = model(batch)
        states = output.hidden_states[:-1]
        steps = encoder.adapters[NAMES[name]].blockwise(
            states, Visibility.everyone(*batch.node_ids.shape)
        )
        features = objective.features(output)
    actual = {f"host.hidden_states.{i}": value for i, value in enumerate(states)}
    actual["host.last_hidden_state"] = states[-1]
    actual["host.pooled"] = hosts.pooled(encoder.host, states[-1])
    for i, step in enumerate(steps):
        actual |= {
            f"adapter.{i}.input": step.input,
            f"adapter.{i}.down": step.down,
            f"adapter.{i}.encoder_output": step.inner,
            f"adapter.{i}.output": step.output,
        }
    actual["com_features"] = features
    (actual["loss"],) = output.losses.values()
    with torch.no_grad():
        if name == "fac":
            actual["logits"] = objective.logits(features, batch.target_spans)
        else:
            actual["context_layer"], actual["attention_probs"], actual["logits"] = objective.scores(
                features, batch.node_mask
            )
    assert actual.keys() == expected.keys()
    for key, value in expected.items():
        compared.close(f"{name} {key}", actual[key].detach(), value, atol=ATOL)


@pytest.mark.parametrize("name", NAMES)
def test_pretraining_gradients(folder: Path, attention: str, name: str, compared: Any) -> None:
    model, batch = pretraining(folder, name, attention), batch_of(folder, BATCHES[name])
    sum(model(batch).losses.values()).backward()
    rules = keys.pretraining_rules(NAMES[name], n_blocks(folder))
    expected = to_ours(part(load(folder, "grads"), f"{name}."), rules)
    ours = {k: v.grad for k, v in model.named_parameters() if v.grad is not None}
    assert expected
    assert expected.keys() <= ours.keys()  # they may be stored for a part of the parameters
    for key, value in expected.items():
        compared.close(f"gradient {key}", ours[key], value, atol=ATOL)
    frozen = sizes(folder)["frozen"][f"pretrain_{name}"]
    trained = {k for k, v in model.named_parameters() if v.requires_grad}
    theirs = dict.fromkeys(frozen["adapter_model_trainable"], torch.zeros(0))
    compared.equal(f"{name} trained", sorted(trained), sorted(to_ours(theirs, rules)))
    model.train()
    assert not model.encoder.host.training
    assert model.encoder.adapters[NAMES[name]].training
    assert model.objectives.training
    n_host = sum(1 for _ in model.encoder.host.parameters())
    compared.equal(f"{name} host", n_host, frozen["host_params"])


@pytest.mark.parametrize("fusion", ["concat", "sum"])
@pytest.mark.parametrize("task", TASKS)
def test_tasks(folder: Path, attention: str, task: str, fusion: str, compared: Any) -> None:
    model = task_model(folder, task, fusion, attention)
    prefix = f"{task}.{'add' if fusion == 'sum' else fusion}."
    expected = part(load(folder, "outputs"), prefix)
    batch = batch_of(folder, BATCHES.get(task, task))
    output = model(batch)
    pooled = target_states(output.node_states, batch.target_spans).flatten(1)
    actual = {
        "pooled_input_of_dense": pooled,
        "dense": model.head.dense(pooled),
        "logits": output.class_logits,
        "loss": output.losses["class"],
    }
    if fusion == "concat":
        host = output.hidden_states[-2]
        each = model.encoder.fusion.each_with_host(host, output.adapter_states)
        actual["host.last_hidden_state"], actual["task_dense"] = host, output.node_states
        for short, name in NAMES.items():
            actual[f"{short}_adapter_output"] = output.adapter_states[name]
            actual[f"task_dense_{short}"] = each[name]
    assert actual.keys() == expected.keys()
    for key, value in expected.items():
        compared.close(prefix + key, actual[key].detach(), value, atol=ATOL)
    output.losses["class"].backward()
    grads = part(load(folder, "grads"), prefix)
    theirs = {k: v for k, v in grads.items() if not k.startswith("host.")}
    wanted = to_ours(theirs, keys.TYPING_OR_RELATION) | to_ours(part(grads, "host."), keys.HOST)
    parameters = dict(model.named_parameters())
    for key, value in wanted.items():
        compared.close(f"{prefix} gradient {key}", parameters[key].grad, value, atol=ATOL)


@pytest.mark.parametrize("fusion", ["concat", "sum"])
@pytest.mark.parametrize("task", TASKS)
def test_what_trains_in_tasks(folder: Path, task: str, fusion: str, compared: Any) -> None:
    """The released scripts' call, then every combination of their flags."""
    model = task_model(folder, task, fusion, "sdpa").train()
    named = f"finetune_{task}_{'add' if fusion == 'sum' else fusion}"
    frozen = sizes(folder)["frozen"]
    wanted = dict.fromkeys(frozen[named]["task_trainable"], torch.zeros(0))
    trained = {k for k, v in model.named_parameters() if v.requires_grad}
    task_layers = {k for k in trained if not k.startswith("encoder.host.")}
    theirs = to_ours(wanted, keys.TYPING_OR_RELATION)
    compared.equal(f"{named} trained", sorted(task_layers), sorted(theirs))
    n_host = len(trained - task_layers)
    compared.equal(f"{named} host", n_host, frozen[named]["host_trainable"])
    compared.equal(f"{named} adapters", [], frozen[named]["adapter_trainable"])
    assert model.encoder.host.training
    assert model.encoder.adapters.training  # the released scripts leave their dropout on
    model.eval()
    model(batch_of(folder, BATCHES.get(task, task))).losses["class"].backward()
    silent = {
        k for k, v in model.named_parameters() if v.grad is None and k.startswith("encoder.host.")
    }
    missing = frozen[named]["host_no_grad_received"]
    theirs_silent = {f"encoder.host.{k.removeprefix('model.')}" for k in missing}
    compared.equal(f"{named} silent", sorted(silent), sorted(theirs_silent))


@pytest.mark.parametrize(("bert", "adapter"), [("", ""), ("True", ""), ("True", "True")])
def test_flags_of_the_released_scripts(
    folder: Path, bert: str, adapter: str, compared: Any
) -> None:
    frozen = sizes(folder)["frozen"]
    expected = frozen[f"finetune_et_flags_bert={bert!r}_adapter={adapter!r}"]
    parts = ["fusion", *(["host"] if not bert else []), *(["adapters"] if not adapter else [])]
    encoder = KAdapter(config_of(folder, ["fac", "lin"], fusion="concat", task_trains=parts))
    model = KnowledgeForTask.of(encoder, "targets", ["a", "b"], n_targets=1)
    moving = [k for k, v in model.named_parameters() if v.requires_grad]
    n_host = sum(k.startswith("encoder.host.") for k in moving)
    n_adapters = sum(k.startswith("encoder.adapters.") for k in moving)
    name = f"flags {bert!r} {adapter!r}"
    compared.equal(f"{name} host", n_host, expected["host_trainable"])
    compared.equal(f"{name} adapters", n_adapters, expected["adapter_trainable"])
    n_task = len(moving) - n_host - n_adapters
    compared.equal(f"{name} task", n_task, expected["task_trainable"])


def test_other_lists_and_skips(folder: Path, attention: str, compared: Any) -> None:
    expected, batch = load(folder, "outputs"), batch_of(folder, "trex")
    variants = sizes(folder)["skip_variants"]
    for variant in variants:
        layers, skip = variant["adapter_list"], variant["adapter_skip_layers"]
        if "error" in variant:
            with pytest.raises(ConfigError, match=f"skip {skip}"):
                config_of(folder, ["fac"], layers=layers, skip=skip)
            continue
        encoder = encoder_of(
            folder, ["fac"], layers=layers, skip=skip, attention=attention, fusion="none"
        )
        with torch.no_grad():
            state = encoder(batch).adapter_states["factual"]
        compared.close(variant["tensor"], state, expected[variant["tensor"]], atol=ATOL)


def test_like_a_host(folder: Path, attention: str, compared: Any) -> None:
    """The released class that stands in for a RoBERTa, with both adapters or one."""
    expected, batch = load(folder, "outputs"), batch_of(folder, "entity_typing")
    cases = sizes(folder)["like_roberta"]
    for case in cases:
        _, kind, *chosen = case["tensor"].split(".")
        names = [part[:-1] for part in chosen if part.endswith("1")]
        fusion = {"add": "sum"}.get(kind, kind)
        encoder = encoder_of(folder, names, fusion=fusion, attention=attention)
        with torch.no_grad():
            states = encoder(batch).node_states
        compared.close(case["tensor"], states, expected[case["tensor"]], atol=ATOL)


def test_initialisation(folder: Path, compared: Any) -> None:
    """Every weight of a new adapter and of its head is drawn from the original's distribution."""
    torch.manual_seed(0)
    model = KnowledgeForPreTraining.of(KAdapter(config_of(folder, ["fac"])), {"relation_pairs": {}})
    back = to_original(
        {k: v for k, v in model.state_dict().items() if not k.startswith("encoder.host.")},
        keys.pretraining_rules("factual", n_blocks(folder)),
    )
    expected = sizes(folder)["initialisation_of_fac_adapter_model"]
    assert back.keys() == expected.keys()
    for name, value in back.items():
        theirs = expected[name]
        compared.equal(f"{name} shape", list(value.shape), theirs["shape"])
        if theirs["std"] == 0:
            compared.close(f"{name} constant", value.abs().mean(), theirs["mean_abs"], atol=0)
            continue
        n = value.numel()
        for kind, ours in (("mean_abs", value.abs().mean()), ("std", value.std())):
            compared.close(f"{name} {kind}", ours, theirs[kind], atol=0, rtol=4 / n**0.5)


@pytest.mark.parametrize("name", NAMES)
def test_key_table_round_trip_of_a_file(folder: Path, name: str, compared: Any) -> None:
    original = load(folder, "state_dict")
    model = pretraining(folder, name, "sdpa")
    rules = keys.pretraining_rules(NAMES[name], n_blocks(folder))
    for prefix, table in ((f"{name}.", rules), ("host.", keys.HOST)):
        ours = [theirs for _, theirs in table]
        state = {k: v for k, v in model.state_dict().items() if k.startswith(tuple(ours))}
        back = to_original(state, table)
        wanted = part(original, prefix)
        compared.equal("names", sorted(back), sorted(wanted))
        assert save({k: v.clone() for k, v in back.items()}) == save(wanted)


@pytest.mark.parametrize("task", TASKS)
def test_key_table_round_trip_of_a_task(folder: Path, task: str, compared: Any) -> None:
    model, wanted = (
        task_model(folder, task, "concat", "sdpa"),
        part(load(folder, "state_dict"), f"{task}."),
    )
    layers = ("encoder.fusion.", "head.")
    state = {k: v for k, v in model.state_dict().items() if k.startswith(layers)}
    back = to_original(state, keys.TYPING_OR_RELATION)
    compared.equal("names", sorted(back), sorted(wanted))
    assert save({k: v.clone() for k, v in back.items()}) == save(wanted)
