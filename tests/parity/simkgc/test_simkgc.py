"""SimKGC's scores, losses, gradients and training, as released."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import torch

from kept.kge.simkgc.networks import BiEncoder, Contrast, contrast
from kept.kge.simkgc.texts import tokenise
from kept.kge.simkgc.training import (
    SimKGCConfig,
    Step,
    make_optimiser,
    move,
    rates,
)
from tests.parity.simkgc.simkgc_golden import (
    ATOL_LOGITS,
    ATOL_VECTORS,
    CHANGES,
    DTYPES,
    RTOL_LOSSES,
    Golden,
    cases_of,
    poolings_of,
    renamed,
)

METHOD = "simkgc"
PARAMETERS = {"case": cases_of, "pooling": poolings_of}


@pytest.fixture(scope="module")
def case(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def pooling(request: pytest.FixtureRequest) -> str:
    """How a vector is made of a text's states."""
    chosen: str = request.param
    return chosen


# ---- scores, losses, gradients -------------------------------------------------------------------
@pytest.mark.parametrize("precision", DTYPES)
def test_vectors(golden: Golden, precision: str, pooling: str, compared: Any) -> None:
    step, outputs = golden.step(DTYPES[precision]), golden.load("outputs")
    step.model.pooling = pooling  # type: ignore[assignment]
    rows, atol = golden.batches[0], ATOL_VECTORS[precision]
    heads = [step.texts.entity(h, without=t) for h, _, t in rows.tolist()]
    tails = [step.texts.entity(t, without=h) for h, _, t in rows.tolist()]
    relations = [step.texts.relation(r) for r in rows[:, 1].tolist()]
    n = golden.training["max_num_tokens"]
    pairs = tokenise(golden.tokenizer, heads, relations, n_tokens=n)
    with torch.no_grad():
        vectors = {
            "hr": step.model.encode_questions(pairs),
            "tail": step.model.encode_entities(tokenise(golden.tokenizer, tails, n_tokens=n)),
            "head": step.model.encode_entities(tokenise(golden.tokenizer, heads, n_tokens=n)),
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
    for number, (output, step) in enumerate(stepped(golden, case, precision)):
        prefix = f"{precision}.{case}.step{number}"
        atol, rtol = ATOL_LOGITS[precision], RTOL_LOSSES[precision]
        compared.close(f"simkgc {case}", output.logits.detach(), outputs[f"{prefix}.logits"],
                       atol=atol)  # fmt: skip
        forwards, backwards = (loss.detach() for loss in output.losses())
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
        output = step.contrast(golden.batches[0], is_training=False)
    assert step.queue is not None
    assert step.queue.offset == 0
    compared.close("simkgc eval logits", output.logits, outputs[f"{precision}.eval.logits"],
                   atol=ATOL_LOGITS[precision])  # fmt: skip
    compared.close("simkgc eval loss", output.losses()[0], outputs[f"{precision}.eval.loss"],
                   atol=0, rtol=RTOL_LOSSES[precision])  # fmt: skip


def test_gradients(golden: Golden, compared: Any) -> None:
    grads = golden.load("grads")
    for prefix in sorted({".".join(name.split(".")[:2]) for name in grads}):
        case, number = prefix.split(".step")
        for i, (output, step) in enumerate(stepped(golden, case, "f64")):
            if i == int(number):
                sum(output.losses(), torch.zeros(())).backward()  # type: ignore[no-untyped-call]
                gradients = {name: p.grad for name, p in step.model.named_parameters()}
        for name, expected in grads.items():
            if name.startswith(f"{prefix}."):
                gradient = gradients[renamed(name.removeprefix(f"{prefix}."))]
                assert gradient is not None
                bound = max(1e-5 * float(expected.abs().max()), 1e-12)  # biases of keys have none
                compared.close("simkgc gradient", gradient, expected, atol=bound)


def test_the_temperature_is_learned_on_demand(golden: Golden) -> None:
    host = golden.model(torch.float32).questions
    temperature = golden.training["temperature"]
    fixed = BiEncoder(deepcopy(host), learn_temperature=False, temperature=temperature)
    expected = golden.training["log_inv_t_requires_grad_without_finetune_t"]
    assert fixed.log_scale.requires_grad == expected
    assert float(fixed.log_scale) == pytest.approx(golden.training["log_inv_t"])


# ---- training ------------------------------------------------------------------------------------
def test_an_epoch_of_training(golden: Golden, compared: Any) -> None:
    record = golden.training["trainer"]
    world = golden.world(golden.training["task"], is_linked=golden.training["use_link_graph"])
    step = golden.step(
        torch.float32, learning_rate=record["lr"], warmup=record["warmup_given"],
        weight_decay=record["weight_decay"], gradient_norm=record["grad_clip"],
    )  # fmt: skip
    assert record["num_examples"] == 2 * len(world.train)
    per_epoch = record["num_examples"] // record["batch_size"]
    compared.equal("simkgc steps of an epoch", len(record["steps"]), per_epoch)
    schedule = rates_as_told(record, step.config, per_epoch)
    optimiser = make_optimiser(step.model, step.config)
    for number, (one, rate) in enumerate(zip(record["steps"], schedule, strict=False), 1):
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
    for one in record["valid"]:
        rows = world.rows(one["batch"])
        with torch.no_grad():
            output = step.contrast(rows, is_training=False)
        compared.close("simkgc valid", output.losses()[0], one["loss"], atol=0, rtol=1e-3)
    ranks = (output.logits > output.logits.diagonal()[:, None]).sum(1)
    for k in (1, 3):
        share = round(100 * float((ranks < k).float().mean()), 3)
        compared.close("simkgc Acc", share, record["valid_metric"][f"Acc@{k}"], atol=1e-3)


def rates_as_told(record: dict[str, Any], config: SimKGCConfig, per_epoch: int) -> list[float]:
    """The schedule of the number of epochs that the trainer's own rates are of."""
    after = record["valid"][0]["lr"]
    for n_epochs in range(1, 100):
        all_rates = list(rates(n_epochs * per_epoch, config))
        warmup = min(config.warmup, len(all_rates) // 10)
        if warmup == record["warmup_used"] and abs([*all_rates, 0.0][per_epoch] - after) < 1e-9:
            return all_rates
    raise AssertionError(f"no number of epochs has the rate {after} after {per_epoch} steps")


def test_contrast_alone_takes_no_more_than_its_columns(golden: Golden) -> None:
    """Without queue and heads the columns are the batch's."""
    vectors = torch.eye(3, dtype=torch.float64)
    output = contrast(vectors, vectors, torch.zeros(()), torch.ones(3, 3, dtype=torch.bool))
    assert output.logits.shape == (3, 3)
