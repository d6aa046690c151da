"""E-BERT with one layer of width 24, three heads, five classes and page vectors of 14 numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from entity_linking.annotations.aida import scores_of
from kept import hosts
from kept.batches import KnowledgeBatch
from kept.encoders.ebert import fit_to_words
from kept.heads.model import KnowledgeForTask
from kept.layers.vector_map import least_squares_map, orthogonal_map
from kept.training.finetuning.linking.decoding import without_overlap
from kept.training.finetuning.markers import mark_targets
from tests.parity import test_ebert as parity
from tests.parity import test_ebert_linking as linking
from tests.parity.other_sizes import tensors
from tests.reference import original_ebert as original

MODEL = {
    "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 40,
    "num_labels": 5, "wikipedia2vec_dim": 14,
}  # fmt: skip
SIZES = {32: 24, 48: 40, 4: 5}
WORDS = ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight")
RESTRICTED_AWAY = -10000.0


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    tensors.write(tensors.read(folder, "config") | MODEL, folder, "config")
    state = tensors.load(folder, "state_dict")
    result = tensors.weights(state, SIZES, n_layers=1, tied=[(WORDS[1], WORDS[0])])
    tensors.store(result, folder, "state_dict")
    draws = torch.Generator().manual_seed(1)
    width, hidden = MODEL["wikipedia2vec_dim"], MODEL["hidden_size"]
    n_vectors = len(tensors.load(folder, "wikipedia2vec")["vectors"])
    vectors = torch.randn(n_vectors, width, generator=draws)
    tensors.store({"vectors": vectors}, folder, "wikipedia2vec")
    maps(folder, width, hidden, draws)
    with tempfile.TemporaryDirectory() as temporary:
        world = parity.EBertInputs(folder, Path(temporary))
        words = hosts.word_table(world.encoder.host).weight.detach()
        aligned = fit_to_words(world.file, words, world.tokenizer)
        tensors.store({"aligned.model": aligned}, folder, "alignment_outputs")
        with torch.no_grad():
            lama(folder, world)
            relations(folder, world)
        links(folder, world)


def maps(folder: Path, width: int, hidden: int, draws: torch.Generator) -> None:
    """Other points, and what our solvers make of them."""
    n, n_few = 50, 9
    x, y = (torch.randn(n, size, generator=draws) for size in (width, hidden))
    weights, query = torch.rand(n, generator=draws) + 0.1, torch.randn(3, width, generator=draws)
    tables = {"x": x, "y": y, "w": weights, "query": query}
    tensors.store(
        tables | {"underdetermined_rows": torch.tensor([n_few])}, folder, "mapping_inputs"
    )
    linear, ortho = least_squares_map(x, y), orthogonal_map(x, y)
    result = {
        "linear.model": linear,
        "linear.apply": query @ linear, "linear.apply_1d": query[0] @ linear,
        "linear_underdetermined.model": least_squares_map(x[:n_few], y[:n_few]),
        "linear_weighted.model": least_squares_map(x, y, weights),
        "ortho.model": ortho, "ortho.apply": query @ ortho,
    }  # fmt: skip
    tensors.store(result, folder, "mapping_outputs")


def lama(folder: Path, world: parity.EBertInputs) -> None:
    """The same queries in batches of three."""
    record, output = tensors.read(folder, "lama"), {}
    record["allowed_words"] = record["allowed_words"][:-2]
    wanted = world.tokenizer.convert_tokens_to_ids(record["allowed_words"])
    forbidden = torch.ones(world.tokenizer.vocab_size, dtype=torch.bool)
    forbidden[wanted] = False
    shown_pages = [pages for _, pages in parity.queries(folder)]
    for run, pages in zip(record["runs"], shown_pages, strict=True):
        run["batch_size"] = 3
        chosen = list(zip(run["results"], pages, strict=True))
        for number, start in enumerate(range(0, len(chosen), 3)):
            part = chosen[start : start + 3]
            name, vocabulary = f"batch{number}", f"set{run['set']}.{run['vocabulary']}"
            outcome, logits = queries(world, part)
            output |= tensors.with_prefix(outcome, f"set{run['set']}.{name}.")
            output[f"{vocabulary}.{name}.logits_after_restriction"] = logits.clone()
            if run["vocabulary"] == "restricted":
                logits[:, forbidden] = RESTRICTED_AWAY
            shares = logits.softmax(-1).view(len(part), len(parity.FORMS), -1)
            for (result, _), three in zip(part, shares, strict=True):
                answer(world, result, three)
    tensors.write(record, folder, "lama")
    tensors.store(output, folder, "lama_outputs")


def queries(world: parity.EBertInputs, part: Any) -> tuple[dict[str, Tensor], Tensor]:
    """What the host says of a batch of queries, and of its words at the holes."""
    pad = world.tokenizer.pad_token_id
    samples = [one for result, page in part for one in parity.samples_of(world, result, page)]
    batch = KnowledgeBatch.stack(samples, word_pad_id=pad)
    states = world.encoder(batch).node_states
    at_hole = states[(batch.node_ids == world.tokenizer.mask_token_id) & (batch.node_kinds == 0)]
    logits = world.head.logits(at_hole, hosts.word_table(world.encoder.host).weight)
    results = {
        "attention_mask": batch.node_mask.float(), "hidden": states, "mask_hidden": at_hole,
        "input_vectors": world.inputs(batch),
    }  # fmt: skip
    return results, logits


def answer(world: parity.EBertInputs, result: dict[str, Any], three: Tensor) -> None:
    """Five best words of each input and ensemble, and the gold word's rank."""
    outcome = dict(zip(parity.FORMS, three, strict=True))
    for rule in ("avg", "max"):
        one, other = outcome["bert"], outcome["linear_replace"]
        outcome[f"linear_ens_{rule}"] = original.ensemble(one, other, rule)
    gold = world.tokenizer.convert_tokens_to_ids(result["obj_label"])
    for name, share in outcome.items():
        best = share.topk(5)
        result[f"top10:{name}"] = world.tokenizer.convert_ids_to_tokens(best.indices.tolist())
        result[f"top10_prob:{name}"] = best.values.tolist()
        result[f"gold_rank:{name}"] = 1 + int((share > share[gold]).sum())
        result[f"gold_prob:{name}"] = float(share[gold])


