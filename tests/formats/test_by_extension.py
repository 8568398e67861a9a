"""Broken model files: one clear error with path and line, and no memory for what a header only claims."""

from __future__ import annotations

import gzip
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwise.formats import FormatError, check_model, read_model

UAI = "MARKOV\n2\n2 3\n2\n1 0\n2 0 1\n\n2\n0.5 0.5\n\n6\n1 2 3\n4 5 6\n"
FG = "# a comment\n2\n\n1\n4\n2\n2\n0 0.5\n1 0.5\n\n2\n4 9\n2 3\n2\n0 1\n5 6\n"

# name, text, line, part of the message
BAD = [
    # UAI
    ("empty.uai", "", 1, "begins with ''"),
    ("word.uai", "\n\nCREDAL\n2\n", 3, "'CREDAL'"),
    ("only.uai", "MARKOV\n", 1, "ends where the number of variables"),
    ("negative.uai", "MARKOV\n-1\n", 2, "number of variables is -1"),
    ("fraction.uai", "MARKOV\n1.5\n2\n", 2, "number of variables is 1.5"),
    ("nan.uai", "MARKOV\nnan\n2\n", 2, "number of variables is nan"),
    ("word2.uai", UAI.replace("4 5 6", "4 five 6"), 13, "'five' is not a number"),
    ("underscore.uai", UAI.replace("4 5 6", "4 1_0 6"), 13, "'1_0' is not a number"),
    ("hex.uai", UAI.replace("4 5 6", "4 0x5 6"), 13, "'0x5' is not a number"),
    ("glued.uai", UAI.replace("4 5 6", "4-5 6 7"), 13, "'4-5' is not a number"),
    ("truncated.uai", UAI.replace("4 5 6", "4 5"), 13, "has only 5 more"),
    ("cut.uai", UAI[: UAI.index("6\n1 2 3")], 9, "ends where the number of entries"),
    ("entry.uai", UAI.replace("4 5 6", "4 -5 6"), 13, "entry -5.0"),
    ("entrynan.uai", UAI.replace("4 5 6", "4 NaN 6"), 13, "entry nan"),
    ("entryinf.uai", UAI.replace("1 2 3", "1 inf 3"), 12, "entry inf"),
    ("overflow.uai", UAI.replace("1 2 3", "1 1e999 3"), 12, "entry inf"),
    ("count.uai", UAI.replace("\n6\n", "\n5\n"), 11, "has 5 entries; its cardinalities [2, 3] ask for 6"),
    ("range.uai", UAI.replace("2 0 1", "2 0 2"), 6, "factor 1 names variable 2; the model has 2 variables"),
    ("below.uai", UAI.replace("2 0 1", "2 0 -1"), 6, "-1; it must be an integer of at least 0"),
    ("repeat.uai", UAI.replace("2 0 1", "2 1 1"), 6, "factor 1 repeats a variable"),
    ("zero.uai", UAI.replace("2 3\n", "2 0\n"), 3, "number 1 is 0; it must be an integer of at least 1"),
    ("trailing.uai", UAI + "\n\n7 8\n", 16, "2 more numbers follow where the file should end"),
    ("junk.uai", UAI + "end", 14, "'end' is not a number"),
    # FG
    ("empty.fg", "# nothing\n", 1, "ends where the number of factors"),
    ("word.fg", FG.replace("1 0.5", "1 half"), 9, "'half' is not a number"),
    ("truncated.fg", FG.replace("5 6\n", "5\n"), 14, "claims 2 entries of factor 1"),
    ("cut.fg", FG[: FG.index("2 3\n2\n")], 12, "ends where a cardinality of factor 1"),
    ("entry.fg", FG.replace("1 0.5", "1 -0.5"), 9, "entry -0.5"),
    ("entrynan.fg", FG.replace("5 6\n", "5 nan\n"), 16, "entry nan"),
    ("index.fg", FG.replace("5 6\n", "6 5\n"), 16, "gives entry 6; its cardinalities [2, 3] allow 0 to 5"),
    ("below.fg", FG.replace("5 6\n", "-1 5\n"), 16, "-1; it must be an integer of at least 0"),
    ("twice.fg", FG.replace("5 6\n", "0 6\n"), 16, "gives entry 0 twice"),
    ("many.fg", "1\n0\n2\n0 1\n0 1\n", 3, "gives 2 entries; its cardinalities [] allow 1"),
    (
        "two.fg",
        FG.replace("2 3\n2\n", "3 3\n2\n"),
        13,
        "variable 4 the cardinality 3; an earlier factor gave it 2",
    ),
    ("repeat.fg", FG.replace("4 9", "4 4"), 12, "repeats a variable"),
    ("zero.fg", FG.replace("2 3\n2\n", "2 0\n2\n"), 13, "is 0; it must be an integer of at least 1"),
    ("label.fg", FG.replace("4 9", "4 -9"), 12, "is -9; it must be"),
    ("trailing.fg", FG + "1\n", 17, "1 more numbers follow"),
]


