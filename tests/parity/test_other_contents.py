"""The parity tests take golden folders of any contents.

Each test makes a copy of the committed folder whose contents are of another kind, but still what
the original says: fewer numbers, rounded ones, or cases whose answers follow from the rules of the
original. Then the parity tests of the method must pass on the copy.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from kept.graphs.graph import NodeKind
from kept.kge.ultra.networks import load_ultra, make_ultra
from kept.kge.ultra.training import UltraScorer
from kept.tasks.datasets.inductive import GRAIL
from tests.forked import Forked
from tests.parity.colake.test_colake_model import kinds_of
from tests.parity.other_sizes.tensors import COMMITTED, load, read, store, write
from tests.parity.sentilare.sentilare_golden import byte_pieces
from tests.parity.sentilare.test_sentilare_preparation import reviews_of
from tests.parity.test_ultra_released import inference_triples

HERE = Path(__file__).parent
IMPORTED = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
"""Plugins of pytest that the process had loaded from which this one is forked."""


def run(golden: Path, files: Iterable[str], *, only: str = "") -> tuple[int, str]:
    """The exit status and output of the parity tests in `files` on the folder `golden`."""
    named = [next(HERE.rglob(name)) for name in files]
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", IMPORTED]
    process = Forked([*command, "-k", only, "--golden", golden, *named], os.environ)
    output, _ = process.communicate()
    return process.returncode, output


def passes(golden: Path, files: Iterable[str], *, only: str = "") -> None:
    status, output = run(golden, files, only=only)
    assert status == 0, output[-6000:]
    assert "passed" in output
    assert "skipped" not in output


def copy(golden: Path, *methods: str) -> None:
    for method in methods:
        shutil.copytree(COMMITTED / method, golden / method)


# ---- gradients stored for a part of the parameters ----------------------------------------------
WITH_GRADIENTS = {
    "colake": ["test_colake_model.py", "test_colake_finetuning.py"],
    "commonsense_gpt2": ["test_guan.py"],
    "ebert": ["test_ebert_linking.py"],
    "ernie": ["test_ernie_model.py"],
    "kadapter": ["test_kadapter_model.py"],
    "kbert": ["test_kbert.py"],
    "kblam": ["test_kblam.py", "test_kblam_training.py"],
    "kepler": ["test_kepler.py"],
    "kglm": ["test_kglm.py"],
    "knowbert": ["test_knowbert_model.py"],
    "ktnet": ["test_ktnet.py"],
    "libert": ["test_libert.py"],
    "lrlm": ["test_lrlm.py"],
    "sensebert": ["test_sensebert.py"],
    "sentilare": ["test_sentilare.py"],
    "simkgc": ["test_simkgc.py"],
    "ultra": ["test_ultra.py"],
    "wklm": ["test_wklm.py"],
}
"""The methods whose folders hold gradients, and the tests that read them."""
ABOUT_GRADIENTS = "gradients or tasks or heads or tagger or forward or training or layers"


def is_gradient(file: Path, name: str) -> bool:
    """Whether the tensor `name` of a golden file is a gradient of a parameter."""
    marked = (".grad.", "grad.", "grad:")
    return "grads" in file.stem or (file.stem != "sparse_adam" and any(m in name for m in marked))


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_gradients_of_a_part_of_the_parameters(tmp_path: Path, first: int) -> None:
    """Every other gradient is stored, from the first or from the second on."""
    copy(tmp_path, *WITH_GRADIENTS)
    for method in WITH_GRADIENTS:
        n_before = n_after = 0
        for file in (tmp_path / method).rglob("*.safetensors"):
            tensors = load_file(file)
            names = sorted(name for name in tensors if is_gradient(file, name))
            left_out = names[1 - first :: 2]
            n_before, n_after = n_before + len(names), n_after + len(names) - len(left_out)
            if left_out:
                kept = {n: v for n, v in tensors.items() if n not in left_out}
                save_file(kept, file)
        assert 0 < n_after < n_before, method
    info = read(tmp_path / "ernie", "grads_info")
    write(info | {"stored": [*load(tmp_path / "ernie", "grads")]}, tmp_path / "ernie", "grads_info")
    files = [name for names in WITH_GRADIENTS.values() for name in names]
    passes(tmp_path, files, only=ABOUT_GRADIENTS)


# ---- other cases --------------------------------------------------------------------------------
CASES = {
    "ebert": ["relation_classification"],
    "ernie": ["alignment"],
    "kbert": ["injection"],
    "kblam": ["generation", "cases"],
    "sentilare": ["tokenizer", "pretrain_examples"],
    "ultra": ["paths"],
    "wklm": ["chunking"],
}
"""Lists of cases, each of which has all that it is compared with."""
OF_CASES = [
    "test_ebert.py", "test_ernie_preparation.py", "test_kbert.py",
    "test_kblam.py", "test_sentilare_preparation.py", "test_ultra.py", "test_wklm.py",
]  # fmt: skip
SELECTIONS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "the last alone": lambda cases: cases[-1:],
    "from the last to the first": lambda cases: cases[::-1],
    "without the first": lambda cases: cases[1:] or cases,
    "every other one": lambda cases: cases[::2],
}


@pytest.mark.slow
@pytest.mark.parametrize("selection", SELECTIONS)
def test_other_cases(selection: str, tmp_path: Path) -> None:
    """As many cases as a folder has, in any order."""
    copy(tmp_path, *CASES)
    for method, names in CASES.items():
        for name in names:
            value = read(tmp_path / method, name)
            cases = SELECTIONS[selection](value if isinstance(value, list) else value["cases"])
            after = cases if isinstance(value, list) else value | {"cases": cases}
            write(after, tmp_path / method, name)
    passes(tmp_path, OF_CASES)


# ---- metrics stored rounded ---------------------------------------------------------------------
WITH_METRICS = {
    "colake": {"metrics": ["result"], "lama": ["MRR", "label_score (called PERPLEXITY)"]},
    "ebert": {"entity_linking": ["eval_precision_recall_f1"], "aida": ["score"]},
    "ernie": {
        "metrics": [
            "open_entity(eval_typing.py)", "figer(eval_figer.py)", "eval_accuracy", "eval_result",
            "score_py_p_r_f1",
        ]
    },
    "kadapter": {"metrics": ["result", "result_p_r_f", "micro_f1", "macro_f1", "accuracy"]},
    "kepler": {"kg_completion": ["metrics"]},
    "kglm": {"losses": ["metrics_over_all_chunks"]},
    "knowbert": {
        "metrics": ["metrics", "cumulative [precision, recall, f1]", "mrr"],
        "wiki/losses_and_metrics": ["metrics", "metrics_after_one_batch"],
        "wordnet_wiki/losses_and_metrics": ["metrics", "metrics_after_one_batch"],
    },
    "simkgc": {"evaluation": ["metrics"]},
    "ultra": {"evaluation": ["metrics"]},
}  # fmt: skip
"""The files of each method that hold metrics, and the keys above them."""
METRIC_TESTS = [
    "test_colake_finetuning.py", "test_ebert_linking.py", "test_ernie_preparation.py",
    "test_kadapter_features.py", "test_kepler_completion.py", "test_kglm.py",
    "test_knowbert_metrics.py", "test_simkgc_evaluation.py", "test_ultra.py",
    "test_golden_metrics.py",
]  # fmt: skip


def rounded(value: Any, keys: Iterable[str], places: int, *, below: bool = False) -> Any:
    """`value` with the numbers under `keys` rounded."""
    if isinstance(value, dict):
        return {k: rounded(v, keys, places, below=below or k in keys) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(each, keys, places, below=below) for each in value]
    return round(value, places) if below and isinstance(value, float) else value


def with_rounded_metrics(golden: Path, places: int) -> None:
    copy(golden, *WITH_METRICS)
    for method, files in WITH_METRICS.items():
        for name, keys in files.items():
            before = read(golden / method, name)
            after = rounded(before, keys, places)
            assert places > 3 or after != before, (method, name)
            write(after, golden / method, name)


@pytest.mark.slow
@pytest.mark.parametrize("places", [1, 2, 3, 4, 6, 9])
def test_metrics_stored_rounded(tmp_path: Path, places: int) -> None:
    with_rounded_metrics(tmp_path, places)
    passes(tmp_path, METRIC_TESTS)


@pytest.mark.slow
def test_a_metric_that_is_wrong_in_its_last_stored_place(tmp_path: Path) -> None:
    """The tolerance of rounded metrics is half a unit: the next rounded number is refused."""
    with_rounded_metrics(tmp_path, 3)
    metrics = read(tmp_path / "colake", "metrics")
    metrics["macro"]["result"]["recall"] += 0.001
    write(metrics, tmp_path / "colake", "metrics")
    status, output = run(tmp_path, ["test_colake_finetuning.py"], only="test_metrics")
    assert status == 1
    assert "1 failed" in output


# ---- padding that is not exactly what it was -----------------------------------------------------
@pytest.mark.slow
def test_padding_within_the_tolerance(tmp_path: Path) -> None:
    """CoLAKE's and K-BERT's padding to 1e-3, as -10000 leaves it; all others' to rounding."""
    copy(tmp_path, "colake", "kbert", "kepler", "ktnet")
    inputs = load(tmp_path / "colake", "inputs")
    real, kinds = inputs["attention_mask"].bool().any(dim=1), kinds_of(inputs)
    change_padding(tmp_path / "colake", "outputs", ~real, 1e-3)
    outputs = load(tmp_path / "colake", "outputs")
    for kind, name in zip(NodeKind, ("word_pred", "entity_pred", "relation_pred"), strict=True):
        is_padding = ~real[kinds == kind].view(len(real), -1)
        outputs[name][is_padding] = 0
    store(outputs, tmp_path / "colake", "outputs")
    mask = load(tmp_path / "kbert", "inputs")["mask"] == 0
    change_padding(tmp_path / "kbert", "outputs", mask, 1e-3)
    change_padding(tmp_path / "kbert", "outputs_float64", mask, 1e-10)
    ids = load(tmp_path / "kepler", "inputs")["mlm.src_tokens"]
    padding = ids == read(tmp_path / "kepler", "config")["pad"]
    change_padding(tmp_path / "kepler", "outputs", padding, 1e-7)
    state = load(tmp_path / "ktnet", "state_dict")
    state["concept_emb_mat"][0] = 1e-9
    store(state, tmp_path / "ktnet", "state_dict")
    files = ["test_colake_model.py", "test_kbert.py", "test_kepler.py", "test_ktnet.py"]
    passes(tmp_path, files, only="states or padding or float64 or concept_vectors")


