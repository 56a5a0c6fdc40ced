"""Whether an answer declines: a refusal that nothing of substance stands beside."""

from __future__ import annotations

import re

from contextgrid.core.words import normalise, words
from contextgrid.generate.citations import find_citations, without_citations
from contextgrid.generate.refusals import (
    ASIDE,
    CONCESSION,
    CONTRAST,
    CUES,
    FRAMED,
    FRAMING,
    LABEL,
    QUOTATION,
    SENTENCE_END,
    WHOLLY,
    refusal,
)

# A refusal followed by this many words of its own content has answered after all.
_SUBSTANCE = 25
# No refusal has this many characters, sentences that are repeated counted once; the limit bounds the work that a
# degenerate reply can cause.
_LONGEST = 20_000


def is_abstention(text: str) -> bool:
    """Whether ``text`` declines to answer, in any of a dozen languages; blank text does.

    The text is cut into clauses: sentences, and what a contrast ("but", "however", "aber", "但") sets apart. It
    declines if a clause refuses ("I don't know", "the passages do not mention it", "not enough information") and
    the other clauses answer nothing. These do answer: a claim before the refusal; a claim that contradicts it in
    the same sentence ("not stated in section 2, but section 4 says 24 months"); after it, a claim with a citation
    or at least 25 words. Apologies, advice where else to look and remarks on what the passages are about are not
    claims, and refusals inside quotation marks are somebody else's.
    """
    plain = _plain(text)
    if not words(plain):
        return True
    if WHOLLY.fullmatch(plain.strip(" \n\t.!。！*_-–—:")):
        return True
    if not any(cue in plain for cue in CUES):
        return False
    refused, after = False, 0
    read: dict[str, tuple[bool, list[str]]] = {}
    length = 0
    for sentence in SENTENCE_END.split(plain):
        if sentence not in read:
            length += len(sentence)
            if length > _LONGEST:
                return False
            read[sentence] = _reading(sentence)
        refuses, claims = read[sentence]
        if claims and (not refused or refuses):
            # Before any refusal, or against one in the same sentence.
            return False
        if any(find_citations(claim) for claim in claims):
            return False
        refused = refused or refuses
        after += sum(len(words(claim)) for claim in claims)
    return refused and after < _SUBSTANCE


def _reading(sentence: str) -> tuple[bool, list[str]]:
    """Whether a clause of the sentence refuses, and the clauses that claim something."""
    clauses = _clauses(sentence)
    refusing = [_refuses(clause) for clause in clauses]
    claims = [clause for clause, refuses in zip(clauses, refusing, strict=True) if not refuses and _claims(clause)]
    return any(refusing), claims


def _plain(text: str) -> str:
    """Normalised, without the marks of Markdown, a leading label and quotations (unless all is one quotation)."""
    plain = re.sub(r"[^\S\n]+", " ", re.sub(r"[*_#>]+", " ", normalise(text))).strip()
    plain = LABEL.sub("", plain)
    unquoted = QUOTATION.sub(" ", plain)
    return unquoted if words(unquoted) else plain


def _clauses(sentence: str) -> list[str]:
    # "Although they do not say X, they say Y": the comma ends the first clause.
    concession = CONCESSION.match(sentence)
    if concession:
        first, comma, rest = sentence[concession.end() :].partition(",")
        parts = [first, *CONTRAST.split(rest)] if comma else [first]
    else:
        parts = CONTRAST.split(sentence)
    return [part for part in parts if words(part)]


def _refuses(clause: str) -> bool:
    if not any(cue in clause for cue in CUES):
        return False
    if refusal().search(clause):
        return True
    framing = FRAMING.match(clause)
    if framing is None:
        return False
    proper = clause[framing.end() :]
    return bool(refusal().search(proper) or FRAMED.search(proper))


def _claims(clause: str) -> bool:
    # Citations alone, at the end of a refusal, claim nothing.
    return len(words(without_citations(clause))) >= 2 and not ASIDE.search(clause)