@pytest.mark.parametrize(("name", "text", "line", "message"), BAD, ids=[case[0] for case in BAD])
def test_says_file_line_and_problem(name: str, text: str, line: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        read_model(path)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_texts_that_are_broken_above_are_fine_unbroken(tmp_path: Path) -> None:
    for name, text in (("m.uai", UAI), ("m.fg", FG)):
        (tmp_path / name).write_text(text)
        check_model(read_model(tmp_path / name))


TRILLION = 10**12
HUGE = [
    ("unused.uai", f"MARKOV\n2\n2 {TRILLION}\n1\n1 0\n2\n1 1\n", 3, f"variable 1 has {TRILLION} values and no factor"),
    ("variables.uai", f"MARKOV\n{TRILLION}\n2 2\n", 2, f"claims {TRILLION} variables"),
    ("factors.uai", f"MARKOV\n1\n2\n{TRILLION}\n1 0\n2\n1 1\n", 4, f"claims {TRILLION} factors"),
    ("scope.uai", f"MARKOV\n1\n2\n1\n{TRILLION} 0\n2\n1 1\n", 7, f"{TRILLION} numbers should follow"),
    ("entries.uai", f"MARKOV\n1\n2\n1\n1 0\n{TRILLION}\n1 1\n", 6, f"has {TRILLION} entries"),
    ("cells.uai", f"MARKOV\n1\n{TRILLION}\n1\n1 0\n{TRILLION}\n1 1\n", 6, "more entries than the file has"),
    ("axes.uai", f"MARKOV\n99\n{'1 ' * 99}\n1\n99 {' '.join(map(str, range(99)))}\n1\n1\n", 6, "99 axes"),
    ("infinite.uai", "MARKOV\n1e400\n", 2, "number of variables is inf"),
    ("factors.fg", f"{TRILLION}\n0\n1\n0 1\n", 1, f"claims {TRILLION} factors"),
    ("scope.fg", f"1\n{TRILLION}\n0\n", 2, f"has {TRILLION} variables; at most"),
    ("entries.fg", f"1\n1\n0\n2\n{TRILLION}\n0 1\n", 5, f"claims {TRILLION} entries"),
    ("cells.fg", f"1\n1\n0\n{TRILLION}\n1\n0 1\n", 5, "leave out"),
    ("product.fg", f"1\n32\n{' '.join(map(str, range(32)))}\n{'2 ' * 32}\n1\n0 1\n", 5, "leave out"),
    ("sum.fg", "3\n" + "".join(f"\n1\n{k}\n9000000\n0\n" for k in range(3)), 11, "leave out"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "line", "message"), HUGE, ids=[case[0] for case in HUGE])
def test_claims_cost_nothing(name: str, text: str, line: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    limit = 2**28 if name == "sum.fg" else 2**20  # that one is refused only when the sum of its tables is too large
    tracemalloc.start()
    try:
        with pytest.raises(FormatError) as caught:
            read_model(path)
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert message in str(caught.value)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for name in ("none.uai", "none.fg", "none.uai.gz"):
        with pytest.raises(FileNotFoundError, match=name):
            read_model(tmp_path / name)
    for name in ("folder.uai", "folder.fg.gz"):
        (tmp_path / name).mkdir()
        with pytest.raises(OSError, match=name):
            read_model(tmp_path / name)


def test_broken_compression(tmp_path: Path) -> None:
    packed = gzip.compress(UAI.encode() * 20, mtime=0)
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF
    contents = {"plain": UAI.encode(), "cut": packed[: len(packed) // 2], "damaged": bytes(damaged)}
    for name, content in contents.items():
        path = tmp_path / f"{name}.uai.gz"
        path.write_bytes(content)
        with pytest.raises(FormatError, match=f"{name}.uai.gz: "):
            read_model(path)
    (tmp_path / "packed.uai").write_bytes(gzip.compress(UAI.encode(), mtime=0))
    with pytest.raises(FormatError, match="line 1"):
        read_model(tmp_path / "packed.uai")


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([(UAI, ".uai"), (FG, ".fg")]),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 8), st.binary(max_size=6)), max_size=3),
)
def test_any_damage_gives_a_format_error_or_a_sound_model(
    source: tuple[str, str], damage: list[tuple[int, int, bytes]]
) -> None:
    data = source[0].encode()
    for place, length, junk in damage:
        place %= len(data) + 1
        data = data[:place] + junk + data[place + length :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"m{source[1]}"
        path.write_bytes(data)
        try:
            model = read_model(path)
        except FormatError as problem:
            assert problem.line is not None and 1 <= problem.line <= max(1, len(data.splitlines()))
        else:
            check_model(model)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_lost_token_is_noticed(data: st.DataObject) -> None:
    text, suffix = data.draw(st.sampled_from([(UAI, ".uai"), (FG.replace("# a comment\n", ""), ".fg")]))
    tokens = text.split()
    del tokens[data.draw(st.integers(0, len(tokens) - 1))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"m{suffix}"
        path.write_text(" ".join(tokens))
        with pytest.raises(FormatError):
            read_model(path)
