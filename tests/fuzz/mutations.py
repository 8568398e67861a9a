"""Ways to spoil a file: bytes, lines, tokens and numbers, and what is inside of archives, pictures and saved models.

In: a random generator, the bytes of a valid file. Out: bytes that are nearly those. Everything is cheap: a mutation
takes microseconds, since the readers should take the time.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutate = Callable[[Random, bytes], bytes]

LONG_NUMBER = b"9" * 5000
NUMBERS: tuple[bytes, ...] = (
    b"0", b"-1", b"1", b"2", b"3", b"7", b"1e308", b"-1e308", b"nan", b"inf", b"-inf", b"1_0", b"99999999999", b"0.5",
    b"18446744073709551616", b"9223372036854775808", b"-9223372036854775808", b"4294967296", b"1e-320", b"0x10", b"+1",
    b"-0", b"1.", b".5", b"1e400", b"1e5", b"007", b"1.0000000000000002", LONG_NUMBER, "٣".encode(), "²".encode(),
)  # fmt: skip
SPACES: tuple[bytes, ...] = tuple(
    text.encode() for text in ("\u00a0", "\u2028", "\u2029", "\u3000", "\u200b", "\x0b", "\x0c", "\x1c", "\x1f", "\x85")
)
ODD: tuple[bytes, ...] = (
    *SPACES, b"\x00", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n\n", b"\t", b"\xff", b"\xc3", b"\xed\xa0\x80",
    b"\x1b[31m", b"", b'"', b"'", b"\\", b",", b";", b"{", b"}", b"(", b")", b"|", b"#", b"%", b"-", b"_", b"*", b"?",
    b"@", b"<", b">", b"&", b"=", b" ", b"-DOCSTART-", b"None", b"A" * 3000, "𝔘ñí".encode(), b"e\xcc\x81",
)  # fmt: skip
_TOKEN = re.compile(rb"[^\s,|\"'(){}<>=]+")
_NUMBER = re.compile(rb"[-+]?[0-9][0-9._eE+-]*")
_LARGEST = 1 << 16  # bytes of a mutated file: duplicated pieces must not add up


# --- Bytes and text --------------------------------------------------------------------------------------------------


def flip(random: Random, data: bytes) -> bytes:
    """A few bits, or a byte."""
    spoilt = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        place = random.randrange(len(spoilt))
        spoilt[place] = spoilt[place] ^ (1 << random.randrange(8)) if random.random() < 0.5 else random.randrange(256)
    return bytes(spoilt)


def cut(random: Random, data: bytes) -> bytes:
    """The file ends early, or begins late."""
    place = random.randrange(len(data) + 1)
    return data[:place] if random.random() < 0.8 else data[place:]


def move_span(random: Random, data: bytes) -> bytes:
    """A piece is deleted, doubled, or put elsewhere."""
    begin = random.randrange(len(data))
    end = min(len(data), begin + random.choice((1, 2, 4, 16, 64)))
    piece, rest = data[begin:end], data[:begin] + data[end:]
    way = random.randrange(3)
    if way == 0:
        return rest
    place = random.randrange(len(rest) + 1) if way == 1 else begin
    return (rest if way == 1 else data)[:place] + piece + (rest if way == 1 else data)[place:]


def put_odd(random: Random, data: bytes) -> bytes:
    """Something odd in between: a space that is none, a zero byte, a mark of byte order."""
    place = random.randrange(len(data) + 1)
    return data[:place] + random.choice(ODD) + data[place:]


def move_lines(random: Random, data: bytes) -> bytes:
    """Lines are doubled, deleted or swapped."""
    lines = data.split(b"\n")
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    way = random.randrange(4)
    if way == 0:
        lines.insert(other, lines[one])
    elif way == 1:
        del lines[one]
    elif way == 2:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        lines[one] = lines[one] + lines[other]
    return b"\n".join(lines)


def move_tokens(random: Random, data: bytes) -> bytes:
    """Tokens are doubled, deleted, swapped or replaced."""
    tokens = [found.span() for found in _TOKEN.finditer(data)]
    if not tokens:
        return put_odd(random, data)
    begin, end = random.choice(tokens)
    way = random.randrange(5)
    if way == 0:
        return data[:begin] + data[end:]
    if way == 1:
        return data[:end] + random.choice((b" ", b"\t", b",", b"\n", b"")) + data[begin:end] + data[end:]
    if way == 2:
        other = random.choice(tokens)
        return data[:begin] + data[other[0] : other[1]] + data[end:]
    return data[:begin] + random.choice(ODD if way == 3 else NUMBERS) + data[end:]


def change_number(random: Random, data: bytes) -> bytes:
    """A number becomes another, or none."""
    numbers = [found.span() for found in _NUMBER.finditer(data)]
    if not numbers:
        return move_tokens(random, data)
    begin, end = random.choice(numbers)
    if random.random() < 0.3:
        near = re.match(rb"\d{1,9}$", data[begin:end])
        return data[:begin] + (b"%d" % (int(near[0]) + random.choice((-1, 1))) if near else b"1") + data[end:]
    return data[:begin] + random.choice(NUMBERS) + data[end:]


def change_line_ends(random: Random, data: bytes) -> bytes:
    """Line ends of another system, in all of the file or in one line."""
    other = random.choice((b"\r\n", b"\r", b"\n\n", b"\x0b", b"\xe2\x80\xa8", b" \n", b"\r\r\n"))
    if random.random() < 0.5:
        return data.replace(b"\n", other)
    place = data.find(b"\n", random.randrange(len(data)))
    return data if place < 0 else data[:place] + other + data[place + 1 :]


_TEXT: tuple[Mutate, ...] = (
    flip, cut, move_span, put_odd, put_odd, move_lines, move_lines, move_tokens, move_tokens, change_number,
    change_number, change_line_ends,
)  # fmt: skip
_BINARY: tuple[Mutate, ...] = (flip, flip, flip, cut, move_span, put_odd)


def spoil_text(random: Random, data: bytes) -> bytes:
    """One to four changes of a text."""
    return _several(random, data, _TEXT)


def spoil_bytes(random: Random, data: bytes) -> bytes:
    """One to four changes of bytes that are no text."""
    return _several(random, data, _BINARY)


def _several(random: Random, data: bytes, ways: Sequence[Mutate]) -> bytes:
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        if not data:
            return random.choice(ODD)
        data = random.choice(ways)(random, data)[:_LARGEST]
    return data


# --- What is compressed ----------------------------------------------------------------------------------------------


def spoil_gzip(random: Random, data: bytes) -> bytes:
    """What is inside, or the archive itself."""
    if random.random() < 0.5:
        return gzip.compress(spoil_text(random, gzip.decompress(data)), 1, mtime=0)
    if random.random() < 0.2:  # a second member, whole or not
        return data + (data if random.random() < 0.5 else spoil_bytes(random, data))
    return spoil_bytes(random, data)


def spoil_zip(random: Random, data: bytes) -> bytes:
    """Members with other content (and the checksum that goes with it), other names, or twice; or the archive itself."""
    if random.random() < 0.3:
        return spoil_bytes(random, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    place = random.randrange(len(members))
    name, content = members[place]
    way = random.randrange(6)
    if way <= 2:
        members[place] = (name, spoil_npy(random, content))
    elif way == 3:
        members[place] = (
            random.choice(("", "../x.npy", "a.txt", "x" * 300 + ".npy", "é.npy", "\x00.npy", name)),
            content,
        )
    elif way == 4:
        members.append((name if random.random() < 0.5 else "note.txt", spoil_bytes(random, content)))
    else:
        del members[place]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = archive.compression
            if name in archive.NameToInfo:
                archive.NameToInfo.pop(name)  # else it warns that there are two
            archive.writestr(info, content)
    return stream.getvalue()


_SHAPE = re.compile(rb"'shape': \(([^)]*)\)")
_DESCRIPTION = re.compile(rb"'descr': '([^']*)'")
_SHAPES = (
    b"",
    b"0,",
    b"-1,",
    b"99999999999,",
    b"4, 99999999999",
    b"4, 5",
    b"5, 4",
    b"1, 20",
    b"2, 2, 5",
    b"20,",
    b"4, 0",
)
_TYPES = (
    b"|O",
    b"<f4",
    b"<f8",
    b"<i8",
    b"|u1",
    b"|b1",
    b"<c16",
    b"<U3",
    b"|S4",
    b"<f2",
    b"<M8[D]",
    b">f8",
    b"<f16",
    b"x",
)


def spoil_npy(random: Random, data: bytes) -> bytes:
    """Another shape or type in the header, other numbers, or any bytes."""
    way = random.randrange(4)
    if way == 0:
        return _SHAPE.sub(b"'shape': (" + random.choice(_SHAPES) + b")", data, count=1)
    if way == 1:
        return _DESCRIPTION.sub(b"'descr': '" + random.choice(_TYPES) + b"'", data, count=1)
    if way == 2:
        number = random.choice((float("nan"), float("inf"), -float("inf"), 1e308, -1.0, 1e19))
        place = max(0, len(data) - 8 * random.randrange(1, 8))
        return data[:place] + struct.pack("<d", number) + data[place + 8 :]
    return spoil_bytes(random, data)


def spoil_png(random: Random, data: bytes) -> bytes:
    """Chunks that are changed, with their checksums put right, left out, doubled or swapped; or any bytes."""
    if random.random() < 0.3:
        return spoil_bytes(random, data)
    chunks, place = [], 8
    while place + 8 <= len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    one, other = random.randrange(len(chunks)), random.randrange(len(chunks))
    way = random.randrange(5)
    if way == 0:
        del chunks[one]
    elif way == 1:
        chunks.insert(other, chunks[one])
    elif way == 2:
        chunks[one], chunks[other] = chunks[other], chunks[one]
    elif way == 3:
        chunks[0] = (chunks[0][0], _other_header(random, chunks[0][1]))
    else:
        name, content = chunks[one]
        chunks[one] = (name, _other_content(random, name, content))
    return data[:8] + b"".join(_chunk(*chunk) for chunk in chunks)


def _other_header(random: Random, header: bytes) -> bytes:
    """Sizes, depth, colours and interlacing are those of some other picture. Sizes stay below a few megabytes."""
    fields = list(struct.unpack(">IIBBBBB", header[:13].ljust(13, b"\0")))
    which = random.randrange(len(fields))
    fields[which] = random.choice((0, 1, 3, 5, 8, 2000, 2**31) if which < 2 else (0, 1, 2, 3, 4, 6, 8, 16, 255))
    return struct.pack(">IIBBBBB", *fields)


def _other_content(random: Random, name: bytes, content: bytes) -> bytes:
    if name == b"IDAT" and random.random() < 0.6:
        try:
            return zlib.compress(spoil_bytes(random, zlib.decompress(content)), 1)
        except zlib.error:
            pass
    return spoil_bytes(random, content)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


# --- Saved models ----------------------------------------------------------------------------------------------------

_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 0.5, 1.5, -0.5, 1e-300, 1e308, 99999999999, 2**64, float("nan"), float("inf"),
    -float("inf"), "", "nan", "x", "3", "x" * 5000, "\x00", "\n", [], {}, [[]], [0], [1, 2],
    {"class": "BP", "options": {}}, {"class": "System", "options": {}}, {"tensor": "unary"}, {"number": "nan"},
    {"mapping": [[1, 2]]}, "９", 10**400,
)  # fmt: skip
_TENSOR_TYPES = ("F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", "I8", "C64", "XX")
_FLOATS = (float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e30, 1e-320, 0.0, -1.0, 1e10)
_INTEGERS = (-1, 0, 1, 7, 2**31, 2**62, -(2**63), 99999999999)


def spoil_model(random: Random, data: bytes) -> bytes:
    """A leaf of the description, a tensor's numbers, shape, type or name; or any bytes of the file."""
    way = random.random()
    if way < 0.15:
        return spoil_bytes(random, data)
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    if way < 0.6:
        text = header["__metadata__"]["description"]
        header["__metadata__"]["description"] = (
            spoil_text(random, text.encode()).decode("utf-8", "replace")
            if (way < 0.2)
            else json.dumps(spoil_json(random, json.loads(text)))
        )
    elif way < 0.65:
        header = spoil_json(random, header)
    else:
        body = _spoil_tensor(random, header, body)
    packed = json.dumps(header).encode()
    return len(packed).to_bytes(8, "little") + packed + body


