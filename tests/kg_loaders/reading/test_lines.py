"""`read_lines` over plain and compressed files, whole and damaged, under each policy."""

from __future__ import annotations

import bz2
import gzip
import lzma
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kg_loaders.budget import ReaderBudget
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import BudgetError, DamageError, SourceError
from kg_loaders.reading.lines import read_blocks, read_lines
from kg_loaders.reading.unpacking import BLOCK_BYTES, COMPRESSED

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": lambda data: bz2.compress(data, 1),
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def read(path: Path, policy: str = "stop", **options: int) -> tuple[list[bytes], DamageReport]:
    quarantine = path.with_name("bad") if policy == "quarantine" else None
    report = DamageReport(policy=DamagePolicy(policy), quarantine=quarantine)
    lines = [line for _, _, line in read_lines(path, report, **options)]
    assert report.n_lines == len(lines) + report.n_rejected
    return lines, report


def write(folder: Path, data: bytes, suffix: str = "") -> Path:
    path = folder / f"x.tsv{suffix}"
    path.write_bytes(COMPRESS[suffix](data))
    return path


def test_every_suffix_is_tried() -> None:
    assert set(COMPRESS) == {"", *COMPRESSED}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_lines_and_offsets(tmp_path: Path, suffix: str) -> None:
    data = "\ufeffa\r\n\nb\rc\u2028\x85d\v\f\x1c\n\r\r\nlast\r".encode()
    path = write(tmp_path, data, suffix)
    actual = list(read_lines(path, DamageReport()))
    assert [line.decode() for _, _, line in actual] == [
        "a", "", "b\rc\u2028\x85d\v\f\x1c", "\r", "last\r",
    ]  # fmt: skip
    assert [number for number, _, _ in actual] == [1, 2, 3, 4, 5]
    assert all(data[offset:].startswith(line) for _, offset, line in actual)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_no_bytes_no_lines(tmp_path: Path, suffix: str) -> None:
    assert read(write(tmp_path, b"", suffix))[0] == []
    assert read(write(tmp_path, b"\xef\xbb\xbf\n", suffix))[0] == [b""]


@settings(deadline=None, max_examples=30)
@given(data=st.binary().filter(lambda b: b"\0" not in b), limit=st.integers(1, 12))
def test_against_plain_split(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, limit: int
) -> None:
    path = write(tmp_path_factory.mktemp("split"), data)
    body = data.removeprefix(b"\xef\xbb\xbf")
    rows = body.split(b"\n")
    ended = [row.removesuffix(b"\r") for row in rows[:-1]] + ([rows[-1]] if rows[-1] else [])
    good = [r for r in ended if len(r) <= limit and r == r.decode(errors="ignore").encode()]
    assert read(path, "skip", max_line_bytes=limit)[0] == good


@pytest.mark.parametrize(
    ("bad", "reason"),
    [(b"caf\xe9", "not UTF-8"), (b"a\0b", "NUL byte"), (b"x" * 99, "longer than 50 bytes"),
     (b"\xed\xa0\x80", "not UTF-8"), (b"cut \xe2\x82", "not UTF-8")],
)  # fmt: skip
def test_bad_line_by_policy(tmp_path: Path, bad: bytes, reason: str) -> None:
    path = write(tmp_path, b"good\n" + bad + b"\nalso good\n")
    with pytest.raises(DamageError, match=rf"x\.tsv, line 2 \(byte 5\): {reason}.*mend the line"):
        read(path, max_line_bytes=50)
    for policy in ("skip", "quarantine"):
        lines, report = read(path, policy, max_line_bytes=50)
        assert lines == [b"good", b"also good"]
        assert (report.n_lines, report.reasons) == (3, {reason: 1})
    assert (tmp_path / "bad").read_bytes() == bad + b"\n"