def change_padding(golden: Path, name: str, padding: Tensor, size: float) -> None:
    """Add a little noise to all states over `padding [batch node]`."""
    tensors, draws = load(golden, name), torch.Generator().manual_seed(0)
    n_changed = 0
    for value in tensors.values():
        if value.shape[:2] == padding.shape and value.ndim == 3:
            noise = torch.rand(value[padding].shape, generator=draws) * size
            value[padding] += noise.to(value.dtype)
            n_changed += 1
    assert padding.any()
    assert n_changed
    store(tensors, golden, name)


# ---- SentiLARE ----------------------------------------------------------------------------------
REPLACED = 0.85
"""A share of a word's rate at which the original replaces the word by another."""


def with_a_replacement(case: dict[str, Any], review: dict[str, Any], golden: Path) -> bool:
    """Turn the first masked word of a case into one that is replaced; False if none is masked.

    Only the pieces differ: those of a word of another review stand where masks stood.
    """
    draws, tokenizer = case["draws"], byte_pieces(golden)
    at = 1
    for number, (word, sign) in enumerate(zip(review["words"], review["signs"], strict=True)):
        pieces = tokenizer(word, add_special_tokens=False)["input_ids"]
        rate = 0.15 if sign == 2 else 0.3
        if draws[number][-1] / rate < 0.8:
            other = tokenizer(review["other"], add_special_tokens=False)["input_ids"][: len(pieces)]
            replacement = other + [tokenizer.mask_token_id] * (len(pieces) - len(other))
            case["input_ids"][at : at + len(pieces)] = replacement
            case["tokens"][at : at + len(pieces)] = tokenizer.convert_ids_to_tokens(replacement)
            calls = [["randint", 0, review["most"][i], review["place"][i]] for i in (0, 1)]
            case["draws"] = [
                *draws[:number], ["random", REPLACED * rate], *calls, *draws[number + 1 :]
            ]  # fmt: skip
            return True
        if draws[number][-1] < rate:
            return False  # what was drawn for it shifts the rest
        at += len(pieces)
    return False


