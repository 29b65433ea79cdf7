"""Which of a multiple-choice question's options an answer names, by letter or by text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_uppercase

from beamuq.folded_words import UNSPACED
from beamuq.unicode_folding import boxed, fold

GOLD_LABEL = "gold_label"  # the quality metric that reads them
_MARKS = " \t\n\"'`*_.,;:!?()[]{}$\\。、，！？；：．"
_TAG = re.compile(r"</?(?:b|strong)>")
_ARTICLE = re.compile(r"(?:an?|the)\s+(?=\S)", re.IGNORECASE)
_UNSPACED = re.compile(f"[{UNSPACED}]")
_NO_WORD = r"(?!['’-]\w)"
# "answer" and "option" in other languages, and what may stand between them and a letter
_ANSWER = (
    "respuesta|réponse|antwort|lösung|resposta|risposta|odpowiedź|svar|antwoord|cevap|jawaban|"
    "đáp án|ответ|відповідь|الإجابة|الجواب|תשובה|उत्तर"
)
_OPTION = "opción|opção|opzione|letra|lettre|lettera|buchstabe|вариант|буква"
_RIGHT = "correcta|correcte|correta|corretta|final|finale|الصحيحة"
_IS = "es|est|ist|é|è|to|är|er|là|adalah|это|هي|هو|है"
_THE = f"la|le|el|il|a|o|die|der|das|{_OPTION}"
_HAN_ANSWER = "答案|答え|答|回答|正解|解答|选择|選擇|选项|選項|选|選|정답|답"
_HAN_SO = "因此|所以|따라서|그러므로|よって|したがって"
_NO_LETTER = r"[^A-Za-z\0\n不非没無无。，,]{0,6}"
_SO = "therefore|thus|hence|so|consequently|accordingly|in conclusion"
_ALONE = (
    r"""(?=[\s*_"')\]]*(?:$|[.,;:!?])"""
    r"|\s+is\s+(?:correct|right|the\s+(?:correct|right|best|answer)))"
)
_LETTERS = tuple(
    map(
        re.compile,
        (
            r"(?<!\w)[(\[]\W{0,9}([A-Za-z])\W{0,9}[)\]]",
            r"^\W*([A-Za-z])(?:\*|\s*[).:,]|\s+[-–—])",
            r"^\W*([B-HJ-Z])(?=[\s;/]|$)",
            r"^\W*([A-Z])(?=\s+(?:is|was|because|since|as|and|or)\b)",
            r"(?i:\b(?:is|be|was|answer|option|choice|letter|choose|pick|select)|'s)[^\w\0]+([A-Z])\b(?!['’-]\w)",
            r"(?i:\b(?:option|choice|letter))[^\w\0]+([a-z])\b(?!['’-]\w)",
            r"(?i:\b(?:is|answer))[^\w\0]+([a-z])\W*$",
            rf"(?i:\b(?:{_SO}))[^\w\0]+([A-Z])\b{_ALONE}",
            r"∴\W*([A-Z])\b",
            rf"(?i:\b(?:{_ANSWER})(?:[^\w\0]+(?:{_RIGHT}))?(?:[^\w\0]+(?:{_IS}))?(?:\s+(?:{_THE}))*)"
            rf"[^\w\0]+([A-Z])\b{_NO_WORD}",
            rf"(?i:\b(?:{_OPTION}))[^\w\0]+([A-Z])\b{_NO_WORD}",
            rf"(?:{_HAN_ANSWER}|{_HAN_SO}){_NO_LETTER}([A-Z])(?![A-Za-z])",
            r"^\W*([A-Z])(?=是|为|為|が|は|입니다|이다)",
        ),
    )
)
_JOINED = re.compile(r"(?=\b([A-Z])\b\W*(?:,|/|&|\band\b|\bor\b)\W*(?:(?:and|or)\b)?\W*([A-Z])\b)")


def named_options(answer: str, options: Sequence[str]) -> set[int]:
    """The places (0-based) of the options that an answer names.

    Of options with the same text, the first. Both are folded first
    (:func:`beamuq.unicode_folding.fold`). Where the answer has LaTeX's boxes that name options,
    these alone are read. An option's text counts where the answer contains it as whole words,
    without its leading article and in any case, unless options differ in that alone; of texts that
    hold one another the longest. In what is left a letter counts if it is all there is, is in
    brackets, or opens the answer with a mark behind it; a capital also if it opens the answer,
    follows a word such as "is", "answer" or "option" (in other languages too), ends a sentence
    after a word such as "therefore", or is joined to such a letter by "and", "or", a comma or a
    slash. A and I may be words: they open an answer only with a mark or a verb behind them. Letters
    beyond the last option are none.
    """
    named: set[int] = set()
    for box in boxed(answer):
        named |= _named(box, options)
    return named or _named(answer, options)


def _named(answer: str, options: Sequence[str]) -> set[int]:
    texts, flags = _texts_that_differ(options)
    keys = [text.casefold() for text in texts] if flags else texts
    left = _folded(answer)
    named: set[int] = set()
    for text in sorted(texts, key=len, reverse=True):
        if not text:  # nothing visible
            continue
        left, count = re.subn(_whole(text), "\0", left, flags=flags)
        if count:
            named.add(keys.index(text.casefold() if flags else text))
    places = {letter: keys.index(key) for letter, key in zip(ascii_uppercase, keys, strict=False)}
    return named | {places[letter] for letter in _letters(left) if letter in places}


def _texts_that_differ(options: Sequence[str]) -> tuple[list[str], re.RegexFlag]:
    """The texts to look for and how: in any case and without an article, unless options differ so.

    The last form is taken where none tells all options apart.
    """
    stripped = [_text(option) for option in options]
    different = len({*options})
    if len({text.casefold() for text in stripped}) == different:
        return stripped, re.IGNORECASE
    if len({*stripped}) == different:
        return stripped, re.NOFLAG
    return [_folded(option) for option in options], re.NOFLAG


def _folded(text: str) -> str:
    return fold(_TAG.sub("", text)).strip()


def _whole(text: str) -> str:
    """A pattern of a text as whole words; scripts without spaces have none that could be told."""
    before = "" if _UNSPACED.match(text) else r"(?<![\w\-])(?<!\d[.,])"
    behind = "" if _UNSPACED.match(text[-1:]) else r"(?!\w|-\w|[.,]\d)"
    return f"{before}{re.escape(text)}{behind}"


def _text(option: str) -> str:
    """An option as it is looked for: without a leading article and the marks at its end."""
    text = _folded(option)
    if _ARTICLE.match(text):
        return _ARTICLE.sub("", text, count=1).rstrip(" .,;:!")
    return text.rstrip(" .,;:!") or text


def _letters(answer: str) -> set[str]:
    r"""The letters, as capitals, that name options in an answer; ``\0`` is an option's text."""
    bare = answer.strip(_MARKS)
    if len(bare) == 1 and bare.isalpha():
        return {bare.upper()}
    letters = {letter.upper() for pattern in _LETTERS for letter in pattern.findall(answer)}
    for first, second in _JOINED.findall(answer):
        if first in letters:
            letters.add(second)
    return letters
