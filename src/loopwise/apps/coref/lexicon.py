"""English words that say what a mention is: pronouns, determiners, words of one gender.

In: nothing. Out: small tables. Stage: use. Closed classes are listed whole; of names and nouns only the frequent ones,
for what is not listed is simply unknown.
"""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN = -1
MALE, FEMALE, NEUTER = 0, 1, 2
SINGULAR, PLURAL = 0, 1

# Classes of pronouns; those of one person and number share weights.
I, YOU, HE, SHE, IT, WE, THEY, THIS, WHO, SOMEONE, HERE = range(11)
PRONOUN_CLASSES = 11


class Pronoun(NamedTuple):
    """What a pronoun says of whom it stands for; ``person`` is 0 for the first."""

    group: int
    person: int
    number: int
    gender: int


def _forms(words: str, group: int, person: int, number: int, gender: int = UNKNOWN) -> dict[str, Pronoun]:
    return {word: Pronoun(group, person, number, gender) for word in words.split()}


PRONOUNS: dict[str, Pronoun] = {
    **_forms("i me my mine myself m", I, 0, SINGULAR),
    **_forms("you your yours yourself ya u thou thee thy", YOU, 1, UNKNOWN),
    **_forms("yourselves y'all", YOU, 1, PLURAL),
    **_forms("he him his himself 'im", HE, 2, SINGULAR, MALE),
    **_forms("she her hers herself", SHE, 2, SINGULAR, FEMALE),
    **_forms("it its itself 't", IT, 2, SINGULAR, NEUTER),
    **_forms("we us our ours ourselves 's let's", WE, 0, PLURAL),
    **_forms("they them their theirs themselves themself 'em em", THEY, 2, PLURAL),
    **_forms("this that", THIS, 2, SINGULAR, NEUTER),
    **_forms("these those", THIS, 2, PLURAL),
    **_forms("who whom whose which what whoever whatever", WHO, 2, UNKNOWN),
    **_forms(
        "someone somebody something anyone anybody anything everyone everybody everything nobody nothing none one "
        "oneself another others other each all some many both most each-other",
        SOMEONE,
        2,
        UNKNOWN,
    ),
    **_forms("here there then now where when", HERE, 2, UNKNOWN, NEUTER),
}
RELATIVE = frozenset({"who", "whom", "whose", "which", "that", "where", "when"})

# Classes of what a mention begins with.
DEFINITE, INDEFINITE, DEMONSTRATIVE, POSSESSIVE, BARE, QUANTIFIED = range(6)
DETERMINER_CLASSES = 6


def _all(words: str, value: int) -> dict[str, int]:
    """The same value for every word."""
    return dict.fromkeys(words.split(), value)


DETERMINERS: dict[str, int] = {
    "the": DEFINITE,
    **_all("a an another", INDEFINITE),
    **_all("this that these those such", DEMONSTRATIVE),
    **_all("my your his her its our their whose", POSSESSIVE),
    **_all("some any every each no all both many much few several most more other", QUANTIFIED),
}
# Words that mentions may differ in and be the same string for all that.
LIGHT = frozenset(DETERMINERS) | {"'s", "’s", ",", ".", "-", "(", ")", '"', "'", "’", "“", "”", ":", ";"}
# Before these ends the part of a noun phrase that has its head, where there is no tree to say.
_PREPOSITIONS = (
    "of in on at for with from to by about as into over after between against during without through under among"
)
AFTER_HEAD = frozenset(_PREPOSITIONS.split()) | RELATIVE | {",", ";", ":", "–", "—", "("}

_MALE = (
    "man men boy boys father dad son brother husband uncle nephew grandfather grandpa king prince lord sir "
    "gentleman guy mr mr. actor waiter monk priest bishop emperor duke wizard grandson bro dude lad chap "
    "businessman policeman fireman congressman salesman john james david robert michael william richard thomas "
    "charles joseph daniel matthew mark paul george kevin brian edward peter steven andrew joe bill tom jack "
    "henry sam ben alex max chris adam harry frank"
)
_FEMALE = (
    "woman women girl girls mother mom mum daughter sister wife aunt niece grandmother grandma queen princess "
    "lady madam mrs mrs. ms ms. miss actress waitress nun empress duchess witch granddaughter gal businesswoman "
    "girlfriend bride mary patricia linda barbara elizabeth jennifer maria susan margaret lisa nancy karen betty "
    "helen sandra ann anna emma sarah laura jane kate alice emily rachel julia claire marie sophie amy"
)
GENDERS = {**_all(_MALE, MALE), **_all(_FEMALE, FEMALE)}
PLURAL_NOUNS = frozenset(_all("people men women children police teeth feet mice geese media data folks others", PLURAL))
