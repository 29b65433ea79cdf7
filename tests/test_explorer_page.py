"""The explorer: what it holds is what the tables say, and it works in a real browser without asking
for anything.
"""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from beamuq.api.explore_results import explore
from beamuq.errors import BeamUQError
from beamuq.explorer.explorer_page import Question, Section, explorer_data, page
from beamuq.methods.registry import METHODS, TITLES
from beamuq_study.grid import Grid
from exhibits_study import BASE, Results, study
from headless_chromium import Page, chromium
from one_metric import measure

WORDS = [
    f"{first}{second}{third}"
    for first in "bdfgklmnprst"
    for second in "aeiou"
    for third in ("n", "l", "r", "st")
]
SOURCES = {"answer": "greedy", "samples": "sample T=1.0", "beams": "beam M=10"}
HOSTILE = [
    "</script><script>document.body.dataset.broken = 1</script>",
    '<img src=x onerror="document.body.dataset.broken = 1"><b>bold</b> &amp; <!-- ',
    "\u202eright to left\u2066 isolate\u202c \u200f and never closed",
    "<!--DATA--> {{ 1 }} ${1} '\"` \\ \x00\x07\ufeff",
    "long " * 2000,
    "",
]


def row(tokens: list[str], logprobs: list[float]) -> dict[str, Any]:
    ids = [zlib.crc32(token.encode()) for token in tokens]
    told = {"text": "".join(tokens[:-1]).strip(), "logprob": sum(logprobs), "terminated": True}
    return told | {"token_ids": ids, "token_texts": tokens, "token_logprobs": logprobs}


def synthetic(n: int, seed: int = 1, size: int = 10) -> Section:
    """Questions with random answers of words that repeat, all compared, with scores of two
    methods.
    """
    random = np.random.default_rng(seed)
    table = {word: -float(random.exponential(1.5)) for word in WORDS}

    def some() -> dict[str, Any]:
        words = [WORDS[k] for k in np.minimum(random.geometric(0.04, random.integers(1, 8)), 200)]
        return row(
            [f" {word}" for word in words] + ["\n"], [table[word] for word in words] + [-0.3]
        )

    questions = []
    for k in range(n):
        samples, beams = [some() for _ in range(size)], [some() for _ in range(size)]
        beams.sort(key=lambda beam: -beam["logprob"])
        texts = sorted({each["text"] for each in (*samples, *beams)})
        similarity = [(a, b, float(random.random())) for a, b in itertools.product(texts, repeat=2)]
        pairs = {(a, b): (s, a == b or s > 0.8) for a, b, s in similarity}
        asked = " ".join(WORDS[w] for w in random.integers(0, 200, 14)) + "?"
        prompt = f"Question: what?\nAnswer: that\n\nQuestion: {asked}\nAnswer:"
        known = [WORDS[k % 200]], prompt, pairs, float(random.integers(0, 5)) / 4
        questions.append(Question(f"q-{k}", asked, samples[0], samples, beams, *known))
    keys = [("Prob", ""), ("Dissimilarity", "multinomial"), ("Dissimilarity", "beamsearch")]
    scores = pd.DataFrame(
        [(q.id, *key, "", float(random.random())) for key in keys for q in questions],
        columns=["id", "method", "variant", "setting", "value"],
    )
    return Section(
        "model/data/main", "Model, Data", questions, scores, SOURCES, "toy", "toy quality"
    )


def unpacked(html: str) -> Any:
    (data,) = re.findall(r'id="data">([A-Za-z0-9+/=]+)</script>', html)
    return json.loads(gzip.decompress(base64.b64decode(data)))


# -- what it holds ---------------------------------------------------------------------------------


