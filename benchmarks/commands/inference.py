"""`encode` compared with other libraries on the same vectors, and in int8, bfloat16 and compiled.

    python benchmarks/commands/inference.py [--texts 64] [--methods none,kbert] [--variants ...]

`encode compared` is the whole call over the atlas's sentences, and over one of them, next to what
computes the same vectors: OpenVINO and ONNX Runtime over the whole host, called as
sentence-transformers calls a model (texts sorted by length, batches of 32, tokenised, padded,
pooled, normalised), sentence-transformers itself, and torch's own products. `floor_s` are the
host's matrix products alone, by the faster library, without padding; `tokenise_s` is tokenising.

Sentences of the atlas through the encoder of `AutoEncoder`, MiniLM as host, one CPU. `pass` is the
encoder over batches of 16 that are made already, `encode` the whole call (linking, graphs, view).
Ours and float32 in turn, the best of five; agreement is the cosine of each sentence's vector with
float32's, its mean and its least; `first_call_s` has the compiler's time, for sizes that may
change (without a C++ compiler, g++ or what CXX names, `compiled` is left out, with the reason).
JSON lines, with the exponents of `encode` by texts; the last is the start of `kept link` from
nothing (`benchmarks/commands/startup.py` has all commands).
"""

from __future__ import annotations

import argparse
import copy
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from startup import best as best_of_start
from startup import link
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import Spent, compared, growth, in_turn, three_sizes, write_line
from kept import atlas
from kept.auto import AutoEncoder
from kept.auto.sentence_modules import SentenceModules
from kept.batches import KnowledgeBatch
from kept.graphs.builder import build_many
from kept.hosts import load_host, load_tokenizer, minilm_folder
from kept.layers.products import Linear, choice, linear, using
from kept.telemetry import without_telemetry

BATCH, REPEATS = 16, 5
PEER_BATCH, MAX_LENGTH = 32, 256
"""As sentence-transformers calls MiniLM."""
COMPILER = os.environ.get("CXX", "g++")


def int8(encoder: nn.Module) -> nn.Module:
    """Linear layers in int8, their inputs quantised as they come, each row with its own scale."""
    changed = copy.deepcopy(encoder)
    for module in changed.modules():
        if type(module) is Linear:
            module.__class__ = nn.Linear
    scheme = {nn.Linear: torch.ao.quantization.per_channel_dynamic_qconfig}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised: nn.Module = torch.ao.quantization.quantize_dynamic(
            changed, scheme, dtype=torch.qint8
        )
    return quantised


def bfloat16(encoder: nn.Module) -> nn.Module:
    return copy.deepcopy(encoder).to(torch.bfloat16)


def compiled(encoder: nn.Module) -> nn.Module:
    compiled_encoder: nn.Module = torch.compile(copy.deepcopy(encoder), dynamic=True)  # type: ignore[assignment]
    return compiled_encoder


VARIANTS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "int8": int8, "bfloat16": bfloat16, "compiled": compiled,
}  # fmt: skip


def batches_of(encoder: AutoEncoder, texts: list[Any], graph: Any) -> list[KnowledgeBatch]:
    view = encoder.method.view.of(graph, encoder.tokenizer)
    built = build_many(texts, encoder.tokenizer, graph, seed=0, config=encoder.builder)
    samples = sorted((view(one) for one in built), key=lambda sample: sample.node_ids.shape[1])
    pad_id = int(encoder.tokenizer.pad_token_id)
    return [
        KnowledgeBatch.stack(samples[start : start + BATCH], word_pad_id=pad_id)
        for start in range(0, len(samples), BATCH)
    ]


@torch.no_grad()
def vectors(encoder: nn.Module, batches: list[KnowledgeBatch]) -> Tensor:
    """The mean state of each sample's nodes."""
    rows = []
    for batch in batches:
        states, mask = encoder(batch).node_states.float(), batch.node_mask[..., None]
        rows.append((states * mask).sum(1) / mask.sum(1))
    return torch.cat(rows)


