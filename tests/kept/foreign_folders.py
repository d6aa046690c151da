"""Forms in which a stranger's folder can come: files that are other things, and settings that lie.

`FORMS` change a whole folder in place; `KINDS` make one and open it, and use what was opened.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.openers import make_model, make_scorer_folder, small_graph
from tests.fuzz.settings import (
    _make_adapter,
    _make_completer,
    _make_decoder,
    _make_host,
    _make_peft,
    _make_run,
)

Form = Callable[[Path], None]


def first(folder: Path, *patterns: str) -> Path:
    """The first file that one of the patterns fits."""
    return next(path for pattern in patterns for path in sorted(folder.glob(pattern)))


def settings_of(folder: Path) -> Path:
    """The file with the settings of a folder."""
    return first(
        folder, "finetune.json", "questions.json", "config.json", "adapter_config.json",
        "model.json",
        "manifest.json", "*.json",
    )  # fmt: skip


def weights_of(folder: Path) -> Path:
    """The file with the numbers of a folder."""
    return first(folder, "*.safetensors", "*.npy", "*.arrow", "*.bin")


def with_values(**values: Any) -> Form:
    """Settings with these values in them."""

    def form(folder: Path) -> None:
        for name in ("config.json", settings_of(folder).name):
            if (folder / name).is_file():
                old = json.loads((folder / name).read_text())
                (folder / name).write_text(json.dumps({**old, **values}))

    return form


def with_file(name: str, content: str | bytes) -> Form:
    """A file more, or another in its place."""

    def form(folder: Path) -> None:
        raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        (folder / name).write_bytes(raw)

    return form


def with_settings(change: Callable[[bytes], bytes]) -> Form:
    """The file of the settings, other bytes."""

    def form(folder: Path) -> None:
        path = settings_of(folder)
        path.write_bytes(change(path.read_bytes()))

    return form


def instead(of: Callable[[Path], Path], put: Callable[[Path], object]) -> Form:
    """Something else in the place of a file."""

    def form(folder: Path) -> None:
        path = of(folder)
        path.unlink()
        put(path)

    return form


def header_of(size: int, header: bytes) -> Callable[[Path], None]:
    """A file of weights with this header, said to be so long."""
    return lambda path: path.write_bytes(struct.pack("<Q", size) + header)


def entries(**fields: list[int]) -> Callable[[Path], None]:
    """A file of weights that names one tensor."""
    values = {"weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **fields}}
    header = json.dumps(values).encode()
    return header_of(len(header), header + bytes(8))


class Harm:
    """What must never be called."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("harmed",)


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