def test_every_candidate_is_a_path_in_the_tree() -> None:
    cell = synthetic(20)
    data = explorer_data("t", [], [cell])
    (packed,) = data["cells"]
    for question, tree, sets in zip(cell.questions, packed["trees"], packed["sets"], strict=True):
        first = [cost for depth, _, cost in zip(*tree, strict=True) if depth == 1]
        assert first == sorted(first)  # the more probable tokens stand first
        paths, path = [], []
        for depth, token, cost in zip(*tree, strict=True):
            path[depth - 1 :] = [(data["tokens"][token], cost)]
            paths.append(list(path))
        assert len({tuple(map(tuple, each)) for each in paths}) == len(
            paths
        )  # a prefix stands once
        for rows, of in zip(
            ([question.answer], question.samples, question.beams), sets, strict=True
        ):
            for candidate, end in zip(rows, of[1], strict=True):
                assert [token for token, _ in paths[end]] == candidate["token_texts"]
                assert sum(cost for _, cost in paths[end]) / -1e3 == pytest.approx(
                    candidate["logprob"], abs=0.01
                )


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (
            {("a", "a"): 1.0, ("a", "b"): 0.5, ("b", "a"): 0.1},
            [100, 30, -1],
        ),  # the last was not compared
        ({("b", "a"): 0.1}, [-1, 10, -1]),  # compared in one direction
    ],
)
def test_the_matrix_is_the_mean_of_the_directions_compared(
    pairs: dict[tuple[str, str], float], expected: list[int]
) -> None:
    answer, other = row(["a", "\n"], [-1.0, 0.0]), row(["b", "\n"], [-1.0, 0.0])
    question = Question(
        "q", "?", answer, [other], [], pairs={pair: (s, None) for pair, s in pairs.items()}
    )
    (packed,) = explorer_data("t", [], [replace(synthetic(1), questions=[question])])["cells"]
    assert [ord(sign) - 40 for sign in packed["pairs"][0]] == expected


def test_clusters_are_those_of_semantic_entropy_and_need_every_pair() -> None:
    alike = {
        ("a", "b"),
        ("b", "a"),
        ("b", "c"),
        ("c", "b"),
        ("d", "a"),
    }  # c is not like a, d is so in one direction
    rows = [row([text, "\n"], [-1.0, 0.0]) for text in "abcda"]
    compared = {pair: (0.5, pair in alike) for pair in itertools.product("abcd", repeat=2)}
    for pairs, expected in ((compared, [0, 0, 2, 3, 0]), ({("a", "b"): (0.5, True)}, [])):
        question = Question("q", "?", rows[0], rows, [], pairs=pairs)
        (packed,) = explorer_data("t", [], [replace(synthetic(1), questions=[question])])["cells"]
        assert packed["sets"][0][1][4] == expected


def test_what_is_not_known_is_null_and_never_a_number() -> None:
    nothing = {"text": "x", "logprob": float("nan")}
    question = Question("q", "?", nothing, [nothing], [])
    other = replace(question, id="other")
    scores = pd.DataFrame(
        {"id": ["other"], "method": "M", "variant": "", "setting": "", "value": [0.5]}
    )
    (packed,) = explorer_data(
        "t", [], [replace(synthetic(1), questions=[question, other], scores=scores)]
    )["cells"]
    assert packed["values"] == [[None, 0.5]]
    assert packed["rated"] == [None, None]
    assert packed["sets"][0][1] == [[0], [-1], [None], [0], []]


# -- from tables and files -------------------------------------------------------------------------


class WithPrompts(Results):
    """Results that hold prompts and similarities too."""

    def _prompts(self, need: Any) -> list[dict[str, Any]]:
        asked = self._questions(need)
        return [
            {"id": each["id"], "prompt": f"Question: {each['question']}\nAnswer:"} for each in asked
        ]

    def _similarity(self, need: Any) -> list[dict[str, Any]]:
        texts = sorted({each["text"] for each in self._candidates(need)})
        ids = [each["id"] for each in self._questions(need)]
        pairs = itertools.product(ids, texts, texts)
        return [
            {
                "id": key,
                "premise": a,
                "hypothesis": b,
                "entail": 0.9 if a == b else 0.2,
                "neutral": None,
            }
            | {"contradict": None}
            for key, a, b in pairs
        ]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study's results with two of its cells, of which one has no scores yet."""
    folder, of = tmp_path_factory.mktemp("study"), study()
    (folder / "study.json").write_text(of.model_dump_json())
    writer, grid = WithPrompts(folder, of), Grid(of)
    for which, cell in enumerate(grid.explored[:2]):
        writer.paths(
            [
                table
                for table in grid.tables_explored(cell)
                if not (which and table.kind == "scores")
            ]
        )
    return folder