def relations(folder: Path, world: parity.EBertInputs) -> None:
    """The examples but the last, one token longer."""
    data = tensors.read(folder, "relation_classification")
    data["examples"] = data["examples"][:-1]
    data["max_seq_length"] += 1
    classes = [str(i) for i in range(MODEL["num_labels"])]
    model = KnowledgeForTask.of(world.encoder, "pooled", classes).eval()
    model.head.classes.load_state_dict(
        {part: world.state[f"classifier.{part}"] for part in ("weight", "bias")}
    )
    result = {}
    for case in data["cases"]:
        batch = KnowledgeBatch.stack(
            list(parts(world, data, case)), word_pad_id=world.tokenizer.pad_token_id
        ).pad_to(data["max_seq_length"], word_pad_id=world.tokenizer.pad_token_id)
        case["tokens"] = [world.tokens(batch.take(slice(i, i + 1))) for i in range(len(batch))]
        case["input_mask"] = batch.node_mask.long().tolist()
        case["label_id"] = [i % len(classes) for i in range(len(batch))]
        logits = model(batch).class_logits
        name = f"{case['ent_type']}.{'markers' if isinstance(case['pattern'], list) else 'plain'}"
        result[f"{name}.logits"], result[f"{name}.input_vectors"] = logits, world.inputs(batch)
        result[f"{name}.loss"] = F.cross_entropy(logits, torch.tensor(case["label_id"]))
    tensors.write(data, folder, "relation_classification")
    tensors.store(result, folder, "relation_classification_outputs")


def parts(world: parity.EBertInputs, record: Any, case: Any) -> Iterator[KnowledgeBatch]:
    """The samples of a case."""
    marks = [p[0] for p in case["pattern"]] if isinstance(case["pattern"], list) else []
    for example in record["examples"]:
        linked, targets = parity.example_of(record, example, world.pages)
        linked, _ = mark_targets(linked, targets, marks)
        yield world.batch(linked, case["ent_type"])


