#!/usr/bin/env python3
"""Writes code_points.json: digests of the Hugging Face tokenizers library's output for "ab<c>cd", for every code point c
except U+0000 and the surrogates.

    pip install tokenizers==0.23.3 transformers==5.22.2 sentencepiece protobuf
    tests/golden/make_code_points.py > tests/golden/code_points.json

One CRC-32 for each block of 16384 code points: of the normalized text, of the words with their offsets, or of the token
ids. The ids are those of the vocabularies in ../shared/data/vocab."""
import json
import pathlib
import struct
import zlib

from tokenizers import normalizers, pre_tokenizers
from transformers import AlbertTokenizer, BertTokenizer, GPT2Tokenizer, T5Tokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = 16384

NORMALIZERS = {
    "bert": normalizers.BertNormalizer(),
    "bert_cased": normalizers.BertNormalizer(lowercase=False),
    "bert_accents": normalizers.BertNormalizer(strip_accents=False),
    "lowercase": normalizers.Lowercase(), "nfd": normalizers.NFD(), "nfkd": normalizers.NFKD(),
    "strip_accents": normalizers.StripAccents(),
}
SPLITTERS = {
    "bert": pre_tokenizers.BertPreTokenizer(), "white_space": pre_tokenizers.WhitespaceSplit(),
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False), "meta": pre_tokenizers.Metaspace(),
}
VOCABULARIES = {"bert-base-uncased": BertTokenizer, "gpt2": GPT2Tokenizer, "t5": T5Tokenizer, "albert": AlbertTokenizer}


def texts(block):
    for code in range(block * BLOCK, (block + 1) * BLOCK):
        if code and not 0xD800 <= code < 0xE000:
            yield f"ab{chr(code)}cd"


def digests(of):
    result = []
    for block in range(0x110000 // BLOCK):
        crc = 0
        for part in of(list(texts(block))):
            crc = zlib.crc32(part, crc)
        result.append(crc)
    return result


def words(splitter, text):
    return b"".join(f"{word}\x1f{begin}\x1f{end}\x1e".encode() for word, (begin, end) in splitter.pre_tokenize_str(text))


def ids(tokenizer, lines):
    for encoding in tokenizer._tokenizer.encode_batch(lines):
        yield struct.pack(f"<i{len(encoding.ids)}i", len(encoding.ids), *encoding.ids)


def main():
    out = {
        "normalized": {n: digests(lambda lines: (s.normalize_str(t).encode() + b"\x1e" for t in lines))
                       for n, s in NORMALIZERS.items()},
        "split": {n: digests(lambda lines: (words(s, t) for t in lines)) for n, s in SPLITTERS.items()},
        "ids": {},
    }
    for name, kind in VOCABULARIES.items():
        tokenizer = kind.from_pretrained(ROOT.parent / "shared" / "data" / "vocab" / name)
        tokenizer._tokenizer.no_truncation()
        tokenizer._tokenizer.no_padding()
        out["ids"][name] = digests(lambda lines: ids(tokenizer, lines))
    print(json.dumps(out).replace("], ", "],\n"))


if __name__ == "__main__":
    main()
