"""The commonest questions in German, Chinese, Spanish and French, by their words, put into English."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

LANGUAGES = ("German", "Chinese", "Spanish", "French")
LIMIT = 2000


@dataclass(frozen=True)
class Foreign:
    """A question in another language and the English one it was taken for."""

    language: str
    question: str


# English subject -> its names in the order of LANGUAGES, over folded words.
SUBJECTS: tuple[tuple[str, tuple[str, str, str, str]], ...] = (
    ("network", (r"netz(werk)?", r"网络", r"(la|de) red", r"reseau")),
    ("data loader", (r"datenlad\w*|daten|dataloader", r"数据|dataloader", r"datos|dataloader", r"donnees|dataloader")),
    ("garbage collection", (r"speicherbereinigung|garbage\w*", r"垃圾回收", r"basura", r"ramasse miettes")),
    ("memory", (r"(arbeits)?speicher", r"内存|显存", r"memoria", r"memoire")),
    ("communication", (r"kommunikation", r"通信", r"comunicacion(es)?", r"communications?")),
    ("storage", (r"festplatte|platte", r"磁盘|存储|硬盘", r"disco|almacenamiento", r"disque|stockage")),
    ("the cpu", (r"cpu|prozessor", r"cpu|处理器", r"cpu|procesador", r"cpu|processeur")),
)

# English question -> patterns in the order of LANGUAGES; tried from top to bottom. {s}: the language's subjects.
QUESTIONS: tuple[tuple[str, tuple[str, str, str, str]], ...] = (
    (
        "How sure are you?",
        (
            r"wie sicher|bist du (dir )?sicher",
            r"(确定|肯定)吗|把握|置信|多确定|可信",
            r"segur[oa]",
            r"(es tu|etes vous) surs?|certitude",
        ),
    ),
    (
        "What could you not check?",
        (
            r"was (konn|kann|hast|habt)\w* .*nicht|was fehlt",
            r"(不能|无法|没有?|没能).*(检查|判断|回答|测量)|缺少?什么",
            r"que no (pud|pued|has)\w*|que falta",
            r"(que|quoi) .*pas (pu )?(verifie|mesure|repond)\w*|que manque|qui manque",
        ),
    ),
    (
        "Are there similar cases?",
        (
            r"ahnliche\w* (fall|problem)\w*",
            r"类似|相似|案例",
            r"casos (similares|parecidos)",
            r"cas (similaires|semblables)",
        ),
    ),
    (
        "How many workers should I use?",
        (r"wie ?viele? worker", r"(多少|几)个? ?(worker|进程)", r"cuantos workers", r"combien de workers"),
    ),
    (
        "What if I fix {subject}?",
        (
            r"was (ware|passiert|ist),? wenn|was (bringt|brachte)|wie ?viel (schneller|bringt)",
            r"如果|假如|(快|提升|加速|提高)多少",
            r"que pasa(ria)? si|cuanto .*(mejora|rapido|gana)\w*",
            r"et si |que se passe\w* .*si |combien .*(gagn|plus (vite|rapide))\w*",
        ),
    ),
    (
        "How long does a step take?",
        (
            r"wie lang\w* .*schritt|schritt(zeit|dauer)",
            r"(步|迭代).*(多久|多长|耗时|用时|几(毫)?秒)|多(久|长时间).*(步|迭代)",
            r"cuanto (tarda|dura|tiempo) .*(paso|iteracion)",
            r"combien de temps .*(pas|etape|iteration)|duree d.*(pas|etape|iteration)",
        ),
    ),
    (
        "Which kernel takes the most time?",
        (
            r"welche\w* kernel|(teuerste|langsamste|langste)\w* kernel",
            r"(哪|最|什么).*(kernel|核函数|内核|算子)",
            r"(que|cual|cuales) .*(kernel|nucleo)s?",
            r"quel\w* .*(kernel|noyau)",
        ),
    ),
    (
        "What is the GPU utilization in percent?",
        (r"auslastung", r"利用率|占用率", r"utilizacion|uso de (la )?gpu", r"(utilisation|occupation) .*gpu"),
    ),
    (
        "What is the peak memory?",
        (
            r"speicher(verbrauch|bedarf|spitze)|wie ?viel speicher",
            r"(显存|内存).*(峰值|多少|占用)|(峰值|多少)(显存|内存)",
            r"cuanta memoria|pico de memoria",
            r"combien de memoire|pic (de )?memoire",
        ),
    ),
    (
        "Which rank is the slowest?",
        (
            r"welche\w* (rank|rang|gpu|prozess|knoten|karte)",
            r"哪.*(rank|gpu|卡|进程|节点)",
            r"(que|cual) .*(rank|rango|gpu|proceso|nodo)",
            r"quel\w* .*(rank|rang|gpu|processus|noeud)",
        ),
    ),
    (
        "Which step is the slowest?",
        (
            r"welche\w* (\w+ )?(schritt|iteration)",
            r"哪.*(步|迭代)",
            r"(que|cual) .*(paso|iteracion)",
            r"quel\w* .*(pas|etape|iteration)",
        ),
    ),
    (
        "Where does the time go?",
        (
            r"wo(hin|fur)? .*zeit|zeitaufteilung",
            r"时间.*(花|用在|去|分布|哪)",
            r"(en que|donde|a donde) .*tiempo",
            r"ou (va|passe|part|est) .*temps|repartition du temps",
        ),
    ),
    (
        "What should I change first?",
        (
            r"(was|wie) .*(andern|tun|machen|verbessern|optimieren|beheben|beschleunigen|schneller)|empfehlung\w*",
            r"(怎么|如何|怎样|应?该).*(优化|改|解决|提升|加速|提高|修|做)|建议",
            r"(que|como) .*(cambi|hacer|mejor|optimiz|arregl|aceler)\w*|recomend\w*|consejos?",
            r"(que|quoi|comment) .*(chang|faire|amelior|optimis|corrig|acceler)\w*|recommand\w*|conseils?",
        ),
    ),
    (
        "Why is it slow?",
        (
            r"(warum|wieso|weshalb) .*(langsam|lang|dauert)\w*|was ist (los|falsch|das problem)|engpass|flaschenhals",
            r"为(什么|何|啥).*慢|怎么.*慢|瓶颈|什么问题|慢的?原因",
            r"(por ?que|porque) .*(lent|tarda|despacio)\w*|cuello de botella|cual es el problema",
            r"pourquoi .*(lent|long|temps)\w*|goulot|quel est le probleme",
        ),
    ),
    (
        "Could it be {subject}?",
        (
            r"(liegt|ist|kann|konnte|sind) .*({s})",
            r"(是|会|因为).*({s})",
            r"(es|son|puede|podria|sera) .*({s})",
            r"(est ce|c est|serait|peut|vient) .*({s})",
        ),
    ),
)
RANK = re.compile(r"(?:rank|rang|rango|gpu)\s*(\d{1,7})|(\d{1,7})\s*号?卡")
STEP = re.compile(r"(?:schritt|paso|etape|iteration|iteracion)\s*(\d{1,9})|第?\s*(\d{1,9})\s*步")


def in_english(text: str) -> Foreign | None:
    """The English question that a question in another language is taken for; None when it is not known to be one."""
    words = folded(text[:LIMIT])
    for question, patterns in QUESTIONS:
        for place, (language, pattern) in enumerate(zip(LANGUAGES, patterns, strict=True)):
            named = "|".join(names[place] for _, names in SUBJECTS)
            if _search(language, pattern.replace("{s}", named), words):
                return Foreign(language, _placed(question.replace("{subject}", _subject(place, words)), words))
    return None


def folded(text: str) -> str:
    """Lower case without accents, punctuation as blanks, single blanks; other scripts are kept."""
    bare = "".join(each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))
    return " ".join(re.sub(r"[^\w]+|_", " ", bare).split())


def _search(language: str, pattern: str, words: str) -> bool:
    """Chinese has no blanks between words; elsewhere a name begins and ends with a word."""
    bounded = pattern if language == "Chinese" else rf"\b(?:{pattern})\b"
    return bool(re.search(bounded, words))


def _subject(place: int, words: str) -> str:
    for subject, names in SUBJECTS:
        if _search(LANGUAGES[place], names[place], words):
            return subject
    return "the first cause"


def _placed(question: str, words: str) -> str:
    """The question about the rank or the step that was named."""
    ranks = [first or second for first, second in RANK.findall(words)]
    steps = [first or second for first, second in STEP.findall(words)]
    where = [f"rank {number}" for number in ranks] + [f"step {number}" for number in steps]
    if not where:
        return question
    match question:
        case "Why is it slow?":
            return f"Why is {where[0]} slow?"
        case "Where does the time go?":
            return f"Break down {' '.join(where)}"
        case "How long does a step take?":
            return f"How long does a step of {where[0]} take?" if ranks else f"How long is {where[0]}?"
        case _:
            return question