def spoil_json(random: Random, value: Any) -> Any:
    """One to three leaves, keys or branches of a JSON value are others, elsewhere, or gone."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return _copy(random.choice(_VALUES))
        owner, key = random.choice(places)
        way = random.randrange(8)
        if way == 0:
            del owner[key]
        elif way == 1:
            other_owner, other_key = random.choice(places)
            owner[key] = _copy(other_owner[other_key])
        elif way == 2 and isinstance(owner, dict):
            owner[random.choice(("x", "", "class", "options", "inference", key + key))] = owner.pop(key)
        elif way == 3 and isinstance(owner, list):
            owner.insert(0, _copy(owner[key]))
        elif way == 4:
            owner[key] = _near(random, owner[key])
        else:
            owner[key] = _copy(random.choice(_VALUES))
    return value


def _copy(value: Any) -> Any:
    """A JSON value of its own: a later change of it must change nothing else."""
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in value.items()}
    return [_copy(member) for member in value] if isinstance(value, list) else value


def _places(value: Any) -> Any:
    """Every place of a JSON value: the list or mapping, and the index or key in it."""
    stack = [value]
    while stack:
        owner = stack.pop()
        items = (
            list(owner.items())
            if isinstance(owner, dict)
            else list(enumerate(owner))
            if isinstance(owner, list)
            else []
        )
        for key, member in items:
            yield owner, key
            if isinstance(member, dict | list):
                stack.append(member)


def _near(random: Random, value: Any) -> Any:
    """Nearly the same value, of the same or another type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        real = float(value) if abs(value) < 1e300 else 0.0
        return random.choice((-value, value + 1, value - 1, value * 1000, real, str(value), [value]))
    if isinstance(value, str):
        return random.choice((value + "x", value[:-1], value.upper(), [value], {"class": value}, value * 50))
    if isinstance(value, list):
        return random.choice(
            (value + value, value[:-1], value[1:], value[::-1], {"list": value}, tuple(value) and value[0:1])
        )
    return [value]


