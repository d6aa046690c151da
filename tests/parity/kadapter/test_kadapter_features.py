"""K-Adapter's preprocessing and metrics against the results of the original implementation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from kept.batches import IGNORE, KnowledgeBatch
from kept.evaluation.classification import (
    loose_scores,
    macro_scores,
    masked_accuracy,
    micro_scores,
)
from kept.tasks.datasets.conllu import Sentence, Word
from kept.training.pretraining.treebanks import DependencyData
from tests.parity.stored_digits import half_unit
from tests.reference.original_kadapter import pair_sample, sub_sample, typed_sample

METHOD = "kadapter"


def read(folder: Path, name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / name).read_text())
    return result


@pytest.fixture(scope="module")
def features(folder: Path) -> dict[str, Any]:
    return read(folder, "features.json")


@pytest.fixture(scope="module")
def metrics(folder: Path) -> dict[str, Any]:
    return read(folder, "metrics.json")


@pytest.fixture(scope="module")
def tokenizer(features: dict[str, Any]) -> Any:
    """The toy tokenizer: pieces of three letters, those that go on a word begin with +."""
    inner = Tokenizer(
        models.WordPiece(features["vocab"], unk_token="<unk>", continuing_subword_prefix="+")
    )
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    special = {"unk": "<unk>", "pad": "<pad>", "cls": "<s>", "sep": "</s>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, **{f"{name}_token": token for name, token in special.items()}
    )


def as_features(sample: KnowledgeBatch, targets: list[str]) -> dict[str, Any]:
    """A batch of one in the original's form: one-hot vectors select the targets."""
    results: dict[str, Any] = {
        "input_ids": sample.node_ids[0].tolist(),
        "input_mask": sample.node_mask[0].long().tolist(),
        "segment_ids": sample.segment_ids[0].tolist(),
    }
    for name, (start, end) in zip(targets, sample.target_spans[0].tolist(), strict=True):
        assert end == start + 1
        results[name] = (
            torch.zeros(sample.node_ids.shape[1]).index_fill(0, torch.tensor([start]), 1.0).tolist()
        )
    return results


@pytest.mark.parametrize(("task", "beyond"), [("trex", "drop"), ("tacred", "move")])
def test_pairs(
    features: dict[str, Any], tokenizer: Any, task: str, beyond: Any, compared: Any
) -> None:
    stored = features[task]
    results = [
        pair_sample(
            example["token"],
            (example["subj_start"], example["subj_end"] + 1),
            (example["obj_start"], example["obj_end"] + 1),
            stored["relations"].index(example["relation"]),
            tokenizer,
            max_words=features["max_seq_length"],
            beyond=beyond,
        )
        for example in stored["examples"]
    ]
    kept = [sample for sample in results if sample is not None]
    compared.equal(f"{task} dropped", len(results) - len(kept), stored["dropped"])
    names = ["subj_special_start_id", "obj_special_start_id"]
    for sample, expected in zip(kept, stored["features"], strict=True):
        ours = as_features(sample, names) | {"label_id": int(sample.labels)}
        compared.equal(f"{task} features", ours, {name: expected[name] for name in ours})
        assert ours.keys() == expected.keys()


def test_types(features: dict[str, Any], tokenizer: Any, compared: Any) -> None:
    stored = features["entity_typing"]
    for example, expected in zip(stored["examples"], stored["features"], strict=True):
        classes = torch.tensor([int(name in example["labels"]) for name in stored["label_list"]])
        sample = typed_sample(
            example["sent"],
            example["start"],
            example["end"],
            classes,
            tokenizer,
            max_words=features["max_seq_length"],
        )
        ours = as_features(sample, ["start_id"]) | {"label_id": sample.labels[0].tolist()}
        compared.equal("entity_typing features", ours, {name: expected[name] for name in ours})
        assert ours.keys() == expected.keys()


def tree(example: dict[str, Any]) -> Sentence:
    heads = {pair["dependent_index"]: pair["governor_index"] for pair in example["pairs"]}
    words = []
    for number, token in enumerate(example["tokens"], start=1):
        (span,) = token.values()
        form = example["sent"][span["start"] : span["end"]]
        words.append(Word(form, span["start"], span["end"], heads[number], "_", "_"))
    return Sentence(example["sent"], tuple(words))


