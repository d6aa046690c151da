"""CoLAKE's fine-tuning models, metrics and LAMA ranking against the original's numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from kept import hosts
from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch
from kept.convert import colake as keys
from kept.convert.tables import to_original, to_ours
from kept.encoders.loading import load_strictly
from kept.evaluation.classification import (
    macro_scores,
    masked_accuracy,
    micro_scores,
    typing_scores,
)
from kept.graphs.graph import NodeKind
from kept.heads.model import KnowledgeForTask
from kept.objectives.model import KnowledgeForPreTraining
from tests.parity.stored_digits import half_unit
from tests.reference.original_cloze import (
    fill_template,
    filter_samples,
    rank_cloze,
    restricted_ids,
    word_forms,
)
from tests.reference.original_colake_heads import for_classification
from tests.reference.original_colake_samples import (
    SPECIAL_ENTITIES,
    GraphSample,
    collate,
    entity_rows,
    entity_vocabulary,
    label_vocabulary,
)

METHOD = "colake"
ATOL = 2e-5
RULES = {
    "re": (keys.RELATION, keys.RELATION_TIED),
    "typing": (keys.TYPING, keys.TYPING_TIED),
}


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


@pytest.fixture(scope="module")
def pretrained(folder: Path) -> KnowledgeForPreTraining:
    config = read(folder, "config.json")
    ours = keys.original_config(
        host=config["model"],
        n_entities=config["num_ent"] - N_SPECIAL_ROWS,
        n_relations=config["num_rel"] - N_SPECIAL_ROWS,
    )
    return keys.from_original(load_file(folder / "state_dict.safetensors"), ours)


def sample_of(row: dict[str, Any]) -> GraphSample:
    return GraphSample(
        words=tuple(node for node in row["nodes"] if isinstance(node, int)),
        entities=tuple(node for node in row["nodes"] if isinstance(node, str)),
        positions=tuple(row["soft_position"]),
        labels=tuple(row["labels"]) if "labels" in row else (row["label"],),
    )


def sets_of(facts: dict[str, Any]) -> dict[str, list[GraphSample]]:
    return {name: [sample_of(row) for row in rows] for name, rows in facts["sets"].items()}


def find_collated(
    facts: dict[str, Any], inputs: dict[str, Tensor], *, multi_label: bool
) -> KnowledgeBatch:
    """Our collation of the samples in the stored batch: the set whose first rows it holds."""
    sets, n = sets_of(facts), len(inputs["input_ids"])
    for samples in sets.values():
        batch = collate(
            samples[:n],
            entities=entity_vocabulary(*sets.values()),
            labels=label_vocabulary(sets["train"]),
            multi_label=multi_label,
        )
        if torch.equal(batch.node_ids, inputs["input_ids"]):
            return batch
    raise AssertionError("no set's first samples give the stored batch")


@pytest.fixture(scope="module", params=["re", "typing"])
def task(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(folder: Path, pretrained: KnowledgeForPreTraining, task: str) -> KnowledgeForTask:
    facts = read(folder, "finetune.json")[task]
    result = for_classification(
        pretrained,
        labels=list(facts["label_vocab"]),
        transform_from="relation" if task == "re" else "entity",
        multi_label=task == "typing",
        relation_rows=facts["rel_rows_for_head"],
        entity_rows=facts["entity_rows"],
        n_new_words=facts["word_vocab_after_resize"] - pretrained.config.host.vocab_size,
    )
    return result.eval()


def stored_state(folder: Path, facts: dict[str, Any], task: str) -> dict[str, Tensor]:
    whole = load_file(folder / "state_dict.safetensors")
    shared = {name: whole[name] for name in facts["taken_unchanged_from_state_dict.safetensors"]}
    return shared | load_file(folder / f"{task}_state_dict.safetensors")


def test_start_of_fine_tuning(
    folder: Path, model: KnowledgeForTask, task: str, compared: Any
) -> None:
    """What is copied from pre-training: word rows, entity rows; the class matrix and transform."""
    facts = read(folder, "finetune.json")[task]
    whole, tuned = (
        load_file(folder / f"{name}.safetensors") for name in ("state_dict", f"{task}_state_dict")
    )
    words = hosts.word_table(model.encoder.host).weight
    n_old = len(whole["roberta.embeddings.word_embeddings.weight"])
    stored = tuned["roberta.embeddings.word_embeddings.weight"]
    assert words.shape == stored.shape
    compared.close("old words", words[:n_old].detach(), stored[:n_old], atol=0)
    table = model.encoder.entity_embeddings.weight
    compared.close("entities", table.detach(), tuned["ent_embeddings_n.weight"], atol=0)
    source = "rel_lm_head" if task == "re" else "ent_lm_head"
    for part, value in model.head.transform.state_dict().items():
        compared.close("transform", value, whole[f"{source}.{part}"], atol=0)
    if facts["rel_rows_for_head"] is not None:
        rows = whole["rel_embeddings.weight"][facts["rel_rows_for_head"]]
        compared.close("classes", model.head.classes.weight.detach(), rows, atol=0)
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    theirs = to_ours(dict.fromkeys(facts["requires_grad_false"]), *RULES[task])
    compared.equal("frozen", frozen, list(theirs))


def test_inputs(folder: Path, task: str, compared: Any) -> None:
    facts = read(folder, "finetune.json")[task]
    sets = sets_of(facts)
    entities = entity_vocabulary(*sets.values())
    compared.equal("entities", list(entities.items()), list(facts["temp_entity_vocab"].items()))
    labels = label_vocabulary(sets["train"])
    compared.equal("labels", list(labels.items()), list(facts["label_vocab"].items()))
    graph_ids = {
        name: row - N_SPECIAL_ROWS
        for name, row in zip(entities, facts["entity_rows"], strict=True)
        if name not in SPECIAL_ENTITIES
    }
    compared.equal("rows", entity_rows(entities, graph_ids), facts["entity_rows"])
    inputs = load_file(folder / f"{task}_inputs.safetensors")
    batch = find_collated(facts, inputs, multi_label=task == "typing")
    real = batch.node_mask
    compared.equal("ids", batch.node_ids.tolist(), inputs["input_ids"].tolist())
    compared.equal("positions", batch.positions.tolist(), inputs["position_ids"].tolist())
    compared.equal(
        "kinds", batch.node_kinds[real].tolist(), inputs["token_type_ids"][real].tolist()
    )
    compared.equal("targets", batch.labels.tolist(), inputs["target"].tolist())
    visible = inputs["attention_mask"].bool()
    compared.equal("mask", batch.visibility.mask[real].tolist(), visible[real].tolist())
    n_words = int((batch.node_kinds[0] == NodeKind.WORD).sum())
    compared.equal("width", n_words, int(inputs["n_word_nodes"][0]))


def test_outputs_and_gradients(
    folder: Path, model: KnowledgeForTask, task: str, compared: Any
) -> None:
    facts = read(folder, "finetune.json")[task]
    rules = RULES[task]
    state = stored_state(folder, facts, task)
    renamed = to_ours(state, *rules)
    relations = {"encoder.relation_embeddings.weight": model.encoder.relation_embeddings.weight}
    load_strictly(model, renamed | relations)  # the original has no relation table here
    back = to_original({k: v for k, v in model.state_dict().items() if k in renamed}, *rules)
    compared.equal("names", sorted(back), sorted(state))
    assert save({k: v.clone() for k, v in back.items()}) == save(state)

    inputs = load_file(folder / f"{task}_inputs.safetensors")
    expected = load_file(folder / f"{task}_outputs.safetensors")
    batch = find_collated(facts, inputs, multi_label=task == "typing")
    model.zero_grad()
    output = model(batch)
    real = batch.node_mask
    names = ["embedding_output"]
    names += [f"hidden_states.{i}" for i in range(1, len(output.hidden_states))]
    for name, ours in zip(names, output.hidden_states, strict=True):
        compared.close(f"{task} {name}", ours[real].detach(), expected[name][real], atol=ATOL)
    compared.close("head input", output.pooled_state.detach(), expected["head_input"], atol=ATOL)
    logits = output.class_logits.detach()
    compared.close("logits", logits, expected["logits"], atol=ATOL)
    predicted = logits.argmax(-1) if task == "re" else logits  # its typing model predicts scores
    compared.close("predicted", predicted, expected["pred"], atol=ATOL)
    compared.close("loss", output.losses["class"].detach(), expected["loss"], atol=ATOL)

    output.losses["class"].backward()
    grads = {k.removeprefix("grad."): v for k, v in expected.items() if k.startswith("grad.")}
    ours = dict(model.named_parameters())
    for name, value in to_ours(grads, *rules).items():
        compared.close(f"{task} gradient of {name}", ours[name].grad, value, atol=ATOL)
    silent = to_ours(dict.fromkeys(facts["no_grad_received"]), *rules)
    compared.equal(
        "no gradient", [ours[name].grad is None for name in silent], [True] * len(silent)
    )
    assert model.encoder.entity_embeddings.weight.grad is None


def test_metrics(folder: Path, compared: Any) -> None:
    facts = read(folder, "metrics.json")
    atol = 1e-12 + half_unit([part["result"] for part in facts.values()])

    def check(name: str, ours: Any, result: dict[str, float]) -> None:
        for field, key in (("precision", "precision"), ("recall", "recall"), ("f1", "f_score")):
            compared.close(name, getattr(ours, field), result[key], atol=atol)

    macro, micro = facts["macro"], facts["micro"]
    check("macro", macro_scores(macro["pred"], macro["target"]), macro["result"])
    ours = micro_scores(micro["pred"], micro["target"], no_relation=micro["no_relation_idx"])
    check("micro", ours, micro["result"])
    typing = facts["typing"]
    scores = typing_scores(typing["logits"], typing["target"], threshold=0.0)
    for field, key in (("precision", "micro_p"), ("recall", "micro_r"), ("f1", "micro_f")):
        compared.close(key, getattr(scores.micro, field), typing["result"][key], atol=atol)
    # the original rounds to six places
    compared.close("exact", scores.exact, typing["result"]["acc"], atol=1e-6 + atol)
    masked = facts["mlm_accuracy"]
    accuracy = masked_accuracy(masked["logits"], masked["labels"], ignore=-1)
    compared.close("accuracy", accuracy, masked["result"]["acc"], atol=atol)


def test_lama(folder: Path, compared: Any) -> None:
    facts = read(folder, "lama.json")
    forms = word_forms(facts["pieces"])
    compared.equal("forms", forms, facts["vocab_forms"])
    listed = restricted_ids(forms, facts["common_vocab"])
    compared.equal("restricted", listed, facts["index_list"])
    masked = {r["sample"]: r["masked_position"] for r in facts["rows"] if "masked_position" in r}
    score_of = "label_score (called PERPLEXITY)"
    atol = 1e-12 + half_unit([row["MRR"] for row in facts["rows"]])
    of_scores = 1e-12 + half_unit([row.get(score_of) for row in facts["rows"]])
    for row in facts["rows"]:
        gold = forms.index(row["label"])
        ranked = rank_cloze(
            facts["logits"][row["sample"]][masked[row["sample"]]],
            gold,
            candidate_ids=listed if row.get("restricted", True) else None,
            top=row.get("topk"),
        )
        compared.close("MRR", ranked.reciprocal, row["MRR"], atol=atol)
        compared.equal("P@k", ranked.hit(row.get("P_AT", 10)), row["P_AT_X"])
        compared.equal("P@1", ranked.hit(1), row["P_AT_1"])
        if "ranked_ids" in row:
            compared.equal("ranking", list(ranked.ranked_ids), row["ranked_ids"])
        if "label_token_id" in row:
            compared.equal("gold id", gold, row["label_token_id"])
        if "masked_position" in row:
            compared.close("score", ranked.gold_score, row[score_of], atol=of_scores)
        if "ranked_words" in row:
            words = [forms[i] for i in ranked.ranked_ids]
            compared.equal("ranked words", words, row["ranked_words"])


def test_lama_samples(folder: Path, compared: Any) -> None:
    facts = read(folder, "lama.json")

    def encode(text: str) -> list[int]:
        pieces = facts["pieces"]  # a word that is no piece has no spelling
        return [pieces.index(f" {word}") for word in text.split() if f" {word}" in pieces]

    kept, skipped = filter_samples(
        facts["filter_samples_in"],
        words=facts["common_vocab"],
        forms=facts["vocab_forms"],
        encode=encode,
    )
    compared.equal("kept", kept, facts["filter_samples_kept"])
    assert len(kept) + sum(skipped.values()) == len(facts["filter_samples_in"])
    example = facts["template_example"]
    filled = fill_template(example["template"], example["subject"], mask="<mask>")
    compared.equal("template", [filled], example["result"])
