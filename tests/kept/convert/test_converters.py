"""`kept convert`: the table of converters, and every method's release through the command."""

from __future__ import annotations

import inspect
import os
import pickle
import pkgutil
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from typer.testing import CliRunner, Result

import kept.convert as package
from entity_linking.mentions import LinkedText
from kept.apps.cli import app
from kept.auto import AutoEncoder
from kept.convert import CONVERTERS, convert, converter, read_options
from kept.convert import colake as keys
from kept.convert.tables import to_original
from kept.convert.vocabularies import read_vocabulary
from kept.errors import CheckpointError, ConfigError
from kept.methods import METHODS
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph
from tests.kept.convert.releases import RELEASES, Release, colake_release
from tests.kept.tiny_hosts import fast_tokenizer

METHODS_TO_CONVERT = list(CONVERTERS)


@pytest.fixture(scope="module", params=METHODS_TO_CONVERT)
def method(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def release(method: str, small_graph: KnowledgeGraph, tmp_path: Path) -> Release:
    """The method's release, and a graph beside it."""
    folder, kg = tmp_path / "release", tmp_path / "kg"
    folder.mkdir()
    small_graph.save(kg)
    return RELEASES[method](folder, small_graph, str(kg))


# ---- the table ------------------------------------------------------------------------------
def test_a_method_has_a_converter_unless_its_line_says_why_not() -> None:
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert list(RELEASES) == list(CONVERTERS)
    assert CONVERTERS.keys() == modules & METHODS.keys()
    output = run("--help").stdout.replace(" or ", ", ")
    assert all(f"{name}," in output or f"{name}." in output for name in CONVERTERS)


def test_options_are_keywords_of_simple_types(method: str) -> None:
    reader = converter(method)
    hints = get_type_hints(reader)
    hints.pop("return")
    hints.pop("path")
    for name, hint in hints.items():
        types = [t for t in get_args(hint) or (hint,) if t is not type(None)]
        assert types, name
        assert all(t in (str, int, float, bool, Path) for t in types), (name, hint)
    with pytest.raises(ConfigError, match="no-such: no such option"):
        read_options(reader, {"no-such": 1})


# ---- hostile files --------------------------------------------------------------------------
class Hostile:
    """Unpickled, it would leave a file behind."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


@pytest.mark.parametrize("form", ["torch", "legacy torch", "pickle"])
def test_hostile_weights_are_refused_and_nothing_runs(
    method: str, release: Release, form: str, tmp_path: Path
) -> None:
    """All else is as the original wrote it; only the weights would run a command."""
    trace, file = tmp_path / "it-ran", tmp_path / "hostile"
    state = {**release.state, "bad": Hostile(f"touch {trace}")}
    if form == "pickle":
        file.write_bytes(pickle.dumps(state))
        pickle.loads(file.read_bytes())
    else:
        torch.save(state, file, _use_new_zipfile_serialization=form == "torch")
        torch.load(file, weights_only=False)
    assert trace.exists(), "the file would do nothing anyway"
    trace.unlink()
    release.poison(file.read_bytes())
    with pytest.raises(CheckpointError, match=r"could run code|cannot be read as a torch file"):
        convert(method, release.path, tmp_path / "out", dict(release.options))
    assert not trace.exists()
    assert not (tmp_path / "out").exists()


# ---- releases through the command -----------------------------------------------------------
def run(*flags: object) -> Result:
    return CliRunner().invoke(app, ["convert", *map(str, flags)])


def converted(method: str, release: Release, out: Path, *, graph: bool = False) -> Path:
    """The folder that the command makes of a release."""
    options = {**release.options, **(release.for_graph if graph else {})}
    settings = [flag for k, v in options.items() for flag in ("--set", f"{k}={v}")]
    done = run(method, release.path, "-o", out, *settings)
    assert done.exit_code == 0, done.output
    return out


def test_original_to_ours_to_original_is_byte_identical(
    method: str, release: Release, tmp_path: Path
) -> None:
    model = release.model.from_pretrained(converted(method, release, tmp_path / "out"))
    back = release.back(model)
    assert back.keys() == release.state.keys()
    assert len(back) > 20
    for name, theirs in release.state.items():
        assert back[name].dtype == theirs.dtype, name
        assert back[name].shape == theirs.shape, name
        assert back[name].numpy().tobytes() == theirs.numpy().tobytes(), name


def test_a_converted_folder_encodes_as_the_model_does(
    method: str,
    release: Release,
    small_graph: KnowledgeGraph,
    words: Any,
    linked: list[LinkedText],
    tmp_path: Path,
) -> None:
    """Command, folder and `AutoEncoder` on one side, the converter's own model on the other."""
    model = converter(method)(
        release.path,
        **read_options(converter(method), {**release.options, **release.for_graph}),
    ).eval()
    out = converted(method, release, tmp_path / "out", graph=True)
    again = release.model.from_pretrained(out).eval()
    assert again.state_dict().keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    kg = small_graph if release.for_graph else None
    text = next(text for text in linked if len(text.links) == 3)
    ours, theirs = (
        encoder.encode([text, "the old city"], kg=kg)
        for encoder in (
            AutoEncoder.from_pretrained(out, tokenizer=words, view=release.view),
            AutoEncoder(model.encoder, words, view=release.view),
        )
    )
    assert torch.equal(ours.sentences, theirs.sentences)
    assert ours.sentences.isfinite().all()
    assert torch.equal(ours[0].mentions, theirs[0].mentions)
    assert len(ours[0].mentions) == 3


@pytest.fixture(scope="module")
def words() -> Any:
    """Whole words only: fewer than the smallest release has."""
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "old", "city", "of", "and"]
    inner = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(known)}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return fast_tokenizer(inner)


