#!/usr/bin/env python3
"""Writes text_parts.json: the output of the parts of the Hugging Face tokenizers library for unusual texts.

    pip install tokenizers && tests/golden/make_text_parts.py > tests/golden/text_parts.json
"""
import json
import random

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

TEXTS = [
    "", " ", "a", "Hello, World!", "  two  spaces ", "tab\tand\nline\r\nend", "don't can't we'll they're I'd I've I'm",
    "ÀÉÎõü ß İstanbul ŞĞı", "e\u0301 a\u0308\u0301 q\u0307\u0323", "ﬁ ﬂ ① ½ ™ Ⅷ ﷺ", "中文 and 日本語 한국어", "русский Ёлка Й",
    "emoji 😀👩‍👩‍👧 🇩🇪", "zero\u200bwidth\u200djoin", "nbsp\u00a0em\u2003ideographic\u3000", "x\u0000y\ufffdz\u007f",
    "1234 56.78 ²³ ٣٤", "a_b-c/d\\e@f#g", "¿qué? «sí» „ja“ …", "'s 't '", "   leading", "trailing   ", "a  b   c    d",
    "\u2581meta \u2581\u2581x", "ΟΔΥΣΣΕΥΣ ΣΑΣ", "ǅ ǆ Ǆ", "हिन्दी தமிழ் עִבְרִית العربية", "`quoted` ~tilde^caret|pipe",
    "\u0378unassigned\ue000private", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚", "mixed123abc 4x4", "###a##b", "\u1e9b\u0323 Å Ω",
]


def normalized():
    steps = {
        "bert": normalizers.BertNormalizer(),
        "bert_cased": normalizers.BertNormalizer(lowercase=False),
        "bert_accents": normalizers.BertNormalizer(strip_accents=False),
        "bert_cased_stripped": normalizers.BertNormalizer(lowercase=False, strip_accents=True),
        "bert_raw": normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, lowercase=False),
        "lowercase": normalizers.Lowercase(), "nfd": normalizers.NFD(), "nfkd": normalizers.NFKD(),
        "strip_accents": normalizers.StripAccents(), "strip": normalizers.Strip(),
        "strip_left": normalizers.Strip(left=True, right=False), "replace": normalizers.Replace("an", "--é"),
        "prepend": normalizers.Prepend("▁"),
        "albert": normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]),
    }
    return [{"step": name, "text": text, "out": step.normalize_str(text)} for name, step in steps.items()
            for text in TEXTS]


def split():
    steps = {
        "bert": pre_tokenizers.BertPreTokenizer(), "white_space": pre_tokenizers.WhitespaceSplit(),
        "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False), "gpt2_prefix": pre_tokenizers.ByteLevel(add_prefix_space=True),
        "gpt2_whole": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        "meta": pre_tokenizers.Metaspace(), "meta_never": pre_tokenizers.Metaspace(prepend_scheme="never"),
        "meta_whole": pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
    }
    return [{"step": name, "text": text, "words": [[word, *span] for word, span in step.pre_tokenize_str(text)]}
            for name, step in steps.items() for text in TEXTS]


def joined():
    cases = {
        "wordpiece": (decoders.WordPiece(), [["play", "##ing", "!"], ["##ing", "a"], ["do", "not", "n", "'", "t"],
                                             ["it", "'", "s", ",", "fine", "."], ["a", "'s", "'re", "n't", "?"], [], [""]]),
        "wordpiece_raw": (decoders.WordPiece(prefix="@@", cleanup=False), [["a", "@@b", "c", "."], ["@@a", "##b"]]),
        "bytes": (decoders.ByteLevel(), [["Hello", "Ġworld"], ["Ã", "©"], ["Ã"], ["é", "中"], ["Ċ", "ĉ"], []]),
        "meta": (decoders.Metaspace(), [["▁the", "▁cat", "s"], ["the", "▁▁x"], ["▁"], []]),
        "meta_never": (decoders.Metaspace(prepend_scheme="never"), [["▁the", "▁cat"]]),
    }
    return [{"decoder": name, "tokens": tokens, "out": decoder.decode(tokens)} for name, (decoder, lists) in cases.items()
            for tokens in lists]


