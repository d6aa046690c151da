"""Opening what others saved: no code, no pickle, no network for a path; errors that say so."""

from __future__ import annotations

import ast
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

import kept
from kept import hosts
from kept.errors import HostError
from kept.lab.probing.opening import open_model
from tests.kept.tiny_hosts import tiny_host

ROOT = Path(kept.__file__).parent.parent
SOURCES = sorted(
    file
    for folder in ("kept", "entity_linking", "experiments")
    for file in (ROOT / folder).rglob("*.py")
)
OPENS = ("AutoModel", "AutoModelForMaskedLM", "AutoTokenizer")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_host().save_pretrained(tmp_path / "host")
    return tmp_path / "host"


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """No variable forbids the network; what is looked up there is noted, and nothing is found."""
    lookups: list[object] = []

    def lookup(*arguments: object, **_: object) -> None:
        lookups.append(arguments[0])
        raise socket.gaierror("no such name")

    for name in ("HF_HUB_OFFLINE", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return lookups


@pytest.mark.parametrize("name", ["runs/mine", "./mine", "../mine", "~/mine", "a/b/c", "/no/where"])
def test_a_mistyped_folder_is_no_question_to_a_hub(
    name: str, tmp_path: Path, online: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mime").mkdir(parents=True)
    for opened in (hosts.load_host, hosts.load_tokenizer, open_model):
        with pytest.raises(HostError, match="does not exist") as caught:
            opened(name)
        if name == "runs/mine":
            assert "did you mean runs/mime?" in str(caught.value)
    assert online == []


def test_a_name_of_a_hub_without_address_is_asked_once(online: list[object]) -> None:
    with pytest.raises(HostError, match=r"owner/model cannot be opened.*give a folder"):
        hosts.load_host("owner/model")
    assert len(online) == 1


def test_offline_asks_nothing(online: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(HostError, match="the network is not used"):
        hosts.load_tokenizer("owner/model")
    assert online == []


@pytest.mark.parametrize("kind", OPENS)
def test_every_kind_is_opened_without_code_and_without_pickle(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: dict[str, Any] = {}

    def note(_name: str, **options: Any) -> None:
        passed.update(options)

    opened = {"AutoModel": AutoModel, "AutoModelForMaskedLM": AutoModelForMaskedLM}.get(
        kind, AutoTokenizer
    )
    monkeypatch.setattr(opened, "from_pretrained", note)
    hosts.open_pretrained(opened, folder)
    assert passed["trust_remote_code"] is False
    assert passed["local_files_only"] is True
    assert passed.get("use_safetensors") is (None if kind == "AutoTokenizer" else True)


def test_code_that_came_with_a_model_is_not_run(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.C", "AutoModel": "own.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    trace = tmp_path / "ran"
    (folder / "own.py").write_text(f"open({str(trace)!r}, 'w')\nclass C: pass\nclass M: pass\n")
    with pytest.raises(HostError, match="host cannot be opened"):
        hosts.load_host(folder)
    assert not trace.exists()


def test_pickled_weights_are_refused(folder: Path) -> None:
    torch.save(tiny_host().state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(HostError, match="convert pickled weights"):
        hosts.load_host(folder)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", cut),
        ("model.safetensors", lambda file: file.write_bytes(b"")),
        ("config.json", lambda file: file.write_text("[]")),
        ("config.json", lambda file: file.write_text("{}")),
        ("config.json", lambda file: file.write_text("[" * 100_000)),
        ("config.json", lambda file: file.write_text('{"model_type": "bert", "hidden_size": "x"}')),
    ],
)
def test_a_damaged_host_names_its_folder(
    name: str, damage: Callable[[Path], object], folder: Path
) -> None:
    damage(folder / name)
    with pytest.raises(HostError, match=r"host cannot be opened.*save or fetch it again"):
        hosts.load_host(folder)


@pytest.mark.parametrize("content", ["{}", "[]", "", '{"model": {"type": "WordPiece"}}'])
def test_a_damaged_tokenizer_names_its_folder(content: str, folder: Path) -> None:
    (folder / "tokenizer.json").write_text(content)
    with pytest.raises(HostError, match=r"host cannot be opened.*save or fetch it again"):
        hosts.load_tokenizer(folder)


def _opens_of_others(file: Path) -> list[int]:
    """Lines that call `from_pretrained` of a class of transformers, or of a base class unsafely."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    of_transformers = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("transformers")
        for alias in node.names
    }
    lines = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr not in ("from_pretrained", "pipeline", "from_config_and_weights"):
            continue
        receiver = ast.unparse(node.func.value)
        if receiver == "AutoConfig" and "trust_remote_code=False" in ast.unparse(node):
            continue  # it builds nothing and runs nothing; `require_sane` has looked at the file
        theirs = receiver in of_transformers or receiver.split(".")[0] == "transformers"
        handed_on = receiver == "super()" and file.name == "model.py"  # to KnowledgeModel's
        is_plain = (
            receiver == "super()" and not handed_on and "hosts.SAFELY" not in ast.unparse(node)
        )
        if theirs or is_plain:
            lines.append(node.lineno)
    return lines


def test_nothing_else_opens_models_of_others() -> None:
    assert len(SOURCES) > 200
    openings = {file: lines for file in SOURCES if (lines := _opens_of_others(file))}
    assert not openings, "take kept.hosts.open_pretrained"
    assert not any(
        "torch.load(" in file.read_text() and "weights_only=True" not in file.read_text()
        for file in SOURCES
    )


def test_a_further_call_would_be_seen(tmp_path: Path) -> None:
    file = tmp_path / "beside.py"
    file.write_text("from transformers import AutoModel\nAutoModel.from_pretrained('x')\n")
    assert _opens_of_others(file) == [2]