@pytest.mark.parametrize("tail", [b"", b"\n", b"\nnext\n"])
def test_overlong_line_in_bounded_memory(tmp_path: Path, tail: bytes) -> None:
    path = write(tmp_path, b"a\n" + b"y" * 40_000_000 + tail, ".gz")
    tracemalloc.start()
    lines, report = read(path, "skip", max_line_bytes=1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lines == [b"a", *([b"next"] if b"next" in tail else [])]
    assert report.reasons == {"longer than 1000000 bytes": 1}
    assert "more than" in report.rejections[0].excerpt
    assert len(report.rejections[0].excerpt) < 200
    assert peak < 6_000_000
    _, report = read(path, "quarantine", max_line_bytes=1_000_000)
    assert (tmp_path / "bad").read_bytes() == b"y" * 40_000_000 + b"\n"


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("n_long", [20, BLOCK_BYTES, 3 * BLOCK_BYTES + 7])
@pytest.mark.parametrize("suffix", COMPRESS)
def test_offsets_after_an_overlong_line(
    tmp_path: Path, suffix: str, n_long: int, bom: bytes
) -> None:
    """Whether it ends in its block, with it, or blocks later."""
    data = bom + b"a\n" + b"y" * n_long + b"\nnext\r\n" + b"z" * n_long + b"\nlast"
    path, report = write(tmp_path, data, suffix), DamageReport(policy=DamagePolicy("skip"))
    actual = list(read_lines(path, report, max_line_bytes=9))
    assert actual == [
        (1, len(bom), b"a"), (3, data.index(b"next"), b"next"), (5, data.index(b"last"), b"last"),
    ]  # fmt: skip
    assert [rejected.byte_offset for rejected in report.rejections] == [
        data.index(b"y"), data.index(b"z"),
    ]  # fmt: skip


def test_long_lines_within_the_limit(tmp_path: Path) -> None:
    start = time.perf_counter()
    lines, _ = read(write(tmp_path, b"z" * 10_000_000 + b"\nb\n"))
    assert [len(line) for line in lines] == [10_000_000, 1]
    lines, report = read(write(tmp_path, b"z" * 17_000_000 + b"\nb\n"), "skip")
    assert (lines, report.n_rejected) == ([b"b"], 1)
    lines, _ = read(write(tmp_path, "é".encode() * 8_000_000 + b"\r\n"))
    assert len(lines[0]) == 16_000_000
    assert time.perf_counter() - start < 10


def test_exactly_the_limit(tmp_path: Path) -> None:
    for end in (b"", b"\n", b"\r\n"):
        path = write(tmp_path, b"12345" + end)
        assert read(path, max_line_bytes=5)[0] == [b"12345"]
        assert read(path, "skip", max_line_bytes=4)[1].n_rejected == 1


@pytest.mark.parametrize("suffix", sorted(COMPRESSED))
def test_two_members(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(COMPRESS[suffix](b"a\nb") + COMPRESS[suffix](b"c\nd\n"))
    assert read(path)[0] == [b"a", b"bc", b"d"]


@pytest.mark.parametrize("suffix", sorted(COMPRESSED))
def test_zero_padding_is_no_damage(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(COMPRESS[suffix](b"a\n") + bytes(200_000))
    assert read(path)[0] == [b"a"]


BODY = b"".join(b"line %d %d\n" % (i, i * i * 7919 % 100_003) for i in range(50_000))


def damaged(suffix: str, kind: str) -> bytes:
    whole = COMPRESS[suffix](BODY)
    return {
        "cut": whole[: len(whole) // 2],
        "cut near the end": whole[:-3],
        "junk": whole + b"this is no member",
        "plain text": b"plain\ttext\n",
        "empty": b"",
    }[kind]


@pytest.mark.parametrize("suffix", sorted(COMPRESSED))
@pytest.mark.parametrize("kind", ["cut", "cut near the end", "junk", "plain text", "empty"])
def test_damaged_stream(tmp_path: Path, suffix: str, kind: str) -> None:
    path = tmp_path / f"x.tsv{suffix}"
    path.write_bytes(damaged(suffix, kind))
    with pytest.raises(SourceError, match=r"x\.tsv.*, decompressed byte \d+: .*fetch the file"):
        read(path)
    for policy in ("skip", "quarantine"):
        lines, report = read(path, policy)
        assert report.n_rejected == 1
        actual = b"".join(line + b"\n" for line in lines)
        rejected = (tmp_path / "bad").read_bytes()[:-1] if policy == "quarantine" else b""
        assert BODY.startswith(actual + rejected)
        assert report.rejections[0].byte_offset == len(actual)
    if kind == "junk":
        assert actual == BODY
        assert "junk after" in report.rejections[0].reason
    if kind == "cut":
        assert lines
        assert "cut" in report.rejections[0].reason


def test_flipped_byte_is_damage(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(BODY))
    data[-6] ^= 1  # in the checksum
    (tmp_path / "x.gz").write_bytes(data)
    lines, report = read(tmp_path / "x.gz", "skip")
    assert report.reasons == {"the gzip data are damaged": 1}
    assert 40_000 < len(lines) < 50_000
    assert BODY.startswith(b"\n".join(lines))


@pytest.mark.parametrize("suffix", sorted(COMPRESSED))
def test_bomb_in_bounded_memory(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, bytes(300_000_000), suffix)
    assert path.stat().st_size < 1_000_000
    trusted = ReaderBudget(expansion=10**9)
    for budget in (ReaderBudget(), trusted):
        report = DamageReport(DamagePolicy.SKIP, budget=budget)
        tracemalloc.start()
        with nullcontext() if budget is trusted else pytest.raises(BudgetError, match="expansion"):
            list(read_lines(path, report, max_line_bytes=1000))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert report.n_rejected == 1
        assert peak < 200_000_000


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no-such"):
        read(tmp_path / "no-such")
    with pytest.raises(SourceError, match="is a folder; give a file"):
        read(tmp_path)


def test_exactly_the_limit_whose_end_is_in_the_next_block(tmp_path: Path) -> None:
    limit = BLOCK_BYTES - 4
    path = write(tmp_path, b"\xef\xbb\xbf" + b"x" * limit + b"\r\nnext\n")
    assert read(path, max_line_bytes=limit)[0] == [b"x" * limit, b"next"]
    assert read(path, "skip", max_line_bytes=limit - 1)[0] == [b"next"]


def test_a_member_that_an_archive_lacks_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in/x.tsv", "a\nb\n")
    assert read(tmp_path / "a.zip/in/x.tsv")[0] == [b"a", b"b"]
    with pytest.raises(SourceError, match=r"a\.zip has no member 'x\.tsv'; give one that it holds"):
        read(tmp_path / "a.zip/x.tsv")


@given(
    data=st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\xc3\xa9"]), max_size=30).map(b"".join)
)
def test_ends_of_long_lines_are_those_of_their_blocks(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("ends") / "x.txt"
    path.write_bytes(data)
    plain = list(read_blocks(path, DamageReport()))
    for block, other in zip(
        read_blocks(path, DamageReport(), lines_are_long=True), plain, strict=True
    ):
        assert block.ends is not None
        assert block.n_lines == other.n_lines
        starts = [0, *(end + 1 for end in block.ends[:-1])]
        lines = [block.data[start:end] for start, end in zip(starts, block.ends, strict=True)]
        assert lines == [line for _, _, line in other.lines()]