def test_a_study_shows_the_cells_that_are_there_and_names_the_others(results: Path) -> None:
    data = unpacked(explore(results).read_text())
    first, second = data["cells"]
    assert first["name"] == f"{BASE}/triviaqa/main"
    assert len(first["ids"]) == 24
    assert "No scores yet." in second["notes"]
    assert any("HotpotQA" in note for note in data["notes"])
    assert any("demo" in note for note in data["notes"])


def test_values_and_quality_are_those_of_the_produced_answer(results: Path) -> None:
    first = unpacked(explore(results).read_text())["cells"][0]
    stored = pd.read_parquet(results / f"scores/{study().main.scorer}/{BASE}/triviaqa/main.parquet")
    for (title, form), values in zip(first["methods"], first["values"], strict=True):
        rows = stored[
            (stored["answer_source"] == "greedy")
            & (stored["setting"] == "")
            & (stored["variant"] == form)
        ]
        (name,) = (name for name in METHODS if TITLES.get(name, name) == title)
        own = rows[rows["method"] == name].set_index("id")["value"].loc[first["ids"]]
        assert values == pytest.approx(own.tolist(), rel=1e-5)
    quality = pd.read_parquet(
        results / f"quality/{study().main_quality.metric}/{BASE}/triviaqa/main.parquet"
    )
    assert first["rated"] == quality[quality["answer_source"] == "greedy"]["value"].tolist()


ROW = {
    "id": "a",
    "question": "Capital of Italy?",
    "quality": 1.0,
    "references": ["Rome"],
    "answer": {"text": "Rome", "logprob": -0.5},
    "samples": ["Rome", "rome", "Milan"],
    "beams": [{"text": "Milan", "logprob": -2.0}, {"text": "Rome", "logprob": -0.5}],
}


def test_a_file_that_score_takes_is_scored_and_compared(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(ROW) + "\n" + json.dumps({"answer": "Oslo", "samples": ["Oslo"]}))
    (cell,) = unpacked(explore(file, similarity="lexical").read_text())["cells"]
    assert cell["ids"] == ["a", "2"]
    assert cell["references"] == [["Rome"], []]
    assert cell["rated"] == [1, None]
    assert [cell["texts"][0][k] for k in cell["sets"][0][2][0]] == [
        "Rome",
        "Milan",
    ]  # by probability
    assert cell["sets"][0][1][4] == [0, 0, 2]
    assert ["Prob", ""] in cell["methods"]
    assert cell["values"][cell["methods"].index(["Prob", ""])] == [0.5, None]
    assert any("PTrue" in sentence for sentence in cell["without_value"])
    assert cell["notes"] == []