FORMS: dict[str, Form] = {
    "numbers are texts": with_values(max_facts="many", n_new="7", least="high", n_layers="two"),
    "numbers are lists": with_values(max_facts=[8], least={}, hidden_size=[768], labels=7),
    "numbers are out of range": with_values(max_facts=10**12, n_new=-1, least=float("nan")),
    "choices are other ones": with_values(way="by guess", case=7, linker="../x", types=[[]]),
    "settings are a folder": instead(settings_of, lambda path: path.mkdir()),
    "settings lead to a file outside": instead(settings_of, lambda p: p.symlink_to("/etc/passwd")),
    "settings lead to themselves": instead(settings_of, lambda path: path.symlink_to(path.name)),
    "settings lead to nothing": instead(settings_of, lambda path: path.symlink_to("gone")),
    "settings lead to a device": instead(settings_of, lambda path: path.symlink_to("/dev/zero")),
    "settings are a pipe": instead(settings_of, os.mkfifo),
    "settings are empty": with_settings(lambda _: b""),
    "settings are NUL": with_settings(lambda _: bytes(1000)),
    "settings have a byte-order mark": with_settings(lambda raw: b"\xef\xbb\xbf" + raw),
    "settings are UTF-16": with_settings(lambda raw: raw.decode().encode("utf-16")),
    "settings are Latin-1": with_settings(lambda raw: raw.replace(b"{", b'{"\xe9":"\xe9",', 1)),
    "settings are a list": with_settings(lambda raw: b"[" + raw + b"]"),
    "settings are a number": with_settings(lambda _: b"7"),
    "settings are null": with_settings(lambda _: b"null"),
    "settings say it twice": with_settings(lambda raw: b'{"model_type":"t5",' + raw.lstrip()[1:]),
    "settings end early": with_settings(lambda raw: raw[: len(raw) // 2]),
    "settings go on behind the end": with_settings(lambda raw: raw + raw),
    "settings are deep": with_settings(lambda _: nested(100_000)),
    "settings are wide": with_settings(lambda _: b"{" + b" " * 50_000_000 + b"}"),
    "weights are a folder": instead(weights_of, lambda path: path.mkdir()),
    "weights lead to themselves": instead(weights_of, lambda path: path.symlink_to(path.name)),
    "weights lead to a device": instead(weights_of, lambda path: path.symlink_to("/dev/zero")),
    "weights are a pipe": instead(weights_of, os.mkfifo),
    "weights are empty": instead(weights_of, lambda path: path.touch()),
    "weights are a terabyte of nothing": instead(weights_of, sparse),
    "a header longer than the file": instead(weights_of, header_of(2**62, b"{}")),
    "a header of no length": instead(weights_of, header_of(0, b"")),
    "a header that is deep": instead(weights_of, header_of(600_000, nested(100_000))),
    "a header of surrogates": instead(weights_of, header_of(12, b'{"\\ud800":1}')),
    "numbers behind the end": instead(weights_of, entries(data_offsets=[0, 2**40])),
    "numbers before the start": instead(weights_of, entries(data_offsets=[8, 0])),
    "a shape of no numbers": instead(weights_of, entries(shape=[2**31, 2**31])),
    "weights are a pickle": instead(weights_of, lambda p: p.write_bytes(pickle.dumps(Harm()))),
    "a pickle beside the weights": with_file("pytorch_model.bin", pickle.dumps(Harm())),
    "code beside the weights": with_file("modeling_x.py", "import os; os.mkdir('harmed')"),
    "code is to be run": with_values(
        auto_map={"AutoModel": "modeling_x.X", "AutoConfig": "modeling_x.C"}, trust_remote_code=True
    ),
    "modules of others": with_file(
        "modules.json", '[{"idx":0,"name":"0","path":"../../x","type":"os.system"}]'
    ),
    "an index of shards that leads in circles": with_file(
        "model.safetensors.index.json", '{"weight_map":{"a":"model.safetensors.index.json"}}'
    ),
    "an index that is no mapping": with_file("model.safetensors.index.json", '{"weight_map":[1]}'),
    "tokens with ids of nobody": with_file("added_tokens.json", '{"new": -5, "far": 99999999999}'),
    "tokens that are no texts": with_file("special_tokens_map.json", '{"mask_token": 7, "x": []}'),
    "a class of tokenizer": with_file("tokenizer_config.json", '{"tokenizer_class":"../x.Harm"}'),
    "a tokenizer that is deep": with_file("tokenizer.json", nested(100_000)),
    "a tokenizer that is null": with_file("tokenizer.json", "null"),
    "a vocabulary of one word a byte": with_file("vocab.txt", bytes(range(256)) * 10),
    "a template without an end": with_file(
        "chat_template.jinja", "{% for i in range(10**9) %}{{ i }}{% endfor %}"
    ),
    "quantised by a library": with_values(quantization_config={"quant_method": "gptq", "bits": 4}),
    "quantised by nobody": with_values(quantization_config={"quant_method": "../x"}),
    "tuples instead of outputs": with_values(return_dict=False, use_return_dict=False),
    "all states": with_values(output_hidden_states=True, output_attentions=True),
    "a decoder of an encoder": with_values(is_decoder=True, add_cross_attention=True),
    "an encoder and a decoder": with_values(is_encoder_decoder=True),
    "positions of another kind": with_values(position_embedding_type="relative_key_query"),
    "pruned heads": with_values(pruned_heads={"0": [0, 1], "7": [1], "x": "y"}),
    "chunks of a layer": with_values(chunk_size_feed_forward=10**9),
    "weights in eight bits": with_values(dtype="float8_e4m3fn", torch_dtype="float8_e4m3fn"),
    "weights in what is no type": with_values(dtype="__import__('os')", torch_dtype="int7"),
    "an activation of nobody": with_values(hidden_act="__import__('os').mkdir('harmed')"),
    "labels without an end": with_values(id2label={str(i): i for i in range(100_000)}, label2id=[]),
    "architectures elsewhere": with_values(architectures=["../../x", 7, None]),
    "a model of no kind": with_values(model_type=None),
    "a model of another kind": with_values(model_type="t5"),
    "a model in a model": with_values(text_config={"model_type": "bert"}, vision_config={}),
    "kernels of others": with_values(use_kernels=True, kernel_config={"a": "org/repo"}),
    "a name that leads out": with_values(_name_or_path="/etc", name_or_path="http://a.example/x"),
    "a file of another's name": with_file("README\n.md", "x"),
    "a name that is no text": lambda folder: os.close(
        os.open(os.fsencode(folder) + b"/\xff.json", os.O_CREAT | os.O_WRONLY)
    ),
    "a folder that leads to itself": lambda folder: (folder / "sub").symlink_to("."),
    "an adapter of itself": with_values(base_model_name_or_path="."),
    "an adapter of what is not there": with_values(base_model_name_or_path="/no/where"),
    "an adapter of a device": with_values(base_model_name_or_path="/dev/zero"),
    "an adapter of an address": with_values(base_model_name_or_path="http://a.example/x"),
    "an adapter of another kind": with_values(peft_type="PROMPT_TUNING", task_type="x"),
    "an adapter's hidden module": with_values(
        auto_mapping={"base_model_class": "X", "parent_library": "os"}
    ),
    "files of a graph elsewhere": with_values(files={"../x": {"size": 1, "sha256": "0" * 64}}),
    "more entities than numbers": with_values(n_entities=10**15, n_triples=-1),
    "a version of tomorrow": with_values(format_version=10**9, transformers_version="99.0"),
    "the seal of nothing": with_file("checksums.json", "{}"),
    "the seal of others": with_file("checksums.json", '{"files": {"/etc/passwd": {}}, "seal": 1}'),
}  # fmt: skip


def _make_graph(folder: Path) -> None:
    small_graph().save(folder)


def _use_encoder(folder: Path) -> None:
    from kept.auto import AutoEncoder

    AutoEncoder.from_pretrained(folder).encode("Paris lies in France", small_graph())


def _use_run(folder: Path) -> None:
    from kept.training.finetuning.predictor import Predictor

    Predictor.from_pretrained(folder).predict(["Paris lies in France"], small_graph())


def _use_decoder(folder: Path) -> None:
    from kept.decoders.asking import prompt
    from kept.decoders.hosts import load_decoder
    from kept.hosts import load_tokenizer

    tokenizer = load_tokenizer(folder)
    prompt(tokenizer, "Where is Paris?", (), "", "")
    load_decoder(folder)(**tokenizer("Paris", return_tensors="pt"))


def _use_peft(folder: Path) -> None:
    from kept.hosts import load_host

    load_host(folder)


def _use_adapter(folder: Path) -> None:
    from transformers import AutoConfig

    from kept.adapters.files import read_adapter

    read_adapter(folder, AutoConfig.for_model("bert", hidden_size=8, num_hidden_layers=1))


def _use_scorer(folder: Path) -> None:
    from kept.kge.trained import load_scorer

    load_scorer(folder, small_graph())


def _use_completer(folder: Path) -> None:
    from kept.kgc.completers.folders import open_completer

    open_completer(folder)


def _use_graph(folder: Path) -> None:
    from kg_loaders import KnowledgeGraph

    graph = KnowledgeGraph.open(folder)
    assert [graph.label(entity) for entity in range(graph.n_entities)]


def _make_index(folder: Path) -> None:
    from entity_linking.names.index import NameIndex

    NameIndex.build(small_graph()).save(folder)


def _use_index(folder: Path) -> None:
    from entity_linking.names.index import NameIndex

    index = NameIndex.open(folder)
    assert index.names(range(index.n_names))


def _make_questions(folder: Path) -> None:
    from kept.lab.questions.fitted import AnswerSettings, write_settings

    folder.mkdir()
    write_settings(AnswerSettings(way="values", kg="kg"), folder)


def _use_questions(folder: Path) -> None:
    from kept.lab.questions.fitted import FittedAnswerer

    FittedAnswerer.open(folder, small_graph()).answer("Where is Paris?")


def _make_tagger(folder: Path) -> None:
    from kept.linking.tagging.marked import MarkedText
    from kept.linking.tagging.training import TaggerSettings, train_tagger

    _make_host(folder.with_name("host of a tagger"))
    texts = [MarkedText("the town of Rome is old .", ((12, 16, "LOC"),))] * 4
    settings = TaggerSettings(host=str(folder.with_name("host of a tagger")), n_layers=1, epochs=1)
    train_tagger(texts, texts[:2], settings, trained_on="made up").save(folder)


def _use_tagger(folder: Path) -> None:
    from kept.linking.tagging.tagger import Tagger

    Tagger.open(folder).tag(["the town of Rome is old ."])


KINDS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "host": (_make_host, _use_encoder),
    "model": (make_model, _use_encoder),
    "run": (_make_run, _use_run),
    "decoder": (_make_decoder, _use_decoder),
    "peft": (_make_peft, _use_peft),
    "adapter": (_make_adapter, _use_adapter),
    "scorer": (make_scorer_folder, _use_scorer),
    "completer": (_make_completer, _use_completer),
    "graph": (_make_graph, _use_graph),
    "index": (_make_index, _use_index),
    "questions": (_make_questions, _use_questions),
    "tagger": (_make_tagger, _use_tagger),
}


def copy_of(folder: Path, target: Path) -> Path:
    """A copy at the same name, since an adapter names its base by its path."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target, symlinks=True)
    return target
