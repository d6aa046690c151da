"""E-BERT's linking head, its decoding, and AIDA's form and scores, by the original's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from entity_linking.annotations.aida import macro, micro, read_aida, scores_of, span_lines
from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.batches import KnowledgeBatch
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WORDS_ONLY, EBERTView
from kept.heads.model import KnowledgeForTask
from kept.tasks.kinds import LINKING, SCORE
from kept.training.finetuning.linking.decoding import EBERTLinker, without_overlap
from kept.training.finetuning.linking.questions import CandidateData, questions_of
from tests.parity.stored_digits import half_unit
from tests.parity.test_ebert import ATOL, METHOD, RTOL, EBertInputs, load, read

__all__ = ["METHOD"]
BUILDER = BuilderConfig(max_words=64, max_nodes=128, **WORDS_ONLY)


@pytest.fixture(scope="module")
def world(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> EBertInputs:
    return EBertInputs(folder, tmp_path_factory.mktemp("ebert-linking"))


class Texts:
    """Their sentences with the spans that their table knows, and the gold spans."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.words = record["sentences"]
        self.starts = [
            [len(" ".join(words[:i])) + (i > 0) for i in range(len(words))] for words in self.words
        ]
        table = record["candidate_table"]
        longest = max(len(key.split()) for key in table)
        self.proposed = [
            self._text(number, [
                (first, last, [Candidate(name, prior, prior) for name, prior in table[key]])
                for first in range(len(words))
                for last in range(first, min(first + longest, len(words)))
                if (key := " ".join(words[first : last + 1])) in table
            ])
            for number, words in enumerate(self.words)
        ]  # fmt: skip
        self.gold = [
            self._text(number, [(a, b, [Candidate(name, 1.0, 1.0)]) for name, a, b in spans])
            for number, spans in enumerate(record["gold_spans"])
        ]

    def _text(self, number: int, spans: list[Any]) -> LinkedText:
        links = [
            Link(self.mention(number, a, b), tuple(candidates), candidates[0].entity, 1.0)
            for a, b, candidates in spans
        ]
        return LinkedText(" ".join(self.words[number]), tuple(links), str(number))

    def mention(self, number: int, first: int, last: int) -> Mention:
        starts, words = self.starts[number], self.words[number]
        return Mention(starts[first], starts[last] + len(words[last]))

    def places(self, number: int, mention: Mention) -> tuple[int, int]:
        """First and last word of a mention."""
        starts = self.starts[number]
        inside = [i for i, at in enumerate(starts) if mention.start <= at < mention.end]
        return inside[0], inside[-1]


def knows(world: EBertInputs, name: str) -> bool:
    return name in world.pages


def model_of(world: EBertInputs, *, priors: bool) -> KnowledgeForTask:
    """The released head on this encoder, from its state dict."""
    model = KnowledgeForTask.of(
        world.encoder, "candidates", [SCORE], problem_type=LINKING, priors=priors
    ).eval()
    with torch.no_grad():
        model.head.transform.load_state_dict(world.head.transform.state_dict())
        model.head.null_vector.copy_(world.state["el.null_vector"])
        model.head.null_bias.copy_(world.state["el.null_bias"])
    return model


def data_of(world: EBertInputs, questions: Any, *, prime: bool) -> CandidateData:
    view = EBERTView.of(world.graph, world.tokenizer, form="replace", vectors_from=world.file.path)
    return CandidateData(
        questions, world.graph, world.tokenizer, builder=BUILDER, view=view, prime=prime
    )


def linker_of(world: EBertInputs, case: dict[str, Any], n_rounds: int = 1) -> EBERTLinker:
    return EBERTLinker(
        model_of(world, priors=case["do_use_priors"]), world.tokenizer, world.graph,
        None,  # type: ignore[arg-type]  # the texts come with candidates
        view=EBERTView.of(
            world.graph, world.tokenizer, form="replace", vectors_from=world.file.path
        ),
        builder=BUILDER, is_known=lambda name: knows(world, name), prime=case["do_prime_mask"],
        n_rounds=n_rounds, original_order=True,
    )  # fmt: skip