def test_heads(features: dict[str, Any], tokenizer: Any, compared: Any) -> None:
    stored, length = features["find_head"], features["max_seq_length"]
    data = DependencyData(
        [tree(example) for example in stored["examples"]],
        tokenizer,
        max_words=length,
        placement="released",
    )
    dropped = [i for i, item in enumerate(stored["features"]) if item is None]
    compared.equal("find_head dropped", data.left_out, dropped)
    expected = [features_of for features_of in stored["features"] if features_of is not None]
    assert len(data) == len(expected)
    for i, each in enumerate(expected):
        sample = data.sample(i, epoch=0, seed=0).pad_to(length, word_pad_id=1)
        labels = sample.node_labels[0]
        ours = {
            "input_ids": sample.node_ids[0].tolist(),
            "input_mask": sample.node_mask[0].long().tolist(),
            "segment_ids": sample.segment_ids[0].tolist(),
            "label_id": labels.where(labels != IGNORE, 0).tolist(),
        }
        compared.equal("find_head features", ours, each)


def test_sane_heads_on_the_same_sentences(features: dict[str, Any], tokenizer: Any) -> None:
    """The default loses no sentence, and a split word's label stands where the word begins."""
    length = features["max_seq_length"]
    sentences = [tree(example) for example in features["find_head"]["examples"]]
    sentences = [
        sentence for sentence in sentences if len(head_labels(sentence, tokenizer)) <= length
    ]
    data = DependencyData(sentences, tokenizer, max_words=length)
    assert data.left_out == []
    for i, sentence in enumerate(sentences):
        labels = data.sample(i, epoch=0, seed=0).node_labels[0].tolist()
        assert labels == head_labels(sentence, tokenizer)


def head_labels(sentence: Sentence, tokenizer: Any) -> list[int]:
    """By hand: 1 for the root, else one more than the place of the head's first piece."""
    starts, labels = [0], [IGNORE]  # of <s>, which a root has for its head
    for word in sentence.words:
        starts.append(len(labels))
        labels += [IGNORE] * len(tokenizer.tokenize(word.form))
    for word, start in zip(sentence.words, starts[1:], strict=True):
        labels[start] = starts[word.head] + 1
    return [*labels, IGNORE]


def test_sub_sampling(features: dict[str, Any], compared: Any) -> None:
    for case in features["tacred"]["negative_sampling"]:
        actual = sub_sample(
            case["labels_in"], negative_sample=case["negative_sample"], no_relation="no_relation"
        )
        compared.equal("negative_sampling", actual, case["kept_train_indices"])
        compared.equal(
            "dev is whole", list(range(len(case["labels_in"]))), case["kept_dev_indices"]
        )


def tolerance(metrics: dict[str, Any]) -> float:
    parts = {"entity_typing": "result", "tacred": "result_p_r_f"}
    results = [metrics[part][name] for part, name in parts.items()]
    return 1e-12 + half_unit(results, metrics["trex_rc"], metrics["find_head"])


def triple(scores: Any) -> list[float]:
    return [scores.precision, scores.recall, scores.f1]


def test_typing_metrics(metrics: dict[str, Any], compared: Any) -> None:
    stored = metrics["entity_typing"]
    actual = loose_scores(stored["logits"], stored["target"], threshold=0.0, macro_over="all")
    expected = stored["result"]
    n, atol = len(stored["target"]), tolerance(metrics)
    compared.equal("exact", round(actual.exact * n), expected["exact_match_count"])
    compared.close("micro", triple(actual.micro), expected["loose_micro_p_r_f"], atol=atol)
    compared.close("macro", triple(actual.macro), expected["loose_macro_p_r_f"], atol=atol)


def test_relation_metrics(metrics: dict[str, Any], compared: Any) -> None:
    stored = metrics["tacred"]
    none = stored["no_relation"]
    actual = micro_scores(stored["pred"], stored["target"], no_relation=none)
    compared.close("tacred", triple(actual), stored["result_p_r_f"], atol=tolerance(metrics))
    silent = micro_scores(
        [none] * len(stored["pred"]), stored["target"], no_relation=none, empty_precision=1.0
    )
    compared.close(
        "tacred nothing guessed", triple(silent), stored["all_no_relation_result"], atol=0
    )
    stored = metrics["trex_rc"]
    micro = micro_scores(stored["pred"], stored["target"], no_relation=None)
    macro = macro_scores(stored["pred"], stored["target"])
    compared.close("trex micro", micro.f1, stored["micro_f1"], atol=tolerance(metrics))
    compared.close("trex macro", macro.f1, stored["macro_f1"], atol=tolerance(metrics))


def test_head_metric(metrics: dict[str, Any], compared: Any) -> None:
    stored = metrics["find_head"]
    best = np.array(stored["pred_from_logits"])
    logits = np.eye(best.max() + 1)[best]
    actual = masked_accuracy(logits, stored["gold_active"])
    compared.close("find_head", actual, stored["accuracy"], atol=tolerance(metrics))
