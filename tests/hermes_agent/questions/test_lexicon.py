"""The file of words and texts fits the code that uses it."""

from __future__ import annotations

import re
from pathlib import Path

from hermes_agent import questions
from hermes_agent.questions.answers import timed_communication
from hermes_agent.questions.answers.causes_not_found import NOT_FOUND
from hermes_agent.questions.kinds import ANSWERS
from hermes_agent.questions.reading.question import lexicon
from tools.knowledge.taxonomy import causes
from tools.metrics.idle import REASONS


def test_every_kind_of_question_has_words_and_an_answer() -> None:
    assert set(lexicon().intents) == set(ANSWERS)


def test_every_text_is_used_and_every_text_that_is_used_exists() -> None:
    code = "".join(path.read_text() for path in Path(questions.__path__[0]).rglob("*.py"))
    used = set(re.findall(r"wording\([\"'](\w+)[\"']\)", code))
    used |= {f"idle_{reason}" for reason in REASONS}
    used |= {f"verdict_{verdict}" for verdict in ("problem", "healthy", "inconclusive")}
    verdicts = ("problem", "healthy", "inconclusive")
    used |= {f"{asked}_{verdict}" for asked in ("well", "slow", "usual") for verdict in (*verdicts, "lost")}
    used |= {f"recorded_{part}" for part in ("data_wait", "waiting", "gc")}
    used |= set(timed_communication.METRICS.values()) | {timed_communication.OF_MICRO_STEPS}
    used |= {f"not_found_{kind}" for kind in NOT_FOUND} | {"nothing_to_change", "no_advice"}
    assert used == set(lexicon().texts)


def test_the_names_that_people_use_are_of_causes_and_mechanisms_that_exist() -> None:
    for subject in lexicon().subjects:
        assert set(subject.causes) <= set(causes())
        assert subject.mechanism is None or subject.mechanism in causes()[subject.causes[0]].mechanisms


def test_all_languages_know_the_same_questions_and_subjects() -> None:
    first, *others = lexicon().languages.values()
    for language in others:
        assert list(language.questions) == list(first.questions)
        assert list(language.subjects) == list(first.subjects)
