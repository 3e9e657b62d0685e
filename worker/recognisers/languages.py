"""Languages as recognisers write them, by name or by code, and their ISO 639-1 codes."""

from __future__ import annotations

from typing import Final

NAMES: Final = {
    "af": "afrikaans", "am": "amharic", "ar": "arabic", "as": "assamese", "az": "azerbaijani",
    "ba": "bashkir", "be": "belarusian", "bg": "bulgarian", "bn": "bengali", "bo": "tibetan",
    "br": "breton", "bs": "bosnian", "ca": "catalan", "cs": "czech", "cy": "welsh", "da": "danish",
    "de": "german", "el": "greek", "en": "english", "es": "spanish", "et": "estonian",
    "eu": "basque", "fa": "persian", "fi": "finnish", "fo": "faroese", "fr": "french",
    "gl": "galician", "gu": "gujarati", "ha": "hausa", "haw": "hawaiian", "he": "hebrew",
    "hi": "hindi", "hr": "croatian", "ht": "haitian creole", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "is": "icelandic", "it": "italian", "ja": "japanese", "jv": "javanese",
    "ka": "georgian", "kk": "kazakh", "km": "khmer", "kn": "kannada", "ko": "korean", "la": "latin",
    "lb": "luxembourgish", "ln": "lingala", "lo": "lao", "lt": "lithuanian", "lv": "latvian",
    "mg": "malagasy", "mi": "maori", "mk": "macedonian", "ml": "malayalam", "mn": "mongolian",
    "mr": "marathi", "ms": "malay", "mt": "maltese", "my": "myanmar", "ne": "nepali", "nl": "dutch",
    "nn": "nynorsk", "no": "norwegian", "oc": "occitan", "pa": "punjabi", "pl": "polish",
    "ps": "pashto", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sa": "sanskrit",
    "sd": "sindhi", "si": "sinhala", "sk": "slovak", "sl": "slovenian", "sn": "shona",
    "so": "somali", "sq": "albanian", "sr": "serbian", "su": "sundanese", "sv": "swedish",
    "sw": "swahili", "ta": "tamil", "te": "telugu", "tg": "tajik", "th": "thai", "tk": "turkmen",
    "tl": "tagalog", "tr": "turkish", "tt": "tatar", "uk": "ukrainian", "ur": "urdu", "uz": "uzbek",
    "vi": "vietnamese", "yi": "yiddish", "yo": "yoruba", "yue": "cantonese", "zh": "chinese",
}  # fmt: skip
"""Code to name, as Whisper has them."""

_CODES: Final = {name: code for code, name in NAMES.items()} | {
    "burmese": "my", "castilian": "es", "flemish": "nl", "haitian": "ht", "letzeburgesch": "lb",
    "mandarin": "zh", "moldavian": "ro", "moldovan": "ro", "panjabi": "pa", "pushto": "ps",
    "sinhalese": "si", "valencian": "ca", "iw": "he", "jw": "jv",
}  # fmt: skip


def code(language: object) -> str:
    """The ISO code of a language given by name or code ("English", "en-US"), or empty."""
    if not isinstance(language, str):
        return ""
    name = language.strip().lower()
    short = name.replace("_", "-").partition("-")[0]
    return _CODES.get(name) or _CODES.get(short) or (short if short in NAMES else "")