@pytest.mark.slow
def test_a_replacement_is_drawn_above_the_lower_bound(tmp_path: Path) -> None:
    """Draws with bounds hold these before the number: ["randint", lower, upper, number]."""
    copy(tmp_path, "sentilare")
    golden = tmp_path / "sentilare"
    samples = read(golden, "pretrain_examples")
    reviews = reviews_of(samples)
    position = (len(reviews) - 1, len(reviews[-1][0][0]) - 1)
    other = reviews[position[0]][0][0][position[1]]
    assert min(position) > 0
    n_changed = 0
    for case in samples["cases"]:
        words, signs = ([x for each in reviews[case["index"]] for x in each[i]] for i in (0, 2))
        review = {
            "words": words, "signs": signs, "other": other, "place": position, "most": position,
        }  # fmt: skip
        n_changed += with_a_replacement(case, review, golden)
    assert n_changed
    write(samples, golden, "pretrain_examples")
    passes(tmp_path, ["test_sentilare_preparation.py"])


@pytest.mark.slow
def test_an_odd_number_of_rows_for_a_choice_head(tmp_path: Path) -> None:
    """One row more than makes whole questions: the scores are those of the questions."""
    copy(tmp_path, "sentilare")
    golden = tmp_path / "sentilare"
    features, outputs = read(golden, "finetune_features"), load(golden, "finetune_outputs")
    rows = features["cases"][0]["features"]
    rows.append(rows[-1])
    assert outputs["choice.logits"].numel() == len(rows) - 1
    for name in ("sequence.logits", "multilabel.logits", "multilabel.labels", "token.logits"):
        outputs[name] = torch.cat([outputs[name], outputs[name][-1:]])
    outputs["token.labels"] = torch.cat([outputs["token.labels"], outputs["token.labels"][-1:]])
    gold = torch.tensor([row["label_id"] for row in rows])
    outputs["sequence.loss"] = F.cross_entropy(outputs["sequence.logits"], gold)
    shares, labels = outputs["multilabel.logits"], outputs["multilabel.labels"]
    outputs["multilabel.loss"] = F.binary_cross_entropy(shares, labels)
    is_token = torch.tensor([row["input_mask"] for row in rows]).bool()
    logits, labels = outputs["token.logits"][is_token], outputs["token.labels"][is_token]
    outputs["token.loss"] = F.cross_entropy(logits, labels, ignore_index=-1)
    write(features, golden, "finetune_features")
    store(outputs, golden, "finetune_outputs")
    passes(tmp_path, ["test_sentilare.py"])


