"""Every reader of files, with small valid files and what must hold of whatever was read.

In: nothing. Out: a :class:`Kind` for each reader: seeds, a way to spoil them, the reader, and a check that writes back
what was read where there is a writer.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.campaign import BrokenError
from fuzz.mutations import Mutate, spoil_gzip, spoil_npy, spoil_png, spoil_text, spoil_zip
from loopwise import formats
from loopwise.formats import arff, columns, conllu, coref, images, table

CARDINALITIES = (2, 3, 2)
LARGE = 1_000_000  # pixels: a few bytes may unpack to more, and to write them back would take long
UAI = "MARKOV\n3\n2 3 2\n3\n1 0\n2 0 1\n2 2 1\n\n2\n0.5 0.25\n\n6\n1 2 3\n4 0 6\n\n6\n1e-3 2 3.5\n4 5 6\n"
BAYES = "BAYES\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n0.5 0.5\n\n4\n0.2 0.8 1 0\n"
FG = "# a comment\n3\n\n1\n4\n2\n2\n0 0.5\n1 0.5\n\n2\n4 9\n2 3\n2\n0 1\n5 6\n\n0\n\n1\n0 2.5\n"
BIF = (
    'network "a b" { property x = 1 ; }\nvariable rain { type discrete [ 2 ] { no, yes }; } // or snow\n'
    'variable "the sky" {\n  type discrete [ 3 ] { blue, grey, "dark grey" };\n}\n/* tables */\n'
    'probability ( "the sky" ) { table 0.5, 0.25, 0.25; }\n'
    'probability ( rain | "the sky" ) { (grey) 0.5, 0.5; ("dark grey") 1e-3 0.999; default 1 0; }\n'
)
CSV = 'rain,"the, sky",n,h\nyes,"gr""ey",1,\nno,blue,2.5,\n,blue,-3,\nyes, grey ,10,\n'
TREES = (
    "# sent_id = 1\n# text = a cat's\n1-2\ta\t_\t_\t_\t_\t_\t_\t_\t_\n1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n"
    "2\tcat\tcat\tNOUN\tNN\tNumber=Sing\t3\tnsubj\t_\tSpaceAfter=No\n2.1\te\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "3\truns\trun\tVERB\tVBZ\t_\t0\troot\t_\t_\n\n1\tgo\tgo\tVERB\t_\t_\t0\troot\t_\t_\n2\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_\n\n"
)
CONLLX = "1\tEn\tin\tP\tP\t_\t2\tadv\t_\t_\n2\tda\tda\tV\tVA\t_\t0\tROOT\t_\t_\n\n1\t_\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
CONLL2003 = (
    "-DOCSTART- -X- -X- O\n\nEU NNP B-NP I-ORG\nrejects VBZ B-VP O\nGerman JJ B-NP I-MISC\n\nPeter NNP I-NP I-PER\n"
)
WNUT = "Ann\tB-person\nSmith\tI-person\nsaw\tO\n\nRome in\tB-location\n\n"
UNER = "# sent_id = 1\n1\tAnn\tB-PER\t-\tx\n1-2\tof the\t_\t-\tx\n2\tran\tO\t-\tx\n\n# text\n1\tOslo\tB-LOC\t-\tx\n"
PLAIN = "the DT\ndog NN\n\nran VBD\n"
DENSE = (
    "% made\n@relation 'toy: -C 2'\n@attribute sun {0,1}\n@attribute 'sea side' {0,1}\n@attribute x numeric\n"
    "@attribute kind {a, 'b c', \"d\"}\n\n@data\n1,0,0.5,a\n0,1,-1e3,'b c'\n0,0,?,d\n"
)
SPARSE = (
    "@RELATION toy\n@ATTRIBUTE x REAL\n@ATTRIBUTE y {0,1}\n@ATTRIBUTE z {no,yes}\n@DATA\n{0 1.5, 1 1}\n{}\n{2 yes}\n"
)
LABELS = (
    '<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">\n'
    '<label name="sun"></label>\n<label name="sea &amp; side"><label name="inner"/></label>\n</labels>\n'
)
ENTITIES = (
    "# newdoc id = one\n# global.Entity = GRP-etype-infstat\n# speaker = Ann\n"
    "1\tJohn\t_\tPROPN\t_\t_\t2\tnsubj\t_\tEntity=(1-person-new)\n2\tsaw\t_\tVERB\t_\t_\t0\troot\t_\t_\n"
    "3\tthe\t_\tDET\t_\t_\t4\tdet\t_\tEntity=(2-place-new(3-x-new)|X=y\n4\tcity\t_\tNOUN\t_\t_\t2\tobj\t_\tEntity=2)\n\n"
    "1\tHe\t_\tPRON\t_\t_\t2\tnsubj\t_\tEntity=(1-person-giv)\n2\tleft\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    "# newdoc id = two\n1\tShe\t_\tPRON\t_\t_\t0\troot\t_\tEntity=(5-person-new)\n"
)
ONTOGUM = (
    "# begin document one\n0\tJohn\t(1)\n1\tsaw\t_\n2\tthe\t(2(3)\n3\tcity\t2)\n4\t.\t_\n5\tHe\t(1)\n# end document\n\n"
)
CONLL2012 = (
    "#begin document (a/b); part 000\n"
    "a/b 0 0 John NNP * - - - Ann * (4|(7)\na/b 0 1 Smith NNP * - - - Ann * 4)\na/b 0 2 ran VBD * - - - Ann * -\n\n"
    "a/b 0 0 He PRP * - - - - * (4)\n\n#end document\n"
)


@dataclass(frozen=True)
class Kind:
    """One reader. ``read`` may refuse a file by a FormatError only; ``check`` is given what was read and a folder to
    write to, and raises what is wrong. ``weight``: how many of the cases are of this kind."""

    name: str
    suffix: str
    seeds: tuple[bytes, ...]
    mutate: Mutate
    read: Callable[[Path], Any]
    check: Callable[[Any, Path], None]
    weight: float = 1.0
    lenient: bool = False  # using what was read may be refused too, by a sentence of the library


def must(holds: bool, what: str) -> None:
    """A :class:`BrokenError` that says ``what`` if it does not hold."""
    if not holds:
        raise BrokenError(what)


def reader_kinds(folder: Path) -> list[Kind]:
    """All readers of :mod:`loopwise.formats`; ``folder``: for files that go with those that are spoilt."""
    picture = folder / "known"
    picture.mkdir(exist_ok=True)
    (picture / "case.png").write_bytes(png(np.arange(20, dtype=np.uint8).reshape(4, 5)))
    return [
        text("uai", ".uai", (UAI, BAYES), formats.read_uai, check_uai, weight=3),
        text("fg", ".fg", (FG,), formats.read_fg, check_fg, weight=3),
        text("bif", ".bif", (BIF,), formats.read_bif, check_bif, weight=2),
        Kind("uai.gz", ".uai.gz", (packed(UAI), packed(BAYES)), spoil_gzip, formats.read_model, check_uai, 2),
        text("evid", ".evid", ("2\n0 1\n2 1\n", "1\n1 1 2\n", "0\n"), read_evidence, check_evidence, weight=2),
        text(
            "MAR",
            ".MAR",
            ("MAR\n3\n2 0.25 0.75 3 0.5 0.5 0 2 1 0\n", "MAR\n1\n1 2 0.5 0.5\n"),
            formats.read_mar,
            check_mar,
            2,
        ),
        text("MAP", ".MPE", ("MPE\n3 0 2 1\n", "MAP\n1\n3 0 2 1\n"), formats.read_map, check_map, weight=2),
        text("PR", ".PR", ("PR\n-12.5\n", "PR\n1\n3.25\n", "PR\n-inf\n"), formats.read_pr, check_pr, weight=2),
        text("csv", ".csv", (CSV, "a,b\n0,1\n1,\n"), read_csv, check_csv, weight=3),
        text("conllu", ".conllu", (TREES, CONLLX), conllu.read_conllu, check_conllu, weight=3),
        text("conllu trees", ".conllu", (TREES, CONLLX), read_trees, check_trees, weight=1),
        text("columns", ".conll", (CONLL2003, WNUT, UNER, PLAIN), columns.read_tagged, check_tagged, weight=3),
        text("words", ".conll", (CONLL2003, WNUT, UNER, "one\ntwo\n"), columns.read_words, check_words, weight=1),
        text("arff", ".arff", (DENSE, SPARSE), arff.read_arff, check_arff, weight=3),
        text("labels.xml", ".xml", (LABELS,), arff.read_label_names, check_names, weight=2),
        text("coref", ".conllu", (ENTITIES,), coref.read_coref, check_coref, weight=3),
        text("coref columns", ".conll", (ONTOGUM, CONLL2012), coref.read_coref, check_coref, weight=3),
        Kind("png", ".png", png_seeds(), spoil_png, images.read_pictures, check_pictures, 2),
        Kind("npy", ".npy", npy_seeds(), spoil_npy, images.read_pictures, check_pictures, 2),
        Kind("npz", ".npz", npz_seeds(), spoil_zip, images.read_pictures, check_pictures, 2),
        Kind("labels.png", ".png", png_seeds(labels=True), spoil_png, read_labels(picture, 20), check_labels, 1),
        Kind("labels.npy", ".npy", npy_seeds(labels=True), spoil_npy, read_labels(picture, None), check_labels, 1),
    ]


def text(
    name: str,
    suffix: str,
    seeds: Sequence[str],
    read: Callable[[Path], Any],
    check: Callable[[Any, Path], None],
    weight: float = 1.0,
) -> Kind:
    return Kind(name, suffix, tuple(seed.encode() for seed in seeds), spoil_text, read, check, weight)


def packed(content: str) -> bytes:
    return gzip.compress(content.encode(), 6, mtime=0)


# --- Models of tables, and answers about them ------------------------------------------------------------------------


def check_uai(model: Any, folder: Path) -> None:
    formats.check_model(model)
    formats.write_uai(folder / "again.uai", model)
    must(formats.read_uai(folder / "again.uai") == model, "a model that was written reads back as another")


def check_bif(model: Any, folder: Path) -> None:
    formats.check_model(model)
    formats.write_bif(folder / "again.bif", model)
    must(formats.read_bif(folder / "again.bif") == model, "a network that was written reads back as another")


def check_fg(model: Any, folder: Path) -> None:
    formats.check_model(model)
    formats.write_fg(folder / "again.fg", model)
    must(formats.read_fg(folder / "again.fg") == model, "a model that was written reads back as another")


def read_evidence(path: Path) -> dict[int, int]:
    free = formats.read_evidence(path)
    bound = formats.read_evidence(path, CARDINALITIES)
    must(free == bound, "evidence depends on whether the model is known")
    return bound


def check_evidence(evidence: dict[int, int], folder: Path) -> None:
    must(all(0 <= value < CARDINALITIES[variable] for variable, value in evidence.items()), "a value is out of range")
    formats.write_evidence(folder / "again.evid", evidence)
    must(formats.read_evidence(folder / "again.evid") == evidence, "evidence that was written reads back otherwise")


def check_mar(marginals: list[Any], folder: Path) -> None:
    for marginal in marginals:
        must(abs(marginal.sum() - 1) < 0.02, "a marginal does not sum to one")
    formats.write_mar(folder / "again.MAR", marginals)
    again = formats.read_mar(folder / "again.MAR")
    must(same_arrays(marginals, again), "marginals that were written read back otherwise")


def check_map(values: Any, folder: Path) -> None:
    formats.write_map(folder / "again.MAP", values)
    must(np.array_equal(values, formats.read_map(folder / "again.MAP")), "values that were written read back otherwise")


def check_pr(value: float, folder: Path) -> None:
    formats.write_pr(folder / "again.PR", value)
    must(formats.read_pr(folder / "again.PR") == value, "a number that was written reads back otherwise")


def same_arrays(ones: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(ones) == len(others) and all(np.array_equal(one, other) for one, other in zip(ones, others, strict=True))


# --- Tables ----------------------------------------------------------------------------------------------------------


def read_csv(path: Path) -> table.DataTable:
    return table.read_table(path, may_be_empty=_header_names(path))


def _header_names(path: Path) -> list[str]:
    """The last column of the seed may be empty; where a mutation renamed it, none may."""
    first = path.read_bytes().split(b"\n", 1)[0]
    return ["h"] if first.endswith(b",h") and first.count(b"h") == 2 else []


def check_csv(data: table.DataTable, folder: Path) -> None:
    sizes = np.array(data.vocabulary.cardinalities)
    must(bool((data.values >= -1).all() and (data.values < sizes).all()), "a value is out of range")
    table.write_table(folder / "again.csv", data.vocabulary, data.values)
    again = table.read_table(folder / "again.csv", vocabulary=data.vocabulary)
    must(np.array_equal(data.values, again.values), "a table that was written reads back otherwise")


def check_arff(data: arff.ArffTable, folder: Path) -> None:
    dense = data.data if isinstance(data.data, np.ndarray) else data.data.toarray()
    must(dense.shape[1] == len(data.attributes) == len(data.place), "the table has other columns than attributes")
    must(not np.isinf(dense).any(), "a cell is infinite")
    for attribute, cells in zip(data.attributes, dense.T, strict=True):
        known = cells[~np.isnan(cells)]
        if attribute.values is not None:
            must(bool(np.isin(known, np.arange(len(attribute.values))).all()), "a nominal cell is none of its values")
    must(set(data.meka_labels) <= set(data.place), "a label is no attribute")


def check_names(names: tuple[str, ...], folder: Path) -> None:
    must(len(set(names)) == len(names) > 0, "names repeat, or there are none")


# --- Text ------------------------------------------------------------------------------------------------------------


def read_trees(path: Path) -> list[conllu.Sentence]:
    return conllu.read_conllu(path, trees=True, single_root=True, skipped=lambda problem: None)


def check_conllu(sentences: list[conllu.Sentence], folder: Path) -> None:
    for sentence in sentences:
        must(all(-1 <= head <= len(sentence) for head in sentence.heads), "a head is out of range")
        must(all(len(word) == conllu.COLUMNS for word in sentence.words), "a word has other columns")
    conllu.write_conllu(folder / "again.conllu", sentences)
    again = conllu.read_conllu(folder / "again.conllu")
    must(
        [(one.lines, one.heads, one.words, one.spans) for one in sentences]
        == [(one.lines, one.heads, one.words, one.spans) for one in again],
        "sentences that were written read back otherwise",
    )


def check_trees(sentences: list[conllu.Sentence], folder: Path) -> None:
    for sentence in sentences:
        for word in range(1, len(sentence) + 1):
            steps = 0
            while word:
                word, steps = sentence.heads[word - 1], steps + 1
                must(word >= 0 and steps <= len(sentence), "heads are no tree")
    check_conllu(sentences, folder)


def check_tagged(read: columns.TaggedText, folder: Path) -> None:
    check_words(read, folder)
    columns.write_tagged(folder / "again.conll", read.sentences(), read.tagged())
    again = columns.read_tagged(folder / "again.conll", columns=columns.WORD_TAB_TAG, coding=read.coding)
    must(again.words == read.words and again.tags == read.tags, "words or tags that were written read back otherwise")
    must(np.array_equal(again.start, read.start), "sentences that were written read back otherwise")


def check_words(read: columns.TaggedText, folder: Path) -> None:
    must(int(read.start[-1]) == len(read.words) == len(read.lines), "sentences do not end with the words")
    must(bool((np.diff(read.start) > 0).all()), "a sentence is empty")
    must(all(word and not {"\t", "\n"} & set(word) for word in read.words), "a word is empty, or more than a cell")


def check_coref(documents: list[coref.CorefDocument], folder: Path) -> None:
    for document in documents:
        must(document.sentence_start[-1] == len(document.words), "sentences do not end with the words")
        must(all(0 <= one.first <= one.last < len(document.words) for one in document.mentions), "a mention is nowhere")
    _same_documents(documents, folder, "documents that were written read back otherwise")
    apart = [document.with_entities(range(len(document.mentions))) for document in documents]
    _same_documents(apart, folder, "mentions that were put into entities of their own read back otherwise")


def _same_documents(documents: list[coref.CorefDocument], folder: Path, what: str) -> None:
    if not any(document.words for document in documents):
        return
    coref.write_coref(folder / "again.conll", documents)
    again = coref.read_coref(folder / "again.conll")
    facts = [[(one.words, one.sentence_start, one.speakers, one.tags) for one in each] for each in (documents, again)]
    must(facts[0] == facts[1], what)
    found = [[[(m.first, m.last, m.entity) for m in one.mentions] for one in each] for each in (documents, again)]
    must([sorted(one) for one in found[0]] == [sorted(one) for one in found[1]], what)


# --- Pictures --------------------------------------------------------------------------------------------------------


def png(pixels: np.ndarray, mode: str | None = None, **options: Any) -> bytes:
    from PIL import Image

    picture, stream = Image.fromarray(pixels), io.BytesIO()
    if mode == "P":
        picture = picture.convert("L")
        picture.putpalette([value for value in range(256) for _ in range(3)])
    (picture.convert(mode) if mode not in (None, "P") else picture).save(stream, format="PNG", **options)
    return stream.getvalue()


def png_seeds(labels: bool = False) -> tuple[bytes, ...]:
    grey = np.arange(20, dtype=np.uint8).reshape(4, 5)
    colours = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    deep = (1000 * np.arange(20, dtype=np.uint16)).reshape(4, 5)
    plain = (png(grey), png(grey, "P"), png(grey, "1"), png(grey, "LA"))
    return plain if labels else (*plain, png(colours), png(deep), png(colours, "RGBA"))


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npy_seeds(labels: bool = False) -> tuple[bytes, ...]:
    rows = np.arange(20).reshape(4, 5)
    whole = (npy(rows), npy(rows.astype(np.uint8)), npy(rows > 7))
    return whole if labels else (*whole, npy(rows / 7), npy(np.stack([rows, rows], -1) / 3))


def npz_seeds() -> tuple[bytes, ...]:
    rows, found = np.arange(20).reshape(4, 5), []
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, a=rows, b=rows / 3)
        found.append(stream.getvalue())
    return tuple(found)


def check_pictures(pictures: images.Pictures, folder: Path) -> None:
    must(len(pictures.names) == len(pictures.images) > 0, "there are other names than images")
    for image in pictures.images:
        must(image.ndim in (2, 3) and image.size > 0, "an image has no pixels")
        must(image.dtype.kind in "biuf", "pixels are no numbers")
        must(image.dtype.kind != "f" or bool(np.isfinite(image).all()), "a pixel is not finite")
    first = pictures.images[0]
    if first.size > LARGE:
        return
    with open(folder / "again.npy", "wb") as stream:
        np.save(stream, first)
    must(np.array_equal(images.read_pictures(folder / "again.npy").images[0], first), "a picture reads back otherwise")


def read_labels(known: Path, states: int | None) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        return images.read_pictures(known / "case.png", path, states=states)

    return read


def check_labels(pictures: images.Pictures, folder: Path) -> None:
    assert pictures.labels is not None
    labels = pictures.labels[0]
    must(labels.dtype == np.int64 and labels.shape == pictures.images[0].shape[:2], "labels are of another shape")
    again = folder / "case.npy"
    images.write_labels(again, labels)
    read = images.read_pictures(folder.parent / "known" / "case.png", again)
    assert read.labels is not None
    must(np.array_equal(read.labels[0], labels), "labels that were written read back otherwise")
