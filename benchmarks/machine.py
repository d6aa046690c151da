"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16")
"""Of the processor, those that decide how fast matrix products and strings are."""
LIBRARIES = ("torch", "numpy", "faiss-cpu", "pyarrow", "tokenizers", "transformers", "duckdb")
PEERS = ("dgl", "flashtext", "msgspec", "onnxruntime", "openvino", "polars", "pyahocorasick",
         "pykeen", "pyoxigraph", "rdflib", "sentence-transformers", "spacy",
         "xllamacpp")  # fmt: skip


def described() -> dict[str, Any]:
    """Processor, cores, memory, kernel, Python, the versions of libraries and peers."""
    text = Path("/proc/cpuinfo").read_text("utf-8") if Path("/proc/cpuinfo").exists() else ""
    matches = {name: re.search(rf"^{name}\s*: (.*)$", text, re.MULTILINE)
             for name in ("model name", "flags")}  # fmt: skip
    model, flags = matches["model name"], matches["flags"]
    has = flags[1].split() if flags else []
    return {
        "processor": model[1] if model else platform.processor(),
        "flags": [flag for flag in FLAGS if flag in has],
        "without": [flag for flag in FLAGS if flag not in has],
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "peers": {name: _version(name) for name in PEERS},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def in_words(machine: dict[str, Any]) -> str:
    """Two sentences."""
    packages = {**machine["libraries"], **machine["peers"]}
    versions = ", ".join(
        f"{name} {version_text}" for name, version_text in packages.items() if version_text
    )
    absent = [name for name, version_text in packages.items() if not version_text]
    return (
        f"{machine['cores']} cores of {machine['processor']} (with "
        f"{', '.join(machine['flags']) or 'no vector flags'}; without "
        f"{', '.join(machine['without']) or 'nothing that is looked for'}), "
        f"{machine['memory_gb']} GB, Linux {machine['kernel']}, Python {machine['python']}. "
        f"{versions}." + (f" Not installed: {', '.join(absent)}." if absent else "")
    )