# ---- WKLM, SenseBERT, E-BERT, Wikipedia2Vec ------------------------------------------------------
@pytest.mark.slow
def test_pieces_whose_only_mentions_are_empty(tmp_path: Path) -> None:
    """Whether a piece has mentions is asked first, and the empty ones are dropped when written."""
    copy(tmp_path, "wklm")
    cases = read(tmp_path / "wklm", "chunking")
    text = "a b c d e f g h i j k"
    lines = [text, "1 2 1||5 0 1||9 0 0", "x||x||x"]
    pieces = {
        "context": ["a b c d", "e f g h", "i j k"], "lbl": ["1", "", ""], "len": ["2", "", ""],
        "offset": ["1", "", ""],
    }  # fmt: skip
    output = {f"train/{name}_0.txt": column for name, column in pieces.items()}
    output |= {f"train/{name}_1.txt": [] for name in pieces}
    output |= {f"valid/{name}_0.txt": column for name, column in pieces.items()}
    shards = {"shard_0": lines, "shard_1": lines}
    cases.append({"chunk_size": 5, "input_files": shards, "output_files": output})
    write(cases, tmp_path / "wklm", "chunking")
    passes(tmp_path, ["test_wklm.py"], only="chunks")


@pytest.mark.slow
def test_the_replacement_character_parts_words(tmp_path: Path) -> None:
    """U+FFFD becomes a blank, as control characters do."""
    copy(tmp_path, "sensebert")
    data = read(tmp_path / "sensebert", "tokenizer")
    known = next(case for case in data["cases"] if len(case["tokens"]) > 1)
    (_, first), (second, _) = known["spans"][:2]
    assert known["text"][first:second] == " "
    text = known["text"][:first] + "\N{REPLACEMENT CHARACTER}" + known["text"][second:]
    data["cases"].append(known | {"text": text})
    write(data, tmp_path / "sensebert", "tokenizer")
    passes(tmp_path, ["test_sensebert.py"], only="word_pieces")


@pytest.mark.slow
def test_links_in_order_of_acceptance(tmp_path: Path) -> None:
    copy(tmp_path, "ebert")
    data = read(tmp_path / "ebert", "entity_linking")
    n_changed = 0
    for case in data["cases"]:
        case["normalize_predictions"].reverse()
        for sentences in case["predict_sentence"].values():
            for spans in sentences:
                if isinstance(spans, list) and len(spans) > 1:
                    spans.reverse()
                    n_changed += 1
    assert n_changed
    write(data, tmp_path / "ebert", "entity_linking")
    passes(tmp_path, ["test_ebert_linking.py"], only="decoding")


