"""Corrected links as gold annotations, one line per text, as `kept link train` and `score` take."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from entity_linking.annotations import gold_link, to_json
from entity_linking.mentions import LinkedText
from kept.errors import ConfigError
from kg_loaders.disk.writing import WAIT_SECONDS, whole_file


class _Line(msgspec.Struct):
    """What tells a line of gold annotations from any other file, and to which text it belongs."""

    text: str
    mentions: list[dict[str, object]]


def record(path: Path, text: str, choices: Mapping[tuple[int, int], str | None]) -> tuple[int, int]:
    """Put the gold links of `text` into the file at `path`; returns its numbers of texts and links.

    The line of the same text is replaced, any other stays byte for byte; a text without choices has
    no line. The file is whole at every moment, and several processes may record into it: each reads
    it under the lock under which it writes. Raises `ConfigError` where a line is not an annotation,
    and `WriteError`.
    """
    links = tuple(gold_link(*span, entity) for span, entity in sorted(choices.items()))
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    ours = to_json(LinkedText(text, links, name))
    with whole_file(path, force=True, wait=WAIT_SECONDS) as part:  # read under the writer's lock
        others = [(line, parsed) for line, parsed in _lines(path) if parsed.text != text]
        lines = [line for line, _ in others] + ([ours] if links else [])
        part.write_bytes(b"".join(line + b"\n" for line in lines))
    n_links = sum(len(parsed.mentions) for _, parsed in others) + len(links)
    return len(lines), n_links


def _lines(path: Path) -> list[tuple[bytes, _Line]]:
    if not path.exists():
        return []
    parsed = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            parsed.append((line, msgspec.json.decode(line, type=_Line)))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path}, line {number} is not an annotated text: {error}; mend it, or name "
                f"another "
                "file with --gold"
            ) from error
    return parsed