def measure(method: str, n_texts: int, names: Sequence[str]) -> None:
    graph = atlas.graph()
    plain = [sentence.text for sentence in atlas.sentences()][:n_texts]
    auto_encoder = AutoEncoder.from_host(method, "minilm", graph, untrained=True)
    texts = auto_encoder.encode(plain, graph).texts
    linked = [text.linked for text in texts]
    batches, encoder = batches_of(auto_encoder, linked, graph), auto_encoder.encoder
    truth = vectors(encoder, batches)
    for name in names:
        if name == "compiled" and shutil.which(COMPILER) is None:
            write_line(
                row="variant of encode",
                method=method,
                variant=name,
                skipped=f"there is no C++ compiler {COMPILER}",
            )
            continue
        start = time.perf_counter()
        changed = VARIANTS[name](encoder)
        result = vectors(changed, batches)
        ready = time.perf_counter() - start
        runs = [lambda model=model: vectors(model, batches) for model in (changed, encoder)]
        ours, peer = (spent.processor for spent in in_turn(runs, REPEATS))
        cosine = F.cosine_similarity(result, truth)
        write_line(
            row="variant of encode", method=method, variant=name, texts=len(linked),
            first_call_s=round(ready, 1), peer_s=round(peer, 3), kept_s=round(ours, 3),
            times_as_fast=round(peer / ours, 2), cosine=round(float(cosine.mean()), 5),
            least_cosine=round(float(cosine.min()), 5),
        )  # fmt: skip
    sizes = three_sizes(len(plain))
    runs = [lambda n=n: auto_encoder.encode(plain[:n], graph) for n in sizes]
    *parts, whole, alone = in_turn([*runs, lambda: vectors(encoder, batches)], 2)
    write_line(row="encode", method=method, variant="float32", encode_s=round(whole.processor, 3),
         pass_s=round(alone.processor, 3))  # fmt: skip
    growth("encode", "texts", sizes, [spent.processor for spent in (*parts, whole)], method=method)


# ---- other libraries on the same vectors ---------------------------------------------------------
Call = Callable[[list[str]], Tensor]


def pooled(states: Tensor, mask: Tensor) -> Tensor:
    """The normalised mean of each text's states, as MiniLM's `modules.json` has it."""
    weights = mask[..., None].float()
    return F.normalize((states * weights).sum(1) / weights.sum(1), dim=1)


def sorted_by_length(forward: Callable[[dict[str, Tensor]], Tensor]) -> Call:
    """As sentence-transformers' `encode`: long texts first, in padded batches."""
    tokenizer = load_tokenizer("minilm")

    def call(texts: list[str]) -> Tensor:
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        rows = []
        for start in range(0, len(order), PEER_BATCH):
            batch = tokenizer(
                [texts[i] for i in order[start : start + PEER_BATCH]], padding=True,
                truncation=True, max_length=MAX_LENGTH, return_tensors="pt",
            )  # fmt: skip
            rows.append(pooled(forward(dict(batch)), batch["attention_mask"]))
        inverse = torch.tensor(order).argsort()
        return torch.cat(rows)[inverse]

    return call


