"""From text to trees: a tagger and a parser in one call.

In: sentences as text or as lists of words. Out: trees. Stage: use. It knows of the two only what it asks of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from loopwise.formats.conllu import Sentence, make_sentence
from loopwise.formats.errors import shortened
from loopwise.formats.plain_text import tokenize


class TagsWords(Protocol):
    """What tags lists of words, such as :class:`~loopwise.apps.Tagger`."""

    def predict(self, sentences: Any) -> list[list[str]]: ...


class ParsesSentences(Protocol):
    """What parses sentences with tags, such as :class:`~loopwise.apps.Parser`."""

    def parse(self, sentences: Any) -> list[Any]: ...

    def predict(self, sentences: Any) -> list[Sentence]: ...


class Pipeline:
    """A tagger and a parser: text in, dependency trees out.

    Parameters
    ----------
    tagger:
        Of coarse parts of speech (UPOS), trained on the parser's treebank (``loopwise tagger train t.conllu``).
    parser:
        Best trained on tags of that tagger (``loopwise parser train t.conllu --tagger``), whose mistakes it then knows.
    fine_tagger:
        Of fine parts of speech (XPOS), if the parser looks at them.

    Sentences are texts, which are cut into words at spaces and punctuation, or lists of words.

    >>> class Nouns:  # any tagger and any parser with these methods will do
    ...     def predict(self, sentences):
    ...         return [["NOUN"] * len(words) for words in sentences]
    >>> class Flat:
    ...     def parse(self, sentences):
    ...         return [[0] * len(sentence) for sentence in sentences]
    >>> pipeline = Pipeline(Nouns(), Flat())
    >>> pipeline.sentences(["Dogs bark."])[0].forms
    ['Dogs', 'bark', '.']
    """

    def __init__(self, tagger: TagsWords, parser: ParsesSentences, *, fine_tagger: TagsWords | None = None) -> None:
        self.tagger, self.parser, self.fine_tagger = tagger, parser, fine_tagger

    def sentences(self, given: Sequence[str] | Sequence[Sequence[str]]) -> list[Sentence]:
        """The sentences with their tags."""
        words = [_words(number, sentence) for number, sentence in enumerate(_listed(given))]
        coarse = self.tagger.predict(words)
        fine = [None] * len(words) if self.fine_tagger is None else self.fine_tagger.predict(words)
        return [make_sentence(*parts) for parts in zip(words, coarse, fine, strict=True)]

    def parse(self, given: Sequence[str] | Sequence[Sequence[str]]) -> list[Any]:
        """A tree for each sentence, with probabilities: see :meth:`~loopwise.apps.Parser.parse`."""
        return self.parser.parse(self.sentences(given))

    def predict(self, given: Sequence[str] | Sequence[Sequence[str]]) -> list[Sentence]:
        """The sentences with their tags and trees."""
        return self.parser.predict(self.sentences(given))


def _listed(given: Any) -> Sequence[Any]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not len(given):
        raise ValueError(f"a list of sentences is wanted, not {shortened(repr(given))}: give [sentence]")
    return given


def _words(number: int, sentence: Any) -> list[str]:
    words = tokenize(sentence) if isinstance(sentence, str) else sentence
    if not isinstance(words, Sequence) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError(
            f"sentence {number} is {shortened(repr(sentence))}; give a text or a list of words, at least one"
        )
    return list(words)
