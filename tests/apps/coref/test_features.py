"""Features of mentions and pairs, against words that say what must come out and against slow loops."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from loopwise.apps.coref import lexicon, made_documents
from loopwise.apps.coref.features import Featuriser
from loopwise.apps.coref.mentions import COMMON, OBJECT, PRONOUN, PROPER, SUBJECT, Mentions, describe
from loopwise.apps.coref.pair_templates import DISJOINT, EMPTY, LESS, MORE, SAME, Pairs, pair_templates
from loopwise.apps.coref.set_templates import PREDICATES, attribute_values
from loopwise.apps.coref.similarity import Frequencies, cosines, overlaps
from loopwise.formats.coref import CorefDocument, Span, parse_documents

TREE = """\
# newdoc id = d
# global.Entity = GRP-etype
# speaker = Ann
1\tThe\tthe\tDET\tDT\t_\t4\tdet\t_\tEntity=(1-organization
2\tUnited\tUnited\tPROPN\tNNP\t_\t4\tcompound\t_\t_
3\tBird\tBird\tPROPN\tNNP\t_\t4\tcompound\t_\t_
4\tSociety\tSociety\tPROPN\tNNP\tNumber=Sing\t5\tnsubj\t_\tEntity=1)
5\tpraised\tpraise\tVERB\tVBD\t_\t0\troot\t_\t_
6\tJohn\tJohn\tPROPN\tNNP\tNumber=Sing\t5\tobj\t_\tEntity=(2-person
7\tGrant\tGrant\tPROPN\tNNP\tNumber=Sing\t6\tflat\t_\tEntity=2)
8\t,\t,\tPUNCT\t,\t_\t10\tpunct\t_\t_
9\ta\ta\tDET\tDT\t_\t10\tdet\t_\tEntity=(2-person
10\tteacher\tteacher\tNOUN\tNN\tNumber=Sing\t6\tappos\t_\t_
11\tof\tof\tADP\tIN\t_\t12\tcase\t_\t_
12\tchildren\tchild\tNOUN\tNNS\tNumber=Plur\t10\tnmod\t_\tEntity=(3-person)2)
13\t.\t.\tPUNCT\t.\t_\t5\tpunct\t_\t_

# speaker = Bob
1\tUBS\tUBS\tPROPN\tNNP\tNumber=Sing\t2\tnsubj\t_\tEntity=(1-organization)
2\tknows\tknow\tVERB\tVBZ\t_\t0\troot\t_\t_
3\thim\the\tPRON\tPRP\tNumber=Sing|PronType=Prs\t2\tobj\t_\tEntity=(2-person)
4\tand\tand\tCCONJ\tCC\t_\t7\tcc\t_\t_
5\tall\tall\tDET\tDT\t_\t7\tdet\t_\tEntity=(4-person
6\tother\tother\tADJ\tJJ\t_\t7\tamod\t_\t_
7\tteachers\tteacher\tNOUN\tNNS\tNumber=Plur\t3\tconj\t_\t_
8\tthat\tthat\tPRON\tWDT\tPronType=Rel\t9\tnsubj\t_\tEntity=(4-person)
9\tsing\tsing\tVERB\tVBP\t_\t7\tacl:relcl\t_\tEntity=4)
10\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