def cut():
    random.seed(7)
    result = []

    def add(kind, settings, model, words):
        cases = [[word, [token.id for token in model.tokenize(word)]] for word in words]
        result.append({"model": kind, **settings, "cases": cases})

    words = ["unaffable", "un", "u", "affa", "ffable", "x", "unx", "ünaffable", "中un", "naffle" * 5, "##able", "able"]
    vocab = ["[UNK]", "un", "##aff", "##able", "##a", "aff", "##ff", "able", "ü", "##n", "##un", "u", "a", "##able##"]
    for longest in (100, 6):
        settings = {"tokens": vocab, "max_word": longest}
        add("wordpiece", settings, models.WordPiece({t: i for i, t in enumerate(vocab)}, unk_token="[UNK]",
                                                    max_input_chars_per_word=longest), words)

    letters = ["<unk>", "a", "b", "c", "d", "ab", "bc", "abc", "cd", "abcd", "aa", "é"]
    merges = [("a", "b"), ("b", "c"), ("c", "d"), ("ab", "c"), ("ab", "cd"), ("a", "a")]
    fallback = letters + [f"<0x{byte:02X}>" for byte in range(256)]
    random_words = ["".join(random.choice("aabbcd") for _ in range(random.randint(1, 12))) for _ in range(30)]
    odd = ["xyz", "axxb", "é", "aéé", "中", "abé😀c", "abcd"]
    for flags in ({}, {"fuse_unk": True}, {"ignore_merges": True}, {"byte_fallback": True}):
        tokens = fallback if flags.get("byte_fallback") else letters
        model = models.BPE({t: i for i, t in enumerate(tokens)}, merges, unk_token="<unk>", **flags)
        add("bpe", {"tokens": tokens, "merges": [list(m) for m in merges], **flags}, model,
            (random_words if not flags else random_words[:5]) + odd)

    pieces = [("<unk>", 0.0), ("a", -2.0), ("b", -2.5), ("c", -3.0), ("ab", -3.5), ("bc", -4.0), ("abc", -6.0), ("ca", -5.5),
              ("é", -4.0), ("▁", -1.5), ("▁a", -2.25)]
    add("unigram", {"tokens": [p for p, _ in pieces], "scores": [s for _, s in pieces]}, models.Unigram(pieces, 0, False),
        random_words + ["▁abc", "xaby", "éé", "xyz", "a中b"])
    bytes_too = pieces + [(f"<0x{byte:02X}>", -10.0) for byte in range(256)]
    add("unigram", {"tokens": [p for p, _ in bytes_too], "scores": [s for _, s in bytes_too], "byte_fallback": True},
        models.Unigram(bytes_too, 0, True), ["▁abc", "xab", "a中b", "éx"])
    return result


def truncated():
    """Lengths and windows of truncate_encodings, by encoding texts of as many one-letter words."""
    tokenizer = tokenizers.Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    result = []
    for strategy in ("longest_first", "only_first", "only_second"):
        for limit in (1, 2, 3, 5, 8):
            for stride in (0, 1, 2):
                for first, second in ((0, 0), (3, 0), (9, 0), (4, 4), (10, 2), (2, 10), (7, 8), (1, 9)):
                    case = {"strategy": strategy, "limit": limit, "stride": stride, "first": first, "second": second}
                    try:
                        tokenizer.enable_truncation(limit, stride=stride, strategy=strategy)
                        pair = ["a " * second] if second else []
                        encoding = tokenizer.encode("a " * first, *pair, add_special_tokens=False)
                        case["lengths"] = [sum(s == i for s in encoding.sequence_ids) for i in (0, 1)]
                    except BaseException:  # noqa: BLE001: also pyo3's PanicException
                        case["lengths"] = None
                    result.append(case)
    return result


if __name__ == "__main__":
    parts = {"version": tokenizers.__version__, "normalized": normalized(), "split": split(), "joined": joined(),
             "cut": cut(), "truncated": truncated()}
    print("{" + ",\n".join(f'"{name}": ' + (json.dumps(part) if isinstance(part, str) else
                                            "[" + ",\n".join(map(json.dumps, part)) + "]")
                           for name, part in parts.items()) + "}")
