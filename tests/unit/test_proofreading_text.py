"""Proofreading's pure parts: cutting, comparing, cleaning, and giving words back their times."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worker.proofreading import align
from worker.proofreading.clean import clean
from worker.proofreading.judge import distance, sounds, strays, words
from worker.proofreading.pieces import LENGTH, cut
from worker.proofreading.prompt import messages

RAW = (
    "сегодня мы поговорим о том как поставить кубер нетис на сервер и настроить постгрес кьюэл "
    "чтобы всё работало как надо и никто не жаловался на задержки в пятницу вечером когда все "
    "уже ушли домой и телефон разрядился"
)
FAIR = (
    "Сегодня мы поговорим о том, как поставить Kubernetes на сервер и настроить PostgreSQL, "
    "чтобы всё работало как надо и никто не жаловался на задержки в пятницу вечером, когда все "
    "уже ушли домой, и телефон разрядился."
)
TERMS = "Kubernetes, PostgreSQL, nginx"
some_words = st.lists(st.sampled_from(["а", "бе", "вэ", "гэ"]), max_size=12)
texts = st.text(st.sampled_from(list("абв .!?\n。")), max_size=200)


# Cutting


@given(texts, st.integers(min_value=1, max_value=40))
def test_the_pieces_are_the_text_and_none_is_too_long(text, length):
    pieces = cut(text, length)
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= length for piece in pieces)


@given(st.lists(st.integers(min_value=1, max_value=60), min_size=1, max_size=60))
def test_pieces_end_where_sentences_do(lengths):
    text = " ".join("я" * length + "." for length in lengths)
    pieces = cut(text, 130)  # so that a sentence ends in the second half of any piece
    assert all(piece.strip().endswith(".") for piece in pieces)
    assert [each for piece in pieces for each in piece.split()] == text.split()


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("да. " * 3 + "нет " * 9, "да. да. да."),  # a sentence before a word
        ("слово " * 9, "слово слово слово "),
        ("я" * 99, "я" * 20),
        ("今天天气很好。我们去公园玩。" * 3, "今天天气很好。我们去公园玩。"),
        ("он сказал «да.» и ушёл домой", "он сказал «да.»"),
        ("версия 3.14 вышла вчера днём", "версия 3.14 вышла "),  # no sentence's end in a number
    ],
)
def test_where_a_piece_ends(text, first):
    assert cut(text, 20)[0] == first


def test_a_text_without_any_border_takes_no_time():
    assert len(cut("я" * 1_000_000)) == -(-1_000_000 // LENGTH)


# Comparing


def plain_distance(one, other):
    """By the book, without any short cut."""
    row = list(range(len(other) + 1))
    for number, each in enumerate(one, 1):
        before, row = row, [number]
        for column, another in enumerate(other):
            row.append(min(before[column + 1] + 1, row[-1] + 1, before[column] + (each != another)))
    return row[-1]


@given(some_words, some_words)
def test_the_distance_is_the_books(one, other):
    assert distance(one, other) == plain_distance(one, other)


@given(some_words, some_words, st.integers(min_value=0, max_value=12))
def test_a_distance_beyond_the_most_is_not_counted_out(one, other, most):
    assert distance(one, other, most) == min(plain_distance(one, other), most + 1)


@given(some_words, some_words, some_words)
def test_the_distance_is_one(one, other, third):
    assert (distance(one, other) == 0) == (one == other)
    assert distance(one, other) == distance(other, one)
    assert distance(one, third) <= distance(one, other) + distance(other, third)
    assert abs(len(one) - len(other)) <= distance(one, other) <= max(len(one), len(other))


@given(st.text(max_size=80))
def test_a_text_never_strays_from_itself(text):
    assert strays(text, text) == ""


@given(
    st.lists(
        st.sampled_from(["мы", "уже", "почти", "дома", "kubernetes", "25"]), min_size=1, max_size=40
    ),
    st.lists(
        st.sampled_from([" ", ", ", ". ", " — ", "! ", "… «", "\n"]), min_size=40, max_size=40
    ),
    st.booleans(),
)
def test_punctuation_and_capitals_are_free(heard, marks, upper):
    corrected = "".join(
        (word.upper() if upper else word.capitalize()) + mark
        for word, mark in zip(heard, marks, strict=False)
    )
    assert strays(" ".join(heard), corrected) == ""


@given(some_words.filter(bool), st.integers(min_value=0), st.sampled_from(["не", "ёж", "zürich"]))
def test_a_short_text_keeps_every_word(heard, place, new):
    heard = heard[:4]
    place %= len(heard)
    raw = " ".join(heard)
    assert strays(raw, " ".join([*heard[:place], new, *heard[place + 1 :]])) != ""
    assert strays(raw, " ".join([*heard[:place], *heard[place + 1 :]])) != ""
    assert strays(raw, " ".join([*heard[:place], new, *heard[place:]])) != ""


@given(st.integers(min_value=5, max_value=120), st.data())
def test_more_than_a_fifth_of_other_words_is_too_much(length, data):
    heard = [f"слово{number}" for number in range(length)]
    middle = range(2, length - 2)  # the ends are judged apart
    changed = data.draw(st.sets(st.sampled_from(middle), max_size=length))
    new = [f"иное{n:02}" if n in changed else word for n, word in enumerate(heard)]
    reason = strays(" ".join(heard), " ".join(new))
    assert bool(reason) >= (len(changed) > 0.2 * length)
    if length >= 40 and len(changed) <= 5:
        assert reason == ""


@pytest.mark.parametrize(
    "answer",
    [
        "Извините, я не могу помочь с этим запросом.",
        "Sorry, I cannot help with that.",
        "",
        "...",
        # a translation
        "Today we will talk about how to install Kubernetes on a server and set up PostgreSQL so "
        "that everything works properly and nobody complains about delays on Friday evening when "
        "everybody has gone home and the phone is empty",
        "Сегодня мы поговорим о Kubernetes и PostgreSQL.",  # a summary
        FAIR + " " + FAIR,
        FAIR + " Если нужно что-то ещё, обращайтесь.",
        FAIR + " Готово.",
        "Исправленный текст: " + FAIR,
        "Конечно! " + FAIR,
        " ".join(FAIR.split()[::-1]),
        "Kubernetes, PostgreSQL, nginx. " * 8,
    ],
)
def test_what_is_no_correction_strays(answer):
    assert strays(RAW, clean(answer, RAW), TERMS) != ""


def test_a_fair_correction_does_not_stray():
    assert strays(RAW, FAIR, TERMS) == strays(RAW, FAIR, "") == ""


def test_few_words_can_be_too_much_of_a_text():
    raw = "а б в г д е ж з высокопревосходительство рентгеноэлектрокардиография"
    assert strays(raw, "а б в г д е ж з и к") == "length"
    assert strays("а б в г д е ж з и к", raw) == "length"


@pytest.mark.parametrize(
    ("raw", "corrected", "vocabulary", "fine"),
    [
        ("поставь кубер нетис", "Поставь Kubernetes.", TERMS, True),
        ("поставь кубер нетис", "Поставь Kubernetes.", "", False),  # nobody said that term
        ("поставь чайник", "Поставь Kubernetes.", TERMS, False),  # nor does it sound so
        ("привет как дела", "Privet, kak dela?", TERMS, False),  # the script is kept
        ("привет как дела", "Kubernetes PostgreSQL nginx", TERMS, False),
        ("да", "Нет.", "", False),
        ("я согласен", "Я не согласен.", "не", False),
        ("dont stop", "Don't stop!", "", True),
        ("все еще тут", "Всё ещё тут.", "", True),
        ("今天天气很好我们去公园玩", "今天天气很好，我们去公园玩。", "", True),
        ("今天天气很好我们去公园玩", "明日は雨が降るでしょう。", "", False),
    ],
)
def test_short_texts(raw, corrected, vocabulary, fine):
    assert (strays(raw, corrected, vocabulary) == "") == fine


@given(st.text(max_size=60))
def test_sounds_take_any_text(text):
    assert sounds(sounds(text)) is not None
    assert sounds("Нгинкс") == sounds("Nginx")


# Cleaning


@pytest.mark.parametrize(
    "answer",
    [
        FAIR,
        f"\n{FAIR}\n\n",
        f"```\n{FAIR}\n```",
        f"```text\n{FAIR}\n```",
        f"«{FAIR}»",
        f'"{FAIR}"',
        f"“{FAIR}”",
        f"**{FAIR}**",
        f"# Текст\n\n{FAIR}",
        f"> {FAIR}",
        f"<transcript>\n{FAIR}\n</transcript>",
        f"<think>\nOkay, the user wants\n{RAW}\n</think>\n\n{FAIR}",
        f"<think>Here I add punctuation.</think> {FAIR}",
        f"Вот исправленный текст:\n\n{FAIR}",
        f'Here is the corrected text:\n\n```\n"{FAIR}"\n```',
        f"{FAIR}\n\nНадеюсь, это поможет! Дайте знать, если нужно что-то ещё.",
        FAIR.replace("когда все", "\nкогда все"),
        FAIR.replace("Kubernetes", "`Kubernetes`").replace("PostgreSQL", "__PostgreSQL__"),
        f"\ufeff{FAIR}\x00\x07",
        FAIR.replace("как надо", "\ud800как надо"),
    ],
)
def test_what_models_put_around_a_text_is_taken_off(answer):
    cleaned = clean(answer, RAW)
    assert cleaned == FAIR
    assert strays(RAW, cleaned, TERMS) == ""


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        ("да и нет", "«Да» и «нет»"),  # not quoted as a whole
        ("«да» сказал он", "«Да», — сказал он."),
        ("snake_case и _x", "snake_case и _x"),
        ("a < b > c", "a < b > c"),
        ("2 * 2", "2 * 2"),
        ("первая\nвторая", "Первая.\nВторая."),
    ],
)
def test_what_belongs_to_a_text_stays(raw, answer):
    assert clean(answer, raw) == answer


@given(st.text(max_size=100), st.text(max_size=40))
@example("\ud800\x00", "")
def test_what_is_cleaned_can_always_be_sent_and_stored(answer, raw):
    cleaned = clean(answer, raw)
    assert "\x00" not in cleaned
    cleaned.encode()


# Times


def test_segments_keep_their_times_and_get_the_corrected_words():
    raw = [
        {"start": 0.0, "end": 2.0, "text": " поставь кубер нетис", "words": [{"word": "поставь"}]},
        {"start": 2.5, "end": 4.0, "text": "на сервер "},
        {"start": 4.0, "end": 5.0, "text": ""},
        {"start": 5.0, "end": 6.0, "text": "сегодня"},
    ]
    pairs = [
        ("поставь кубер нетис на ", "Поставь Kubernetes на "),
        ("сервер сегодня", "сервер — сегодня."),
    ]
    assert align.segments(raw, pairs) == [
        {"start": 0.0, "end": 2.0, "text": "Поставь Kubernetes"},
        {"start": 2.5, "end": 4.0, "text": "на сервер —"},
        {"start": 5.0, "end": 6.0, "text": "сегодня."},
    ]


def test_segments_keep_who_spoke_and_in_which_channel():
    raw = [
        {"start": 0.0, "end": 2.0, "text": "добрый день", "channel": 0, "speaker": "1"},
        {"start": 2.0, "end": 3.0, "text": "да слушаю", "channel": 1, "speaker": "2", "words": []},
        {"start": 3.0, "end": 4.0, "text": "это я", "channel": 0, "doubtful": True},
    ]
    pairs = [("добрый день да слушаю это я", "Добрый день! Да, слушаю. Это я.")]
    assert align.segments(raw, pairs) == [
        {"start": 0.0, "end": 2.0, "text": "Добрый день!", "channel": 0, "speaker": "1"},
        {"start": 2.0, "end": 3.0, "text": "Да, слушаю.", "channel": 1, "speaker": "2"},
        {"start": 3.0, "end": 4.0, "text": "Это я.", "channel": 0},
    ]


def test_segments_of_another_text_give_none():
    assert align.segments([{"text": "иное"}], [("поставь чайник", "Поставь чайник.")]) == []
    assert align.segments([], [("да", "Да.")]) == []


@given(st.lists(some_words, max_size=6), st.data())
def test_no_corrected_word_is_lost_or_moved(parts, data):
    """Whatever became of the text, its words are in the segments, in their order."""
    raw = [{"start": n, "end": n + 1, "text": " ".join(part)} for n, part in enumerate(parts)]
    text = " ".join(each["text"] for each in raw if each["text"])
    pieces = cut(text, 9)
    pairs = [(piece, " ".join(data.draw(some_words))) for piece in pieces]
    after = [word for _, new in pairs for word in new.split()]
    if any(len(piece.split()) != len(words(piece)) for piece in pieces) or not text:
        return
    before = [word for piece in pieces for word in piece.split()]
    found = align.segments(raw, pairs)
    if len(before) == len(text.split()):
        assert [word for each in found for word in each["text"].split()] == after
        assert [each["start"] for each in found] == sorted(each["start"] for each in found)
        assert all(each["text"] for each in found)


# The prompt


def test_the_prompt_names_the_terms_and_marks_the_text():
    system, user = messages("кубер нетис", " Kubernetes,\n nginx ")
    assert system["content"].endswith("spelt as they should be: Kubernetes, nginx")
    assert user == {"role": "user", "content": "<transcript>\nкубер нетис\n</transcript>"}
    assert "terms that may occur" not in messages("да", " \n")[0]["content"]
