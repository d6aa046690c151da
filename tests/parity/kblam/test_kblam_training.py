"""KBLaM's texts, labels, training and attention to the right fact against the original's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept.decoders.kblam import wording as text
from kept.decoders.kblam.files import released_name
from kept.decoders.kblam.measures import all_nodes, attention_accuracy, attention_sums
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.training import (
    MicroBatch,
    graph_size,
    kind_of,
    new_optimiser,
    train_step,
    turn_labels,
    with_context,
)
from tests.parity.kblam.kblam_golden import LOSS, STATES, TRAINED, Golden, close, read, small

METHOD = "kblam"


# ---- texts ---------------------------------------------------------------------------------------
def facts_of(record: dict[str, Any]) -> list[text.Fact]:
    return [
        text.Fact(t["name"], t["description_type"], t["description"]) for t in record["triples"]
    ]


def test_texts(folder: Path, compared: Any) -> None:
    data = read(folder, "text")
    for fact, triple in zip(facts_of(data), data["triples"], strict=True):
        compared.equal("key", fact.key, triple["key_string"])
        compared.equal("question", fact.question(), triple["Q"])
        compared.equal("answer", fact.answer, triple["A"])
    for row in data["augment_row"]:
        fact = text.Fact(row["name"], row["description_type"], "")
        compared.equal("template", fact.question(row["template"]), row["output"])
    for row in data["multi_entity"]:
        several = [
            text.Fact(*each)
            for each in zip(row["names"], row["properties"], row["answers"], strict=True)
        ]
        actual = text.question_of_several(several, row["template"])
        compared.equal("question of several", actual, row["question"])
        compared.equal("answer of several", text.answer_of_several(several), row["answer"])
    compared.equal("refusal", text.REFUSAL, data["idk_answer"])
    for row in data["format"]:
        for name, chat in (("llama", text.LLAMA3), ("phi3", text.PHI3)):
            compared.equal("dialogue", chat.dialogue(row["Q"], row["A"]), row[f"{name}_QA"])
            compared.equal("prompt", chat.prompt(row["Q"]), row[f"{name}_Q"])
    for row in data["prune"]:
        compared.equal("stripped", text.LLAMA3.strip(row["input"]), row["llama"])
        compared.equal("stripped", text.PHI3.strip(row["input"]), row["phi3"])


INSTRUCTIONS = {
    ("icl", False): text.IN_CONTEXT, ("icl", True): text.IN_CONTEXT_SEVERAL,
    ("zeroshot", False): text.ZERO_SHOT, ("zeroshot", True): text.ZERO_SHOT_SEVERAL,
}  # fmt: skip


def test_evaluation(folder: Path, compared: Any) -> None:
    data = read(folder, "text")
    facts = facts_of(data)
    for row in data["evaluation"]:
        several, mode = row["multi_entities"] > 0, row["mode"]
        graph = [facts[i] for i in row["kb_indices"]]
        extract = text.extracted_several if several else text.extracted
        actual = [extract(written) for written in row["stub_outputs"]]
        compared.equal("extracted", actual, row["predictions_after_extraction"])
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
    data = read(folder, "text")
    facts = facts_of(data)
    for row in data["refusal"]:
        graph = [facts[i] for i in row["kb_indices"]]
        n_there, n_not = text.refusal_counts(
            row["kb_size"], row["question_size"], row["outlier_ratio"]
        )
        prompted = [*graph[:n_there], *(facts[i] for i in row["outliers_after_shuffle"][:n_not])]
        in_prompt = graph if row["mode"] == "icl" else []
        begin = text.prompt_in_context(in_prompt, "", REFUSING[row["mode"]])
        compared.equal("prompts", [begin + fact.question() for fact in prompted], row["prompts"])
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
    data = read(folder, "text")
    for row in data["step_config"]:
        actual = [
            kind_of(
                i, row["total"], n_outliers=row["outlier_num"],
                several=row["multi_entities"] is not None, extended=row["use_extended_qa"],
            )
            for i in range(row["total"])
        ]  # fmt: skip
        compared.equal("kinds", actual, [KINDS.get(kind, kind) for kind in row["kinds"]])
    for row in data["kb_size_schedule"]:
        compared.equal("graph size", graph_size(row["step"], row["kb_size"]), row["size"])


def test_training(golden: Golden, compared: Any) -> None:
    record, data = read(golden.folder, "training"), golden.load("training")
    options = {"kb_scale_factor": None} | record
    model = golden.model(options)
    fresh = KBLaM(model.host, model.config)  # queries begin as copies of the host's
    state = fresh.own_state()
    trained = {k: v for k, v in model.own_state().items() if k.startswith("encoder.")}
    model.load_own_state(state | trained)
    for name in record["trained_llm_tensors"]:
        stored_value = {released_name(n): v for n, v in model.own_state().items()}[name]
        close(compared, "before", stored_value, data[f"before.{name}"], atol=0)
    optimiser, schedule = new_optimiser(
        model, record["optimizer_steps"], learning_rate=record["lr"], decay=record["lr_decay"]
    )
    vectors = golden.load("kb_encoder_inputs")
    both = vectors["key_embeddings"], vectors["value_embeddings"]
    n_micro = record["micro_batches_per_step"]
    for step in range(record["optimizer_steps"]):
        compared.close("rate", schedule.get_last_lr()[0], record["steps"][step]["lr"], atol=1e-12)
        numbers = range(step * n_micro, (step + 1) * n_micro)
        batches = [micro_batch(golden.folder, data, record, number) for number in numbers]
        losses = train_step(model, batches, both, optimiser, schedule)
        expected = [record["micro_batches"][number]["loss"] for number in numbers]
        compared.close("training losses", losses, expected, atol=LOSS)
        for name, value in model.trained():
            theirs = released_name(name)
            stored_name = theirs if theirs.startswith("model.") else f"kb_encoder.{theirs}"
            wanted = data.get(f"step{step}.grad.{stored_name}")
            if wanted is not None:
                assert value.grad is not None
                close(compared, "summed gradient", value.grad, wanted, atol=small(wanted))
            if f"step{step}.after.{stored_name}" in data:
                after = data[f"step{step}.after.{stored_name}"]
                close(compared, "after a step", value, after, atol=TRAINED)
    assert any(key.startswith(f"step{step}.after.") for key in data)


def micro_batch(
    folder: Path, data: dict[str, Tensor], record: dict[str, Any], number: int
) -> MicroBatch:
    """The ids and facts of a micro-batch; its labels are made anew and must be the original's."""
    case = record["micro_batches"][number]
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
    for record in read(golden.folder, "text")["attention_accuracy"]:
        sizes = golden.config["kb_encoders"][record["encoder"]]
        case = {
            "encoder": record["encoder"], "kb_layer_frequency": sizes["kb_layer_frequency"],
            "sep_query_head": True,
        }  # fmt: skip
        model, vectors = golden.model(case), golden.load("kb_encoder_inputs")
        rows = torch.tensor(record["kb_indices"])
        facts = model.encoder(vectors["key_embeddings"][rows], vectors["value_embeddings"][rows])
        name = record["name"]
        ids, mask = data[f"{name}.input_ids"], data[f"{name}.attention_mask"].bool()
        with torch.no_grad():
            out = model(ids, mask, facts)
        right = torch.arange(record["questions_are_the_first"])
        for row in record["result"]:
            weights = out.states.fact_weights[row["idx"]]
            sums = attention_sums(weights, all_nodes(weights))
            wanted = data[f"{name}.attention_sum.{row['idx']}"]
            close(compared, "attention sums", sums, wanted, atol=STATES * ids.shape[1])
            actual = attention_accuracy(sums, right)
            shares = [actual.first, actual.in_five]
            compared.close("accuracy", shares, [row["acc"], row["top5acc"]], atol=1e-6)