def test_inputs_scores_losses_and_gradients(
    folder: Path, world: EBertInputs, compared: Any
) -> None:
    record, expected = read(folder, "entity_linking"), load(folder, "entity_linking_outputs")
    grads, texts = load(folder, "grads"), Texts(record)
    mask = world.tokenizer.mask_token
    for case in record["cases"]:
        tag, samples = case["tag"], case["samples"]
        questions = questions_of(
            texts.proposed, lambda name: knows(world, name), mask, gold=texts.gold
        )
        questions = [q for q in questions if q.gold is not None]
        data = data_of(world, questions, prime=case["do_prime_mask"])
        parts = [data.sample(i, epoch=0, seed=0) for i in range(len(data))]
        for question, part, sample in zip(questions, parts, samples, strict=True):
            names = [None, *(c.entity for c in question.candidates)]
            compared.equal("candidates", names, sample["candidates"])
            compared.equal("gold", question.gold, sample["correct_idx"])
            assert part.mention_spans is not None
            at = int(part.mention_spans[0, 0, 0])
            compared.equal("place of the mask", at, sample["mask_pos"])
            pieces = part.node_ids.masked_fill(part.node_kinds == 1, world.tokenizer.mask_token_id)
            compared.equal("pieces", pieces[0].tolist(), sample["input_ids"])
        batch = data.collate(parts, epoch=0, seed=0, step=0)
        if f"{tag}.input_embeddings" in expected and not case["do_prime_mask"]:
            theirs = expected[f"{tag}.input_embeddings"][batch.node_mask]
            compared.close(
                "inputs", world.inputs(batch).detach()[batch.node_mask], theirs, atol=ATOL
            )
        model = model_of(world, priors=case["do_use_priors"])
        model.zero_grad()
        output = model(batch)
        for row, sample, told_of in zip(
            output.class_logits.detach(), samples, case["predictions"], strict=True
        ):
            shares = row[: len(sample["candidates"])].softmax(0)
            theirs = [share for _, share in told_of["probabilities"]]
            compared.close("shares", shares, theirs, atol=ATOL, rtol=RTOL)
        loss = output.losses["class"]
        compared.close("loss", loss.detach(), expected[f"{tag}.loss"], atol=0, rtol=RTOL)
        loss.backward()
        compare_gradients(model, tag, grads, compared)
    assert compared.n_values["gradients"] > 0


def compare_gradients(
    model: KnowledgeForTask, tag: str, grads: dict[str, torch.Tensor], compared: Any
) -> None:
    host = {f"bert.{k}": p for k, p in model.encoder.host.named_parameters()}
    transform = {
        f"cls.predictions.transform.{k.replace('layer_norm', 'LayerNorm')}": p
        for k, p in model.head.transform.named_parameters()
    }
    nulls = {"el.null_vector": model.head.null_vector, "el.null_bias": model.head.null_bias}
    ours = {**host, **transform, **nulls}
    stored = {k.removeprefix(f"{tag}."): v for k, v in grads.items() if k.startswith(f"{tag}.")}
    for name, theirs in stored.items():
        result = ours[name].grad
        assert result is not None, name
        atol = max(1e-4 * float(theirs.abs().max()), 1e-8)  # of keys' biases it is rounding alone
        compared.close("gradients", result, theirs, atol=atol)


