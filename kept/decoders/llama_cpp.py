"""Decoders run by llama.cpp: a GGUF file is mapped as it is, and multiplied in its own precision.

Word pieces go in, and word pieces with their log-probabilities come out, so this serves facts as
words. Branches and nodes need masks inside the layers, which `kept.decoders.trees` has.

The package `xllamacpp` opens llama.cpp's server in this process. It listens on a socket in a folder
that only this user can read, and wants a key that only this process knows; kept itself calls it
directly.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kept.errors import ConfigError, HostError, MissingExtraError

INSTALL = "pip install 'kept[llamacpp]'"
N_POSITIONS, N_SLOTS = 1024, 8
"""Word pieces of all texts that are read at once, and the largest number of these texts."""
FORCED = 1e4
"""A score that makes one word piece certain. Log-probabilities are those before it is added."""


@dataclass(frozen=True)
class Written:
    """Word pieces that were written after a text, with the log-probability of each.

    The end of a text is not among them.
    """

    words: tuple[int, ...]
    log_chances: tuple[float, ...]


def is_available() -> bool:
    """Return whether xllamacpp is installed."""
    return find_spec("xllamacpp") is not None


class LlamaCppDecoder:
    """The decoder of a GGUF file; `n_positions` are the most word pieces that it can read.

    Raises `MissingExtraError` where xllamacpp is not installed, and `HostError` for a file that
    llama.cpp cannot open.
    """

    def __init__(self, path: str | Path, *, n_positions: int = 8192, n_threads: int = 1) -> None:
        if not is_available():
            raise MissingExtraError(f"the decoder backend llama.cpp needs xllamacpp: {INSTALL}")
        self.path, self.n_positions, self.n_threads = Path(path), n_positions, n_threads
        if not self.path.is_file():
            raise HostError(f"{self.path} is no file; llama.cpp reads GGUF")
        self._server: Any = None
        self._open(min(N_POSITIONS, n_positions))

    def __repr__(self) -> str:
        return f"LlamaCppDecoder({self.path.name})"

    def write(self, texts: Sequence[Sequence[int]], n_new: int) -> list[Written]:
        """Return what follows each text: the most probable word pieces, at most `n_new`.

        Writing stops where the text ends. Raises `ConfigError` for a text that is too long.
        """
        self._make_room(max(map(len, texts)) + n_new)
        written: list[Written] = []
        for part in self._parts(texts, n_new):
            written += [_written(each) for each in self._complete(part, n_new)]
        return written

    def log_chances(
        self, text: Sequence[int], words: Sequence[int], known: Written | None = None
    ) -> list[float]:
        """Return the log-probability of each of `words`, one after another behind `text`.

        `known` is what was written after this text: words that it begins with are not computed
        again.
        """
        self._make_room(len(text) + len(words))
        chances = [] if known is None else _of_common_start(words, known)
        for number in range(len(chances), len(words)):
            (choice,) = self._complete(
                [[*text, *words[:number]]], 1, logit_bias=[[words[number], FORCED]]
            )
            (piece,) = choice["logprobs"]["content"]
            chances.append(float(piece["logprob"]))
        return chances

    def close(self) -> None:
        """End the server and remove its folder. A closed decoder cannot be used."""
        self._server = None
        self._remove()

    # ---- parts -------------------------------------------------------------
    def _open(self, n_room: int) -> None:
        import xllamacpp

        folder = tempfile.mkdtemp(prefix="kept-")
        self._remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self.path)
        parameters.hostnames = [f"{folder}/s.sock"]
        parameters.api_keys = [secrets.token_hex(16)]
        parameters.n_ctx, parameters.n_parallel, parameters.kv_unified = n_room, N_SLOTS, True
        parameters.cpuparams.n_threads = self.n_threads
        parameters.cpuparams_batch.n_threads = self.n_threads
        parameters.n_threads_http = 1
        parameters.warmup, parameters.ui, parameters.endpoint_props = False, False, False
        parameters.cache_ram_mib, parameters.verbosity = 0, -1
        try:
            self._server = xllamacpp.Server(parameters)
        except RuntimeError as error:
            self._remove()
            raise HostError(
                f"llama.cpp cannot open {self.path}: {error} Is it a whole GGUF file of a decoder?"
            ) from error
        self._n_room = n_room
        self._complete([[0]], 1)  # a server that is closed before it runs would wait for ever

    def _make_room(self, n: int) -> None:
        """Open the model with more positions where a text needs them."""
        if n > self.n_positions:
            raise ConfigError(
                f"a text with its answer has {n} word pieces; {self.path.name} reads "
                f"{self.n_positions}: shorten the text or show fewer facts"
            )
        if n > self._n_room:
            self.close()
            self._open(min(1 << (n - 1).bit_length(), self.n_positions))

    def _parts(self, texts: Sequence[Sequence[int]], n_new: int) -> Iterator[list[list[int]]]:
        """The texts in parts that have room to be read at once."""
        part: list[list[int]] = []
        n_used = 0
        for text in texts:
            n = len(text) + n_new
            if part and (len(part) == N_SLOTS or n_used + n > self._n_room):
                yield part
                part, n_used = [], 0
            part.append(list(text))
            n_used += n
        yield part

    def _complete(
        self, texts: Sequence[Sequence[int]], n_new: int, **further: Any
    ) -> list[dict[str, Any]]:
        """The server's choices for some texts, in their order."""
        request = {
            "prompt": [list(text) for text in texts], "n_predict": n_new, "temperature": 0,
            "n_probs": 1, "cache_prompt": True, **further,
        }  # fmt: skip
        reply = self._server.handle_completions(request)
        if "error" in reply:
            raise HostError(f"llama.cpp with {self.path.name}: {reply['error'].get('message')}")
        return sorted(reply["choices"], key=lambda each: int(each["index"]))


def _written(choice: dict[str, Any]) -> Written:
    pieces = choice["logprobs"]["content"]
    if choice["finish_reason"] == "stop":
        pieces = pieces[:-1]  # the end of the text
    return Written(
        tuple(int(each["id"]) for each in pieces), tuple(float(each["logprob"]) for each in pieces)
    )


def _of_common_start(words: Sequence[int], known: Written) -> list[float]:
    """The log-probabilities of the words that both begin with."""
    chances = []
    for word, other, chance in zip(words, known.words, known.log_chances, strict=False):
        if word != other:
            break
        chances.append(chance)
    return chances