"""
SOCIETY, JOHN, TEACHER, CHILDREN, UBS, HIM, TEACHERS, THAT = range(8)
TYPES = {"organization": 0, "person": 1}


@pytest.fixture(scope="module")
def document() -> CorefDocument:
    return next(iter(parse_documents(TREE)))


@pytest.fixture(scope="module")
def mentions(document: CorefDocument) -> Mentions:
    return describe(document, TYPES)


def test_what_mentions_are(document: CorefDocument, mentions: Mentions) -> None:
    heads = [document.words[head] for head in mentions.head]
    assert heads == ["Society", "John", "teacher", "children", "UBS", "him", "teachers", "that"]
    assert mentions.kind.tolist() == [PROPER, PROPER, COMMON, COMMON, PROPER, PRONOUN, COMMON, PRONOUN]
    assert mentions.type.tolist() == [0, 1, 1, 1, 0, 1, 1, 1]
    assert mentions.number.tolist() == [0, 0, 0, 1, 0, 0, 1, -1]
    assert mentions.gender[[SOCIETY, JOHN, HIM]].tolist() == [lexicon.NEUTER, lexicon.MALE, lexicon.MALE]
    assert mentions.role[[SOCIETY, JOHN, HIM, THAT]].tolist() == [SUBJECT, OBJECT, OBJECT, SUBJECT]
    assert mentions.determiner[[SOCIETY, TEACHER, TEACHERS]].tolist() == [
        lexicon.DEFINITE,
        lexicon.INDEFINITE,
        lexicon.QUANTIFIED,
    ]
    assert mentions.sentence.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert mentions.relative.tolist() == [0] * 7 + [1] and mentions.pronoun[THAT] == lexicon.WHO
    assert mentions.speaker.tolist() == [0] * 4 + [1] * 4
    assert mentions.names[SOCIETY] == ("united", "bird", "society") and mentions.modifiers[TEACHERS] == ()
    assert mentions.content[TEACHER] == ("teacher", "of", "children")


def values(name: str, mentions: Mentions) -> dict[tuple[int, int], int]:
    pairs = Pairs(mentions, Frequencies.of([]))
    template = next(template for template in pair_templates(2) if template.name == name)
    found = np.asarray(template.compute(pairs)).astype(int).tolist()
    return dict(zip(zip(pairs.one.tolist(), pairs.two.tolist(), strict=True), found, strict=True))


@pytest.mark.parametrize(
    ("name", "holding"),
    [
        ("acronym", {(SOCIETY, UBS): 0}),
        ("apposition", {(JOHN, TEACHER): 0}),
        ("head word match", {}),
        ("relative pronoun", {(TEACHERS, THAT): 0}),
        ("nested", {(TEACHER, CHILDREN): 0, (TEACHERS, THAT): 0}),
        ("possessor inside", {}),
        ("head substring", {}),
    ],
)
def test_templates_that_rarely_hold(mentions: Mentions, name: str, holding: dict[tuple[int, int], int]) -> None:
    found = {pair: value for pair, value in values(name, mentions).items() if value != -1}
    near = {pair: value for pair, value in found.items() if value == 0}
    assert near == holding


def test_templates_that_always_speak(mentions: Mentions) -> None:
    heads = values("head match", mentions)
    assert heads[TEACHER, TEACHERS] == 1 and heads[TEACHER, CHILDREN] == 0 and heads[JOHN, HIM] == -1
    assert values("gender", mentions)[JOHN, HIM] == 0 and values("gender", mentions)[SOCIETY, HIM] == 1
    assert values("number", mentions)[TEACHER, TEACHERS] == 1 and values("number", mentions)[HIM, THAT] == 2
    assert values("type", mentions)[SOCIETY, UBS] == 0 and values("type", mentions)[SOCIETY, JOHN] == 1
    assert values("sentences apart", mentions)[JOHN, HIM] == 1 and values("mentions apart", mentions)[JOHN, HIM] == 2
    assert values("near subject", mentions)[SOCIETY, HIM] == 1
    with_type = values("pronoun and earlier type", mentions)
    assert with_type[JOHN, HIM] == lexicon.HE * 3 + 1 and with_type[JOHN, UBS] == -1
    speakers = values("speakers", mentions)
    assert set(speakers.values()) == {-1}


def test_without_a_tree() -> None:
    text = "The University of Arden praised Mary and her old house . She cried"
    words = tuple(text.split())
    spans = (Span(0, 3, "1"), Span(3, 3, "2"), Span(5, 5, "3"), Span(7, 9, "4"), Span(7, 7, "3"), Span(11, 11, "3"))
    mentions = describe(CorefDocument("d", words, (0, 11, 13), spans), {})
    assert [words[head] for head in mentions.head] == ["University", "Arden", "Mary", "house", "her", "She"]
    assert mentions.kind.tolist() == [PROPER, PROPER, PROPER, COMMON, PRONOUN, PRONOUN]
    assert mentions.gender[[2, 4, 5]].tolist() == [lexicon.FEMALE] * 3
    assert mentions.role.tolist() == [-1] * 6 and mentions.determiner[3] == lexicon.POSSESSIVE
    assert values("possessor inside", mentions)[3, 4] == 0


def test_there_are_enough_templates() -> None:
    templates = pair_templates(10)
    assert len({template.name for template in templates}) == len(templates) >= 25
    setwise = 1 + len(PREDICATES) + len(attribute_values(10))  # size, predicates, attributes
    assert setwise >= 15


@pytest.mark.parametrize("types", [0, 3])
def test_codes_are_in_range(types: int) -> None:
    made = made_documents(3, seed=4, mentions=25)
    kinds = {"person": 0, "place": 1, "object": 2} if types else {}
    for document in made:
        pairs = Pairs(describe(document, kinds), Frequencies.of(d.words for d in made))
        for template in pair_templates(types):
            codes = template.codes(pairs)
            assert codes.shape == pairs.one.shape and codes.min(initial=0) >= -1, template.name
            assert codes.max(initial=-1) < template.weights, template.name


def test_set_relations() -> None:
    lists = [(), ("a",), ("a", "b"), ("b",), ("a",), ("a", "a")]
    shared, sizes = overlaps(lists)
    for one, two in combinations(range(len(lists)), 2):
        assert shared[one, two] == len(set(lists[one]) & set(lists[two]))
    assert sizes.tolist() == [0, 1, 2, 1, 1, 1]
    from loopwise.apps.coref.pair_templates import _relation

    def relation(one: int, two: int) -> int:
        return int(_relation(shared[one, two], sizes[one], sizes[two]))

    assert relation(0, 0) == EMPTY and relation(1, 4) == relation(1, 5) == SAME
    assert relation(2, 1) == LESS and relation(1, 2) == MORE and relation(1, 3) == DISJOINT


def test_cosines_against_a_loop() -> None:
    lists = [("red", "house"), ("house",), (), ("red", "red", "bird")]
    frequencies = Frequencies.of([["red", "bird"], ["red"], ["House"]])
    assert frequencies.documents == 3
    weight = dict(zip(["red", "bird", "house"], frequencies.weights(["red", "bird", "house"]), strict=True))
    assert weight["red"] == pytest.approx(np.log(4 / 3) + 1) and weight["bird"] == weight["house"]
    vectors = [{word: words.count(word) * weight[word] for word in words} for words in lists]
    found = cosines(lists, frequencies)
    for one, first in enumerate(vectors):
        for two, second in enumerate(vectors):
            dot = sum(value * second.get(word, 0.0) for word, value in first.items())
            norms = np.sqrt(sum(v**2 for v in first.values()) * sum(v**2 for v in second.values()))
            assert found[one, two] == pytest.approx(dot / norms if norms else 0.0)


def test_shared_rows_hold_the_features_of_every_pair() -> None:
    """Each pair's row against the codes of that pair alone, and predicates likewise."""
    (document,) = made_documents(1, seed=2, mentions=20)
    featuriser = Featuriser.of([document])
    made = featuriser(document)
    pairs = Pairs(
        describe(document, {name: place for place, name in enumerate(featuriser.types)}), featuriser.frequencies
    )
    assert made.pair_row is not None and made.predicates is not None and made.attributes is not None
    assert made.pairs.rows < len(made.pair_row) and made.truth.tolist() == document.entities()
    codes = [template.codes(pairs).tolist() for template in featuriser.templates]
    held = [np.asarray(predicate.compute(pairs)).astype(int).tolist() for predicate in PREDICATES]
    for pair, row in enumerate(made.pair_row.tolist()):
        wanted = [start + code[pair] for start, code in zip(featuriser.starts, codes, strict=False) if code[pair] != -1]
        assert made.pairs.index[made.pairs.start[row] : made.pairs.start[row + 1]].tolist() == wanted
        assert made.predicates[row].tolist() == [column[pair] for column in held]
    featuriser.model().checked(made)


@pytest.mark.parametrize("count", [0, 1])
def test_documents_with_hardly_any_mention(count: int) -> None:
    spans = (Span(0, 0, "1", "person"),)[:count]
    document = CorefDocument("d", ("Ann", "sang"), (0, 2), spans)
    made = Featuriser.of([document])(document)
    assert made.mentions == count and made.pair_row is not None and len(made.pair_row) == 0