def links(folder: Path, world: parity.EBertInputs) -> None:
    """All sentences but the last; what is decided from the shares is what our decoding makes."""
    record, result, grads = tensors.read(folder, "entity_linking"), {}, {}
    n_kept = len(record["sentences"]) - 1
    for key in ("sentences", "gold_spans"):
        record[key] = record[key][:n_kept]
    for case in record["cases"]:
        kept = [i for i, sample in enumerate(case["samples"]) if sample["data_idx"][0] < n_kept]
        for key in ("samples", "predictions"):
            case[key] = [case[key][i] for i in kept]
        null, bias = (world.state[f"el.null_{n}"].clone() for n in ("vector", "bias"))
        null.requires_grad_()
        bias.requires_grad_()
        inputs, mask = original.linking_inputs(
            world.encoder, case["samples"], world.vectors, prime=case["do_prime_mask"]
        )
        world.encoder.zero_grad()
        world.head.zero_grad()
        states = original.linking_states(world.encoder, inputs, mask)
        transformed = world.head.transform(states[-1])
        scores = [
            original.linking_scores(row, sample, world.vectors, null, bias)
            for row, sample in zip(transformed, case["samples"], strict=True)
        ]
        for share, prediction in zip(scores, case["predictions"], strict=True):
            names = [name for name, _ in prediction["probabilities"]]
            pairs = zip(names, share.detach().softmax(0).tolist(), strict=True)
            prediction["probabilities"] = [list(pair) for pair in pairs]
        decided(case, linking.Texts(record), world)
        loss = original.linking_loss(scores, case["samples"])
        loss.backward()
        results = {"attention_mask": mask.long(), "input_embeddings": inputs, "loss": loss,
                 "mlm_transform": transformed, "embedding_output": states[0]}  # fmt: skip
        results |= {f"layer.{i}": state for i, state in enumerate(states[1:])}
        result |= tensors.with_prefix(results, f"{case['tag']}.")
        gradients = {f"bert.{k}": p.grad for k, p in world.encoder.host.named_parameters()}
        gradients |= {"el.null_vector": null.grad, "el.null_bias": bias.grad}
        gradients = {name: value for name, value in gradients.items() if value is not None}
        grads |= tensors.with_prefix(gradients, f"{case['tag']}.")
    tensors.write(record, folder, "entity_linking")
    tensors.store(result, folder, "entity_linking_outputs")
    tensors.store(grads, folder, "grads")


def decided(case: dict[str, Any], texts: linking.Texts, world: parity.EBertInputs) -> None:
    """Write the case's estimate, its spans without overlap, and those of each number of rounds."""
    pairs = [
        (sample["correct_idx"], max(range(len(p)), key=p.__getitem__))
        for sample, each in zip(case["samples"], case["predictions"], strict=True)
        for p in ([share for _, share in each["probabilities"]],)
    ]
    n_right = sum(gold == item > 0 for gold, item in pairs)
    n_found, n_gold = (sum(pair[side] > 0 for pair in pairs) for side in (1, 0))
    case["eval_precision_recall_f1"] = list(scores_of(n_right, n_found, n_gold))
    every, before = linking.linker_of(world, case).answers(texts.proposed), 0
    case["normalize_predictions"] = []
    for number, words in enumerate(texts.words):
        for answer in without_overlap([a for a in every if a.question.text == number]):
            first, last = texts.places(number, answer.question.mention)
            link = answer.link
            case["normalize_predictions"].append({
                "start": before + first, "end": before + last, "entity": link.entity,
                "text": words[first : last + 1], "p_null": float(answer.shares[0]),
                "p_best": next(c.score for c in link.candidates if c.entity == link.entity),
            })  # fmt: skip
        before += len(words)
    for n_rounds in case["predict_sentence"]:
        result = linking.linker_of(world, case, int(n_rounds)).disambiguate(texts.proposed)
        case["predict_sentence"][n_rounds] = [
            [[k.entity, *texts.places(i, k.mention)] for k in text.links if k.entity is not None]
            for i, text in enumerate(result)
        ]