@pytest.mark.slow
@pytest.mark.parametrize("length", [8, 11])
def test_texts_longer_than_the_maximum(tmp_path: Path, length: int) -> None:
    """Entities are inserted first; then a text is cut to the maximum, [SEP] its last piece."""
    copy(tmp_path, "ebert")
    data = read(tmp_path / "ebert", "relation_classification")
    n_cut = 0
    for case in data["cases"]:
        for i, (tokens, mask) in enumerate(zip(case["tokens"], case["input_mask"], strict=True)):
            if sum(mask) > length:
                case["tokens"][i] = [*tokens[: length - 1], "[SEP]"]
                n_cut += 1
            case["tokens"][i] = case["tokens"][i][:length]
            case["input_mask"][i] = mask[:length]
    assert n_cut
    write(data | {"max_seq_length": length}, tmp_path / "ebert", "relation_classification")
    passes(tmp_path, ["test_ebert.py"], only="relation_inputs")


@pytest.mark.slow
def test_redirects_of_wikipedia2vec(tmp_path: Path) -> None:
    """Links to another title of a page count for it; those to a part of a page do not count."""
    copy(tmp_path, "wikipedia2vec")
    golden = tmp_path / "wikipedia2vec"
    data = read(golden, "data")
    links = [link for page in data["pages"].values() for text in page for link in text["links"]]
    moved = next(link for link in links if link["title"] == "River Sorn")
    moved["title"] = "Sorn (river)"
    data["redirects"] = [["Sorn (river)", "River Sorn"]]
    text = next(text for page in data["pages"].values() for text in page if text["links"])
    start, end = text["links"][0]["start"], text["links"][0]["end"]
    part = {"text": text["text"][start:end], "title": "Sand#Uses", "start": start, "end": end}
    text["links"].append(part)
    write(data, golden, "data")
    passes(tmp_path, ["test_wikipedia2vec.py"])


# ---- ULTRA --------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.data
def test_a_real_graph_of_another_name(tmp_path: Path, data_root: Path) -> None:
    """The first questions of another data set, by our own scores, in a file of its own name."""
    (tmp_path / "ultra").mkdir()
    parts = inference_triples(data_root / GRAIL, "WN18RR_v1_ind")
    triples = [triple for part in parts.values() for triple in part]
    entities = [*dict.fromkeys(end for head, _, tail in triples for end in (head, tail))]
    relations = [*dict.fromkeys(relation for _, relation, _ in triples)]
    report = {
        "dataset": "WN18RR_v1_ind", "checkpoint": "ultra_4g", "entity_order": entities,
        "relation_order": relations,
    }  # fmt: skip
    ids = {name: i for i, name in enumerate(entities)}
    numbers = {name: i for i, name in enumerate(relations)}
    rows = {
        name: np.array([(ids[h], numbers[r], ids[t]) for h, r, t in part])
        for name, part in parts.items()
    }
    model = make_ultra()
    load_ultra(model, data_root / "ultra/ultra_4g.safetensors")
    sizes = {"n_entities": len(ids), "n_relations": len(numbers)}
    scorer = UltraScorer(model, rows["train"], **sizes)
    queries = torch.tensor(rows["test"][:4])
    result = {"queries_h_t_r": queries[:, [0, 2, 1]]}
    for side, answer in (("tail", 2), ("head", 0)):
        scores = scorer.scores(side, queries)  # type: ignore[arg-type]
        ranks = []
        for row, score in zip(queries.tolist(), scores, strict=True):
            others = [
                known[answer] for part in rows.values() for known in part.tolist()
                if all(known[i] == row[i] for i in range(3) if i != answer)
            ]  # fmt: skip
            kept = torch.ones(len(score), dtype=torch.bool)
            kept[others] = False
            ranks.append(1 + int((score[kept] >= score[row[answer]]).sum()))
        result[f"kernel.{side}.scores"] = scores
        result |= {
            f"kernel.{side}.rank_{end}": torch.tensor(ranks) for end in ("lowest", "highest")
        }
    vectors = model.relation_model(scorer.between, queries[:1, 1])[0]
    result["kernel.first_relation_representations"] = vectors
    store(result, tmp_path / "ultra", "real_WN18RR_v1")
    write(report, tmp_path / "ultra", "real_WN18RR_v1")
    passes(tmp_path, ["test_ultra_released.py"], only="test_released_weights")