def _spoil_tensor(random: Random, header: dict[str, Any], body: bytes) -> bytes:
    names = [name for name in header if name != "__metadata__"]
    if not names:
        return body + b"\0"
    name = random.choice(names)
    entry = header[name]
    begin, end = entry["data_offsets"]
    way = random.randrange(8)
    if way <= 3 and end > begin:
        return _other_numbers(random, entry["dtype"], begin, end, body)
    if way == 4:
        entry["shape"] = _other_shape(random, entry["shape"])
    elif way == 5:
        entry["dtype"] = random.choice(_TENSOR_TYPES)
    elif way == 6:
        header[name + "x" if random.random() < 0.5 else random.choice(names)] = header.pop(name)
    else:
        return _other_length(random, header, name, body)
    return body


def _other_numbers(random: Random, kind: str, begin: int, end: int, body: bytes) -> bytes:
    """One number of a tensor, or all of them."""
    form = {"F64": "<d", "F32": "<f", "I64": "<q", "I32": "<i", "U8": "<B", "BOOL": "<B"}.get(kind, "<b")
    size = struct.calcsize(form)
    number: float = random.choice(_FLOATS if kind.startswith("F") else _INTEGERS)
    if form == "<f":
        number = max(min(number, 3e38), -3e38) if abs(number) < float("inf") else number
    elif form in ("<i", "<B", "<b"):
        number = int(number) % {"<i": 2**31, "<B": 256, "<b": 128}[form]
    packed = struct.pack(form, number)
    if random.random() < 0.2:
        return body[:begin] + packed * ((end - begin) // size) + body[end:]
    place = begin + size * random.randrange((end - begin) // size)
    return body[:place] + packed + body[place + size :]


def _other_shape(random: Random, shape: list[int]) -> list[int]:
    """Another shape, often of as many numbers."""
    total = 1
    for size in shape:
        total *= size
    return random.choice(
        (shape[::-1], [total], [*shape, 1], [1, *shape], [total, 1], shape[:-1], [99999999999], [0], [-1])
    )


def _other_length(random: Random, header: dict[str, Any], name: str, body: bytes) -> bytes:
    """A tensor with a row more or less, whose header agrees: everything behind it moves."""
    entry = header[name]
    begin, end = entry["data_offsets"]
    shape = entry["shape"] or [1]
    row = (end - begin) // shape[0] if shape[0] else 0
    more = random.choice((-1, 1)) if shape[0] > 1 else 1
    entry["shape"] = [shape[0] + more, *shape[1:]]
    moved = row * more
    body = body[: end + moved] + body[end:] if more < 0 else body[:end] + body[end - row : end] + body[end:]
    for other, place in header.items():
        if other != "__metadata__" and place["data_offsets"][0] >= end and other != name:
            place["data_offsets"] = [offset + moved for offset in place["data_offsets"]]
    entry["data_offsets"] = [begin, end + moved]
    return body