def test_decoding(folder: Path, world: EBertInputs, compared: Any) -> None:
    """The original lists links in the order in which it accepts them, we in that of the text."""
    data = read(folder, "entity_linking")
    texts = Texts(data)
    for case in data["cases"]:
        linker = linker_of(world, case)
        predictions = sorted(case["normalize_predictions"], key=lambda one: one["start"])
        every = linker.answers(texts.proposed)
        before, actual = 0, []
        for number, words in enumerate(texts.words):
            answers = [a for a in every if a.question.text == number]
            for answer in without_overlap(answers):
                first, last = texts.places(number, answer.question.mention)
                link = answer.link
                actual.append(
                    {"start": before + first, "end": before + last, "entity": link.entity,
                     "text": words[first : last + 1]}
                )  # fmt: skip
                share = next(c.score for c in link.candidates if c.entity == link.entity)
                theirs = predictions[len(actual) - 1]
                compared.close("best", share, theirs["p_best"], atol=ATOL, rtol=RTOL)
                compared.close("none", answer.shares[0], theirs["p_null"], atol=ATOL, rtol=RTOL)
            before += len(words)
        keys = ("start", "end", "entity", "text")
        wanted = [{k: one[k] for k in keys} for one in predictions]
        compared.equal("without overlap", actual, wanted)
        for n_rounds, of_sentence in case["predict_sentence"].items():
            linker = linker_of(world, case, int(n_rounds))
            for number, theirs in enumerate(of_sentence):
                if isinstance(theirs, str):  # where no span is left, the original raises
                    continue
                (text,) = linker.disambiguate([texts.proposed[number]])
                spans = [
                    [link.entity, *texts.places(number, link.mention)]
                    for link in text.links
                    if link.entity is not None
                ]
                compared.equal("rounds", spans, sorted(theirs, key=lambda span: span[1:]))


def test_the_estimate_of_training(folder: Path, world: EBertInputs, compared: Any) -> None:
    """Precision, recall and F1 over questions, as the release prints them while it trains."""
    data = read(folder, "entity_linking")
    atol = 1e-9 + half_unit([case["eval_precision_recall_f1"] for case in data["cases"]])
    for case in data["cases"]:
        pairs = [
            (sample["correct_idx"], max(range(len(p)), key=p.__getitem__))
            for sample, each in zip(case["samples"], case["predictions"], strict=True)
            for p in ([share for _, share in each["probabilities"]],)
        ]
        n_right = sum(gold == item > 0 for gold, item in pairs)
        n_found, n_gold = (sum(pair[side] > 0 for pair in pairs) for side in (1, 0))
        scores = scores_of(n_right, n_found, n_gold)
        compared.close("estimate", scores, case["eval_precision_recall_f1"], atol=atol)


def test_aida(folder: Path, compared: Any) -> None:
    data = read(folder, "aida")
    lines = data["file_lines"]
    for case in data["read"]:
        if case["max_len"] < max(len(c["data"][0][1]) for c in data["read"]) * 4:
            continue  # the release splits long documents and loses mentions; we do not
        actual = list(read_aida(lines, case["granularity"]))
        spans = [
            [[] if case["ignore_gold"] else [[s.entity, s.first, s.last] for s in text.spans]]
            for text in actual
        ]
        wanted = [[row[2]] for row in case["data"]]
        compared.equal("words", [list(t.words) for t in actual], [row[1] for row in case["data"]])
        compared.equal("spans", spans, wanted)
    every = list(read_aida(lines))
    compared.equal("lines", span_lines(every), [x for x in data["extract_spans"] if x])
    gold, predicted = (
        [(*map(int, line.split("\t")[:2]), line.split("\t")[2]) for line in rows if line]
        for rows in (data["extract_spans"], data["score"]["pred_lines"])
    )
    atol = 1e-9 + half_unit(data["score"])
    compared.close("micro", micro(gold, predicted), data["score"]["micro"], atol=atol)
    compared.close("macro", macro(gold, predicted), data["score"]["macro"], atol=atol)
    compared.close("micro", micro(gold, []), data["score"]["micro_empty_pred"], atol=atol)
    compared.close("micro", micro([], predicted), data["score"]["micro_empty_gold"], atol=atol)


def test_batches_of_questions_pad_candidates(folder: Path, world: EBertInputs) -> None:
    texts = Texts(read(folder, "entity_linking"))
    questions = questions_of(texts.proposed, lambda name: knows(world, name), "[MASK]")
    data = data_of(world, questions, prime=True)
    parts = [data.sample(i, epoch=0, seed=0) for i in range(len(data))]
    model = model_of(world, priors=True)
    with torch.no_grad():
        whole = model(KnowledgeBatch.stack(parts)).class_logits
        for row, part in zip(whole, parts, strict=True):
            (alone,) = model(part).class_logits
            torch.testing.assert_close(row[: len(alone)], alone, atol=1e-5, rtol=1e-5)
            assert (row[len(alone) :] == torch.finfo(row.dtype).min).all()
