"""Amounts in words: a figure that is not written in digits cannot be held against anything."""

from __future__ import annotations

import re

SMALL = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|"
    r"nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
)
PARTS = r"half|halves|thirds?|quarters?|fifths?|sixths?|sevenths?|eighths?|tenths?|hundredths?|fraction"
SPANS = r"seconds?|minutes?|hours?|milliseconds?|microseconds?|nanoseconds?"
# Over normalised words.
PATTERNS: tuple[str, ...] = (
    rf"({SMALL})( |$)(?!way |dimensional )(?:\w+)?",
    r"(a |one |two |several |many |few )?(dozens?|hundreds?|thousands?|millions?|billions?)( of)?",
    rf"(a|one|two|three|four) ({PARTS})(?! (cause|step|rank|place|change|time|run|thing|column|case))( of)?",
    r"half (a|an|of|the|as|that|its|this)( \w+)?",
    r"(by|about|nearly|almost|over|under|roughly|around|than|only|just) half",
    r"(nearly|almost|about|roughly|over|under|around|only|just)? ?(a|an|one|the) (whole|full|entire|good|half|single|"
    rf"mere) ({SPANS})",
    r"(a|an|one) (second|minute|hour|millisecond|microsecond|nanosecond)(?! (cause|reason|change|step|rank|run|time|"
    r"thing|option|problem|bottleneck|worker|stream|process|batch|copy|finding|measure|one))",
    r"one (percent|per cent|worker|process|thread|second|gpu|device|node|host)s?",
    r"(seconds|minutes|hours|milliseconds|microseconds) (of|per|in|each|every)",
    r"twice|thrice|halv(e|es|ed|ing)|doubl(es|ed|ing)|tripl(e|es|ed|ing)|quadrupl\w+",
    rf"({SMALL}|hundred|many|several) ?(fold|times)|tenfold|order of magnitude|orders of magnitude",
    r"(percent|per cent)",
)
AMOUNT = re.compile(rf"\b(?:{'|'.join(PATTERNS)})\b")


def amount_in_words(words: str, quoted: str) -> str:
    """The first amount in normalised words that does not stand in ``quoted`` likewise; "" when there is none."""
    for match in AMOUNT.finditer(words):
        amount = match.group().strip()
        if amount not in quoted:
            return amount
    return ""
