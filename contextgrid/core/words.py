"""The one rule for what a word, a content word and a token is; every lexical score uses it.

Words are compared after NFKC normalisation and case folding, with curly apostrophes straightened. Scripts
written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) are read as overlapping character
bigrams, so that containment can be measured without a segmenter. So is Hangul: Korean writes its particles and endings
onto the word, and bigrams let ``한국어`` be found in ``한국어를``.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb"
# Letters and digits of spaced scripts, plus the vowel signs and accents that Python's \w leaves out.
_SPACED = (
    rf"(?:(?![{_UNSPACED}{_HANGUL}])[^\W_]|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff])"
)
_WORD = re.compile(rf"[{_UNSPACED}]+|[{_HANGUL}]+|{_SPACED}+(?:'{_SPACED}+)*")
_IN_BIGRAMS = re.compile(rf"[{_UNSPACED}{_HANGUL}]")
_TOKEN = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])\w)+|[^\w\s]")
_APOSTROPHES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\uff07": "'", "`": "'"})

# Function words of English, of German where they are not also English content words ("die", "war"), and the Korean
# particles of one syllable, which stand alone behind digits and Latin letters ("AI는").
STOPWORDS = frozenset(
    """
    a about above after again against all am an and any are aren't as at be because been before being below
    between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each
    few for from further had hadn't has hasn't have haven't having he her here hers herself him himself his how
    i if in into is isn't it it's its itself just me more most my myself no nor not of off on once only or other
    our ours ourselves out over own same she should shouldn't so some such than that that's the their theirs them
    themselves then there there's these they this those through to too under until up very was wasn't we were
    weren't what when where which while who whom why will with won't would wouldn't you your yours yourself
    yourselves
    aber als auch auf aus bei beim bis das dass dem den der des dies diese diesem diesen dieser dieses durch ein
    eine einem einen einer eines er es für gegen haben hatte hier ich ihr ihre im ist kann kein keine mit nach
    nicht noch nur oder ohne sein seine sich sie sind so über um und uns unter vom von vor wenn werden wie wird
    wir wo wurde wurden zu zum zur zwischen
    은 는 이 가 을 를 의 에 와 과 도 로
    """.split()
)


def normalise(text: str) -> str:
    """NFKC, case-folded, apostrophes straightened: the form in which texts are compared."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).translate(_APOSTROPHES).casefold())


@lru_cache(maxsize=8192)
def words(text: str) -> tuple[str, ...]:
    """All words of ``text`` in order, normalised; unspaced scripts and Hangul as overlapping bigrams."""
    found: list[str] = []
    for run in _WORD.findall(normalise(text)):
        if len(run) > 2 and _IN_BIGRAMS.match(run):
            found.extend(run[i : i + 2] for i in range(len(run) - 1))
        else:
            found.append(run)
    return tuple(found)


@lru_cache(maxsize=8192)
def content_words(text: str) -> tuple[str, ...]:
    """The words of ``text`` that carry meaning: all but function words."""
    return tuple(word for word in words(text) if word not in STOPWORDS)


def count_tokens(text: str) -> int:
    """Estimated model tokens: runs of word characters, each punctuation mark, each unspaced character."""
    return len(_TOKEN.findall(text))