def test_samples_that_are_left_out_are_counted_on_the_page(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    lines = [
        {"answer": "Oslo", "samples": ["Oslo", None, "Rome"]},
        {"answer": "Oslo", "samples": ["Rome", None, None]},
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    with pytest.warns(UserWarning, match="3 of 6 samples"):
        page = explore(file, similarity="lexical", skip_invalid_samples=True)
    (cell,) = unpacked(page.read_text())["cells"]
    assert cell["notes"] == ["Of 6 samples 3 cannot be read and are left out."]


def test_the_page_tells_once_how_many_questions_lack_their_endings(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    lacking = {"text": "Oslo", "token_logprobs": [-0.1, -0.2]}
    whole = lacking | {"ended": True}
    lines = [{"answer": answer, "samples": ["Oslo", "Rome"]} for answer in (lacking, whole)]
    file.write_text("\n".join(map(json.dumps, lines)))
    page = explore(file, similarity="lexical", without_ending=True)
    (cell,) = unpacked(page.read_text())["cells"]
    (note,) = cell["notes"]
    assert note.startswith("Of 2 questions 1 have log-probabilities without the ending's")


def test_scores_without_a_value_are_told_with_their_form(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"answer": "Oslo", "samples": ["Oslo", "Rome"]}))
    (cell,) = unpacked(explore(file, similarity="lexical").read_text())["cells"]
    (over_beams,) = [one for one in cell["without_value"] if "needs beams" in one]
    assert " over beams, one question: needs beams" in over_beams
    assert "Dissimilarity" in over_beams


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("none", None, "no such file"),
        ("empty", "", "study.json"),
        ("rows.jsonl", '{"id": 1}', "answer"),
        ("rows.jsonl", '{"answer": "a", "samples": ["a"], "quality": "good"}', "quality"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(
    name: str, content: str | None, told: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content == "":
        path.mkdir()
    elif content:
        path.write_text(content)
    with pytest.raises(BeamUQError, match=told) as caught:
        explore(path)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_a_page_opens_on_the_score_with_most_values() -> None:
    cell = synthetic(6)
    (packed,) = explorer_data("t", [], [cell])["cells"]
    assert packed["methods"][packed["opens"]] == ("Dissimilarity", "beamsearch")
    scores = cell.scores.copy()
    scores.loc[(scores["method"] == "Dissimilarity") & (scores["id"] == "q-0"), "value"] = np.nan
    (packed,) = explorer_data("t", [], [replace(cell, scores=scores)])["cells"]
    assert packed["methods"][packed["opens"]][0] == TITLES.get("Prob", "Prob")
    without_beams = cell.scores[cell.scores["variant"] != "beamsearch"]
    (packed,) = explorer_data("t", [], [replace(cell, scores=without_beams)])["cells"]
    assert packed["methods"][packed["opens"]] == ("Dissimilarity", "multinomial")


# -- in a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def opened(browser: Page, tmp_path: Path) -> Iterator[Page]:
    """Twelve questions, opened; whatever a test does, nothing is asked for and nothing is
    complained of.
    """
    show(browser, tmp_path, "Toy", ["a note"], [synthetic(12)])
    yield browser
    assert (browser.requests(), browser.complaints()) == ([], [])


def show(
    browser: Page, folder: Path, title: str, notes: list[str], cells: list[Section], link: str = ""
) -> None:
    (folder / "page.html").write_text(page(title, notes, cells))
    browser.events.clear()
    browser.open((folder / "page.html").as_uri() + link)


def rows(of: Page) -> list[str]:
    found: list[str] = of.evaluate(
        "[...document.querySelectorAll('#rows tr')].map(r => r.children[1].textContent)"
    )
    return found


def heading(of: Page) -> str:
    return str(of.evaluate("document.querySelector('#question h2')?.textContent"))


@pytest.mark.browser
def test_scores_without_a_value_stand_folded_above_the_questions(
    browser: Page, tmp_path: Path
) -> None:
    section = replace(synthetic(3), without_value=["No PTrue, 3 questions: needs it."])
    show(browser, tmp_path, "Toy", [], [section])
    folded = "document.querySelector('#notes details')"
    assert browser.evaluate(f"{folded}.open") is False
    assert "PTrue" in str(browser.evaluate(f"{folded}.textContent"))


HEADS = "[...document.querySelectorAll('#heads th')].map(head => head.textContent)"
HIDDEN = (
    "[...document.querySelectorAll('#tools label')].filter(label => label.hidden)"
    ".map(label => label.firstChild.data.trim())"
)
CHOOSE = (
    "(select => {{ select.value = '{}'; select.dispatchEvent(new Event('change')); }})"
    "(document.querySelector('#{}'))"
)
ORDERS = (
    "[...document.querySelector('#order').options].filter(option => !option.hidden)"
    ".map(option => option.textContent)"
)


@pytest.mark.browser
def test_columns_slices_and_orders_without_a_value_are_left_out(
    browser: Page, tmp_path: Path
) -> None:
    show(browser, tmp_path, "Toy", [], [synthetic(3)])
    every_column = browser.evaluate(HEADS)
    assert {"Mass", "Tokens", "Off by (%)", "Beams − samples (%)"} <= set(every_column)
    assert browser.evaluate(HIDDEN) == ["Cell"]
    plain = [{"text": text, "logprob": None} for text in ("Rome", "Milan")]
    questions = [
        replace(question, answer=plain[0], samples=plain, beams=[], pairs={}, quality=None)
        for question in synthetic(3).questions
    ]
    scores = synthetic(3).scores
    scores = scores[scores["variant"] == "multinomial"]
    show(browser, tmp_path, "Toy", [], [replace(synthetic(3), questions=questions, scores=scores)])
    assert browser.evaluate(HEADS) == ["Question", "Answer", "Score"]
    assert browser.evaluate(HIDDEN) == ["Cell", "Answers", "Covered mass", "Length"]
    named = ["as asked", "most uncertain first", "most certain first", "by a column"]
    assert browser.evaluate(ORDERS) == named
    assert "Covered mass" not in str(browser.evaluate("document.querySelector('dl').textContent"))
    assert len(rows(browser)) == 3
    assert browser.complaints() == []


@pytest.mark.browser
def test_of_equal_scores_or_qualities_an_answer_is_off_by_the_nearest_of_their_places(
    browser: Page, tmp_path: Path
) -> None:
    qualities = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    values = [0.0, 0.0, 0.2, 0.3, 0.1, 0.9]
    section = synthetic(6)
    questions = [
        replace(question, quality=quality)
        for question, quality in zip(section.questions, qualities, strict=True)
    ]
    scores = section.scores[section.scores["method"] == "Prob"].assign(value=values)
    show(browser, tmp_path, "Toy", [], [replace(section, questions=questions, scores=scores)])
    off = "[...document.querySelectorAll('#rows [data-column=off]')].map(cell => cell.textContent)"
    assert sorted(browser.evaluate(off)) == sorted(["0", "0", "0", "+20", "−40", "0"])


@pytest.mark.browser
def test_a_narrow_page_without_masses_still_has_the_score(browser: Page, tmp_path: Path) -> None:
    bare = [replace(question, beams=[], quality=None) for question in synthetic(3).questions]
    show(browser, tmp_path, "Toy", [], [replace(synthetic(3), questions=bare)])
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=420,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    wide = "[...document.querySelectorAll('#heads th')].filter(head => head.offsetWidth > 0)"
    heads = browser.evaluate(f"{wide}.map(head => head.textContent)")
    assert heads == ["Question", "Answer", "Score"]


@pytest.mark.browser
def test_a_cell_with_fewer_columns_is_left_for_one_with_all(browser: Page, tmp_path: Path) -> None:
    other = replace(synthetic(3, 2), name="other/data/main", title="Other")
    bare = [replace(question, beams=[], quality=None) for question in other.questions]
    show(browser, tmp_path, "Toy", [], [synthetic(3), replace(other, questions=bare)])
    browser.evaluate(CHOOSE.format(1, "right"))
    browser.evaluate(CHOOSE.format(1, "cell"))
    assert "Mass" not in browser.evaluate(HEADS)
    assert len(rows(browser)) == 3  # no answer is judged here, and none is asked for
    browser.evaluate(CHOOSE.format(0, "cell"))
    assert "Mass" in browser.evaluate(HEADS)


@pytest.mark.browser
def test_it_opens_the_first_question_and_keys_go_on_search_and_come_back(opened: Page) -> None:
    asked = [question.text for question in synthetic(12).questions]
    assert rows(opened) == asked
    assert heading(opened) == asked[0]
    keys = ("ArrowDown", "ArrowRight", "ArrowUp", "End", "ArrowDown", "Home")
    for key, expected in zip(keys, (1, 2, 1, 11, 11, 0), strict=True):
        opened.press(key)
        assert heading(opened) == asked[expected]
    opened.press("/")
    opened.type(asked[7])
    assert rows(opened) == [asked[7]]
    opened.press("Escape")
    opened.press("Enter")
    assert heading(opened) == asked[7]
    assert opened.evaluate("document.activeElement.id") == "question"


@pytest.mark.browser
def test_bars_of_beams_and_samples_have_one_scale(browser: Page, tmp_path: Path) -> None:
    beams = [row([text, "\n"], [np.log(p), 0.0]) for text, p in (("a", 0.6), ("b", 0.3))]
    samples = [beams[0], beams[1], beams[1], beams[1]]
    question = replace(
        synthetic(1).questions[0], answer=beams[0], samples=samples, beams=beams, pairs={}
    )
    show(browser, tmp_path, "Toy", [], [replace(synthetic(1), questions=[question])])
    script = "[...document.querySelectorAll('.bar.{}')].map(bar => parseFloat(bar.style.width))"
    assert browser.evaluate(script.format("beams")) == pytest.approx(
        [80, 40], abs=0.1
    )  # .6 and .3 of .75
    assert browser.evaluate(script.format("samples")) == pytest.approx([100, 100 / 3], abs=0.1)


@pytest.mark.browser
@pytest.mark.parametrize("width", [420, 1250])
def test_a_question_has_room_in_the_table_at_every_width(width: int, opened: Page) -> None:
    opened.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    assert opened.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    for box in ("#scroll", "#question"):
        assert (
            opened.evaluate(
                f"(box => box.scrollWidth - box.clientWidth)(document.querySelector('{box}'))"
            )
            <= 0
        )
    assert (
        opened.evaluate(
            "document.querySelector('#rows td:nth-child(2)').getBoundingClientRect().width"
        )
        > 120
    )


@pytest.mark.browser
def test_the_rejection_curve_has_the_prr_of_the_package(opened: Page) -> None:
    cell = synthetic(12)
    told = opened.evaluate("document.querySelector('#question svg').getAttribute('aria-label')")
    for form in ("multinomial", "beamsearch"):
        values = cell.scores[
            (cell.scores["method"] == "Dissimilarity") & (cell.scores["variant"] == form)
        ]["value"]
        quality = np.array([question.quality for question in cell.questions])
        (expected,) = measure("PRR", values.to_numpy(), quality)
        assert f"PRR {expected:.3g}" in told


@pytest.mark.browser
def test_a_link_opens_its_question(browser: Page, tmp_path: Path) -> None:
    first, other = synthetic(12), replace(synthetic(12, 2), name="other/data/main")
    for cell, link in ((first, "#q-5"), (other, "#other/data/main/q-5")):
        show(browser, tmp_path, "Toy", [], [first, other], link)
        assert heading(browser) == cell.questions[5].text
        browser.press("ArrowDown")
        assert browser.evaluate("location.hash") == f"#{cell.name}/q-6"


@pytest.mark.browser
def test_hostile_texts_stay_text(browser: Page, tmp_path: Path) -> None:
    cell = synthetic(len(HOSTILE))
    made = [row([text, "\n"], [-1.0, -0.1]) | {"text": text} for text in HOSTILE]
    of_all = {"samples": made, "beams": made, "pairs": {}}
    questions = [
        replace(
            question,
            id=text or "empty",
            text=text,
            references=[text],
            prompt=text,
            answer=answer,
            **of_all,
        )
        for text, answer, question in zip(HOSTILE, made, cell.questions, strict=True)
    ]
    scores = cell.scores.assign(id=[HOSTILE[int(key[2:])] or "empty" for key in cell.scores["id"]])
    cell = replace(cell, title=HOSTILE[0], questions=questions, scores=scores)
    show(browser, tmp_path, f"Toy {HOSTILE[0]}", HOSTILE, [cell])
    for text in HOSTILE:
        assert heading(browser) == (text or "empty")
        assert (
            browser.evaluate("document.querySelector('#question pre')?.textContent ?? ''") == text
        )
        assert (
            browser.evaluate(
                "document.querySelectorAll('#question img, #question script, #rows img').length"
            )
            == 0
        )
        assert browser.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        browser.press("ArrowDown")
    assert browser.evaluate("document.body.dataset.broken ?? 'whole'") == "whole"
    assert (browser.requests(), browser.complaints()) == ([], [])