# ---- CoLAKE's release -----------------------------------------------------------------------
def test_without_a_graph_every_weight_stays(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    original = colake_release(tmp_path / "release", small_graph)
    done = convert("colake", tmp_path / "release", tmp_path / "out", {"heads": 2})
    model = KnowledgeForPreTraining.from_pretrained(tmp_path / "out")
    back = to_original(model.state_dict(), keys.PRETRAINING, keys.PRETRAINING_TIED)
    assert back.keys() == original.keys()
    assert all(torch.equal(back[name], original[name]) for name in original)
    assert (model.config.id_space_hash, model.config.host.num_attention_heads) == ("", 2)
    assert done.n_parameters == sum(p.numel() for p in model.parameters())
    assert list(done.sha256) == ["model.safetensors"]
    assert not [p for p in done.folder.iterdir() if p.suffix not in (".json", ".safetensors")]


def test_with_a_graph_rows_follow_its_ids(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    original = colake_release(tmp_path / "release", small_graph)
    small_graph.save(tmp_path / "kg")
    options = {"heads": 2, "kg": str(tmp_path / "kg")}
    convert("colake", tmp_path / "release/model.bin", tmp_path / "out", options)
    model = KnowledgeForPreTraining.from_pretrained(tmp_path / "out", graph=small_graph)
    known = read_vocabulary(tmp_path / "release" / keys.ENTITY_VOCABULARY)
    table = model.encoder.entity_embeddings.weight
    assert len(table) == small_graph.n_entities + 3
    for name in small_graph.entities:
        row = table[small_graph.entities.id(name) + 3]
        assert torch.equal(row, original["entity_embeddings"][known[name]])
    known = read_vocabulary(tmp_path / "release" / keys.RELATION_VOCABULARY)
    bias = model.objectives["masked_nodes"].relation_bias
    for name in small_graph.relations:
        row_id = small_graph.relations.id(name) + 3
        assert bias[row_id] == original["rel_lm_head.bias"][known[name]]


def test_names_that_the_release_lacks(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    original = colake_release(tmp_path / "release", small_graph)
    small_graph.save(tmp_path / "kg")
    file = tmp_path / "release" / keys.ENTITY_VOCABULARY
    known = read_vocabulary(file)
    text = "\n".join(f"{n}\t{i}" for n, i in known.items() if n != "Q90")
    (tmp_path / "names.txt").write_text(text + "\n")
    options = {
        "heads": 2, "kg": str(tmp_path / "kg"), "entity_vocabulary": str(tmp_path / "names.txt"),
    }  # fmt: skip
    with pytest.raises(CheckpointError, match=r"1 of 10 entity names .* 'Q90' first"):
        convert("colake", tmp_path / "release", tmp_path / "out", options)
    convert("colake", tmp_path / "release", tmp_path / "out", options | {"absent": "unknown"})
    table = load_file(tmp_path / "out/model.safetensors")["encoder.entity_embeddings.weight"]
    unknown = original["entity_embeddings"][0]
    assert torch.equal(table[small_graph.entities.id("Q90") + 3], unknown)
    assert not torch.equal(table[small_graph.entities.id("Q64") + 3], unknown)


def test_missing_and_unexpected_weights_are_named(
    tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    state = colake_release(tmp_path / "release", small_graph)
    state.pop("entity_embeddings")
    file = tmp_path / "release/model.bin"
    for change, message in (
        ({"surprise": torch.zeros(1)}, r"does not know: \['surprise'\]"),
        ({"roberta.extra": torch.zeros(1)}, r"unexpected \['encoder.host.extra'\]"),
        ({"ent_lm_head.dense.bias": None}, r"missing .*entity_transform\.dense\.bias"),
        ({"roberta.embeddings.word_embeddings.weight": None}, "no weight roberta.embeddings.word"),
        ({"lm_head.bias": "text"}, "not hold a state dict"),
    ):
        changed = {k: v for k, v in (state | change).items() if v is not None}
        torch.save(changed, file)
        with pytest.raises(CheckpointError, match=message):
            convert("colake", file, tmp_path / "out", {"heads": 2})
        assert not (tmp_path / "out").exists()


def test_hostile_tables_and_vocabularies(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    colake_release(tmp_path / "release", small_graph)
    small_graph.save(tmp_path / "kg")
    options = {"heads": 2, "kg": str(tmp_path / "kg")}
    bad = Hostile(f"touch {tmp_path / 'it-ran'}")
    with (tmp_path / "table.npy").open("wb") as stream:
        np.save(stream, np.array([[bad]], dtype=object), allow_pickle=True)
    pickled = [bad, {"Q1": bad}, {bad: 1}, {"Q1": 0, "x": [1]}, {"Q1": 1.5}, ["Q1", 1]]
    for content in pickled:
        file = tmp_path / "vocabulary.bin"
        file.write_bytes(pickle.dumps(content))
        with pytest.raises(CheckpointError, match="as a vocabulary"):
            convert(
                "colake", tmp_path / "release", tmp_path / "out",
                options | {"entity_vocabulary": str(file)},
            )  # fmt: skip
    with pytest.raises(CheckpointError, match="table of entities"):
        convert(
            "colake", tmp_path / "release", tmp_path / "out",
            options | {"entities": str(tmp_path / "table.npy")},
        )  # fmt: skip
    assert not (tmp_path / "it-ran").exists()


@pytest.mark.parametrize("protocol", range(1, pickle.HIGHEST_PROTOCOL + 1))
def test_vocabularies_in_every_form(protocol: int, tmp_path: Path) -> None:
    ids = {f"Q{i}": i for i in range(3000)} | {"é🙂": 70_000}
    forms = {
        "v.bin": pickle.dumps(ids, protocol=protocol),
        "v.json": str(ids).replace("'", '"').encode(),
        "v.txt": "".join(f"{name}\t{number}\n" for name, number in ids.items()).encode(),
    }
    for name, data in forms.items():
        (tmp_path / name).write_bytes(data)
        assert read_vocabulary(tmp_path / name) == ids
    (tmp_path / "v.bin").write_bytes(forms["v.bin"][:-20])
    with pytest.raises(CheckpointError, match="as a vocabulary"):
        read_vocabulary(tmp_path / "v.bin")
    (tmp_path / "v.txt").write_text("a\nb\nc\n")
    assert read_vocabulary(tmp_path / "v.txt") == {"a": 0, "b": 1, "c": 2}
    (tmp_path / "v.txt").write_text("a\t1\nb\t1\n")
    with pytest.raises(CheckpointError, match="twice"):
        read_vocabulary(tmp_path / "v.txt")


# ---- the command ----------------------------------------------------------------------------
def test_the_command_tells_the_options_of_a_method(method: str) -> None:
    done = run(method, "--options")
    assert done.exit_code == 0, done.output
    reader = converter(method)
    for name, parameter in inspect.signature(reader).parameters.items():
        if name != "path":
            default = "required" if parameter.default is parameter.empty else "default"
            assert re.search(rf"^--set {name}=[A-Z| ]+ +\({default}", done.stdout, re.MULTILINE)
    first = (inspect.getdoc(reader) or "").splitlines()[0]
    assert first in done.stdout


def test_file_and_folder_are_needed(tmp_path: Path) -> None:
    for flags, lacking in (((), "FILE"), ((tmp_path,), "--output")):
        done = run("colake", *flags)
        assert done.exit_code == 2
        assert lacking in done.stderr


def test_the_command_says_what_it_wrote(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    colake_release(tmp_path / "release", small_graph)
    out = tmp_path / "new/out"
    done = run("colake", tmp_path / "release/model.bin", "-o", out, "--set", "heads=2")
    assert done.exit_code == 0, done.output
    assert "KnowledgeForPreTraining: " in done.stdout
    assert "model.safetensors SHA-256 " in done.stdout
    again = run("colake", tmp_path / "release/model.bin", "-o", out, "--set", "heads=2")
    assert again.exit_code == 1
    assert "exists; choose another folder, or replace it with --force" in again.stderr
    flags = ("--set", "heads=2", "--force")
    assert run("colake", tmp_path / "release/model.bin", "-o", out, *flags).exit_code == 0
    assert [p.name for p in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["colak", "here.bin"], "no converter 'colak'"),
        (["colake", "none.bin"], "none.bin does not exist"),
        (["colake", "here.bin", "--set", "head=2"], "head: no such option"),
        (["colake", "here.bin", "--set", "heads=two"], "heads: 'two' is no int"),
        (["colake", "here.bin", "--set", "heads"], "write NAME=VALUE"),
    ],
)
def test_faults_are_one_message(
    flags: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.bin").touch()
    done = run(*flags, "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert not (tmp_path / "out").exists()