class _Whole(nn.Module):
    """The host by words, as an exporter reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.host = load_host("minilm").eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        states: Tensor = self.host(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        return states


INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def example() -> tuple[Tensor, ...]:
    batch = load_tokenizer("minilm")(["One text.", "Another."], padding=True, return_tensors="pt")
    return tuple(batch[name] for name in INPUTS)


def openvino() -> Call:
    with without_telemetry():
        import openvino as ov

    with torch.no_grad(), using("torch"), without_telemetry():
        model = ov.convert_model(_Whole().eval(), example_input=example())
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.Core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()

    def forward(batch: dict[str, Tensor]) -> Tensor:
        inputs = [batch[name].numpy() for name in INPUTS]
        return torch.from_numpy(request.infer(inputs, share_inputs=True)[0])

    return sorted_by_length(forward)


def onnxruntime() -> Call:
    import onnxruntime as runtime

    with tempfile.TemporaryDirectory() as folder, torch.no_grad(), using("torch"):
        path = str(Path(folder) / "host.onnx")
        axes = {name: {0: "text", 1: "word"} for name in (*INPUTS, "states")}
        torch.onnx.export(
            _Whole().eval(), example(), path, dynamo=False, opset_version=17,
            input_names=list(INPUTS), output_names=["states"], dynamic_axes=axes,
        )  # fmt: skip
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def forward(batch: dict[str, Tensor]) -> Tensor:
        return torch.from_numpy(
            session.run(None, {name: batch[name].numpy() for name in INPUTS})[0]
        )

    return sorted_by_length(forward)


def sentence_transformers() -> Call:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(minilm_folder()), device="cpu")
    model.max_seq_length = MAX_LENGTH

    def call(texts: list[str]) -> Tensor:
        vectors: Tensor = model.encode(
            texts, batch_size=PEER_BATCH, convert_to_tensor=True, normalize_embeddings=True,
            show_progress_bar=False,
        )  # fmt: skip
        return vectors

    return call


PEERS: dict[str, Callable[[], Call]] = {
    "OpenVINO": openvino, "ONNX Runtime": onnxruntime,
    "sentence-transformers": sentence_transformers,
}  # fmt: skip


def floor(lengths: Sequence[int]) -> Callable[[], None]:
    """The matrix products of the host over so many words, and no others."""
    config = load_host("minilm").config
    width, inner, n_words = config.hidden_size, config.intermediate_size, sum(lengths)
    states, wide = torch.randn(n_words, width), torch.randn(n_words, inner)
    square, up = torch.randn(width, width), torch.randn(inner, width)
    down = torch.randn(width, inner)

    def run() -> None:
        for _ in range(config.num_hidden_layers):
            for _ in range(4):
                linear(states, square)
            linear(states, up)
            linear(wide, down)

    return run


def minilm() -> AutoEncoder:
    """MiniLM with its published pooling, which the package of its weights leaves out."""
    encoder = AutoEncoder.from_pretrained("minilm")
    encoder.sentence_modules = SentenceModules("mean", normalize=True)
    return encoder


@torch.no_grad()
def whole_calls(n_texts: int) -> None:
    """Print the rows of whole calls compared with other libraries."""
    ours = minilm()
    texts = [sentence.text for sentence in atlas.sentences()][:n_texts]

    def kept(texts: list[str]) -> Tensor:
        return ours.encode(texts).sentences

    def by_torch(texts: list[str]) -> Tensor:
        with using("torch"):
            return kept(texts)

    calls: dict[str, Call] = {"torch's own products": by_torch}
    for name, make in PEERS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                calls[name] = make()
        except ImportError as error:
            write_line(row="encode compared", peer=name, skipped=str(error))
    for backend in ("openvino", "onnx"):
        try:
            encoder = minilm().compute_with(backend)
        except ImportError as error:
            write_line(row="encode compared", peer=f"kept by {backend}", skipped=str(error))
        else:
            calls[f"kept by {backend}"] = lambda texts, encoder=encoder: (
                encoder.encode(texts).sentences
            )
    tokenizer = load_tokenizer("minilm")
    for n, sample in ((len(texts), texts), (1, texts[:1])):
        lengths = [len(ids) for ids in tokenizer(sample)["input_ids"]]
        products = floor(lengths)
        runs: list[Callable[[], Any]] = [
            lambda sample=sample: kept(sample), *(
                lambda call=call, sample=sample: call(sample) for call in calls.values()
            ), products, lambda sample=sample: tokenizer(sample),
        ]  # fmt: skip
        for run in runs:
            run()
        spent: list[Spent] = in_turn(runs, REPEATS * (1 if n > 1 else 6))
        *measured, least, tokens = spent
        for name, theirs in zip(calls, measured[1:], strict=True):
            difference = float((measured[0].result - theirs.result).abs().max())
            compared(
                "encode compared", measured[0], theirs, equal=difference < 1e-5, peer=name, texts=n,
                words=sum(lengths), products=choice().way, difference=difference,
                floor_s=round(least.processor, 5), tokenise_s=round(tokens.processor, 5),
                over_floor=round(
                    measured[0].processor / (least.processor + tokens.processor), 2
                ),
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--methods", default="none,kbert,colake")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    whole_calls(options.texts)
    for method in filter(None, options.methods.split(",")):
        measure(method, options.texts, options.variants.split(","))
    with tempfile.TemporaryDirectory() as folder:
        spent = best_of_start(link(Path(folder)))
        write_line(row="kept link of two sentences, from nothing", kept_s=round(spent, 2))


if __name__ == "__main__":
    sys.exit(main())
