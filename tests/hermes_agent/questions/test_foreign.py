"""Questions in other languages."""

from __future__ import annotations

import pytest

from hermes_agent.questions.intents import reply
from hermes_agent.questions.reading.question import in_english, read_question
from tests.hermes_agent.questions import discussed
from tests.hermes_agent.questions.discussed import EXAMPLES
from tests.hermes_agent.questions.test_intents import ASKED

UNDERSTOOD = {
    "How much time in the optimizer?": [
        "Wie lange dauert der Optimizer-Schritt?", "Wie viel Zeit im Optimizer?", "optimizer的时间", "优化器耗时多少？",
    ],
    "Why is it slow?": [
        "Warum ist mein Training so langsam?", "Was ist der Engpass?", "为什么训练这么慢？", "瓶颈在哪里",
        "¿Por qué es tan lento?", "Pourquoi est-ce si lent ?",
    ],
    "What should I change first?": [
        "Was soll ich zuerst ändern?", "Wie kann ich das beschleunigen?", "怎么优化？", "¿Qué debo cambiar primero?",
        "Que dois-je changer en premier ?",
    ],
    "Which rank is the slowest?": [
        "Welcher Rank ist am langsamsten?", "哪个rank最慢？", "¿Qué rank es el más lento?",
        "Quel rang est le plus lent ?",
    ],
    "Which step is the slowest?": [
        "Welcher Schritt ist der langsamste?", "哪一步最慢", "¿Cuál es el paso más lento?",
        "Quelle étape est la plus lente ?",
    ],
    "Where does the time go?": [
        "Wo bleibt die Zeit?", "时间都花在哪里了？", "¿En qué se va el tiempo?", "Où passe le temps ?",
    ],
    "How long does a step take?": [
        "Wie lange dauert ein Schritt?", "每一步需要多久？", "¿Cuánto dura un paso?",
        "Combien de temps dure une étape ?",
    ],
    "Which kernel takes the most time?": [
        "Welcher Kernel braucht am längsten?", "哪个核函数最耗时？", "¿Qué kernel tarda más?",
        "Quel noyau est le plus long ?",
    ],
    "What is the GPU utilization in percent?": [
        "Wie hoch ist die GPU-Auslastung?", "Wie lange ist die GPU im Schritt beschäftigt?",
        "GPU利用率是多少？", "¿Cuál es la utilización de la GPU?",
        "Quelle est l'utilisation du GPU ?",
    ],
    "What is the peak memory?": [
        "Wie viel Speicher wird verwendet?", "显存峰值是多少？", "¿Cuánta memoria usa?",
        "Combien de mémoire utilise-t-il ?",
    ],
    "How sure are you?": ["Wie sicher bist du?", "你确定吗？", "¿Estás seguro?", "Êtes-vous sûr ?"],
    "Are there similar cases?": [
        "Gibt es ähnliche Fälle?", "有类似的案例吗？", "¿Hay casos similares?", "Y a-t-il des cas similaires ?",
    ],
    "What could you not check?": [
        "Was konntest du nicht prüfen?", "哪些没能检查？", "¿Qué no pudiste comprobar?", "Qu'est-ce qui manque ?",
    ],
    "Could it be network?": ["Liegt es am Netzwerk?", "是网络的问题吗？", "¿Es la red?", "Est-ce le réseau ?"],
    "Could it be data loader?": [
        "Ist es der Datenlader?", "是数据加载吗？", "¿Son los datos?", "Est-ce le chargement des données ?",
    ],
    "What if I fix data loader?": [
        "Was bringt ein schnellerer Datenlader?", "如果优化数据加载会怎样？", "¿Qué pasa si arreglo los datos?",
        "Et si je corrige les données ?",
    ],
    "Which rank is the fastest?": [
        "Welcher Rank ist am schnellsten?", "哪个rank最快？", "¿Qué rank es el más rápido?",
        "Quel rang est le plus rapide ?",
    ],
    "Which step is the fastest?": ["Welcher Schritt ist der schnellste?", "哪一步最快"],
    "Which rank waits the most?": ["Welcher Rank wartet am längsten?", "哪个卡等得最久", "Quel rang attend le plus ?"],
    "How long is the device idle?": ["GPU 空闲多少？", "Wie lange ist die GPU untätig?"],
    "Why is rank 3 slow?": ["Warum ist Rank 3 langsam?", "为什么 rank 3 这么慢？", "Pourquoi le rang 3 est lent ?"],
}  # fmt: skip


@pytest.mark.parametrize(("english", "asked"), [(name, text) for name, texts in UNDERSTOOD.items() for text in texts])
def test_the_question_is_taken_for_its_english_one(english: str, asked: str) -> None:
    found = in_english(asked)
    assert found is not None
    assert found[1] == english


@pytest.mark.parametrize("question", [text for texts in ASKED.values() for text in texts])
def test_an_english_question_is_not_taken_for_another_language(question: str) -> None:
    assert in_english(question) is None


@pytest.mark.parametrize(
    "question",
    ["Comment on what should change", "Comment on the data loader: how to accelerate it?", "Comment: do I change"],
)
def test_an_english_question_may_begin_with_a_french_word(question: str) -> None:
    assert in_english(question) is None


def test_no_example_of_the_help_is_taken_for_another_language() -> None:
    assert [example for example in EXAMPLES if in_english(example)] == []


def test_the_answer_says_what_was_understood_and_that_it_is_in_english() -> None:
    discussion = discussed.slow_loader()
    answer = reply(discussion, "Warum ist es langsam?")
    assert answer.text.startswith("Understood from German as `Why is it slow?`; answers are in English.")
    assert answer.intent == "overview"
    assert answer.text.endswith(reply(discussion, "Why is it slow?").text)


def test_a_rank_that_does_not_exist_is_refused_without_a_sentence_left_out() -> None:
    answer = reply(discussed.late_rank(), "Warum ist Rank 77 langsam?")
    assert answer.notes == ()
    assert "This run has no such rank" in answer.text


@pytest.mark.parametrize(
    ("asked", "ranks", "steps", "intent"),
    [
        ("rank 2 的最慢 kernel 是什么？", (2,), (), "kernels"),
        ("Welcher Kernel ist auf Rank 1 und 3 am langsamsten?", (1, 3), (), "kernels"),
        ("was macht Rank 0 in Schritt 1?", (0,), (1,), "breakdown"),
        ("¿Cuánta memoria usa el rank 3?", (3,), (), "memory"),
    ],
)
def test_the_rank_or_step_that_is_named_is_kept(asked: str, ranks: object, steps: object, intent: str) -> None:
    found = in_english(asked)
    assert found is not None
    question = read_question(found[1])
    assert (question.ranks, question.steps) == (ranks, steps)
    answer = reply(discussed.late_rank(), asked)
    assert answer.intent == intent
    assert "not about" not in answer.text


def test_a_rank_that_the_answer_cannot_be_about_is_said() -> None:
    answer = reply(discussed.late_rank(), "Liegt es auf Rank 2 am Netzwerk?")
    assert "It is not about rank 2 alone." in answer.text
