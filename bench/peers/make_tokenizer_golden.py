#!/usr/bin/env python3
"""Writes tests/golden/tokenizers: small vocabularies trained here, and encodings of texts by the Hugging Face library.

    pip install tokenizers==0.23.3 transformers==5.22.2 sentencepiece==0.2.2
    python bench/peers/make_tokenizer_golden.py

The folders are Hugging Face folders; <name>.jsonl holds one case per line: text (or words, or text and
second), options, and the expected ids, character offsets, type ids, windows and decoded text.
"""
import io
import json
import pathlib
import shutil

import sentencepiece
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import AlbertTokenizer, BertTokenizer, GPT2Tokenizer, RobertaTokenizer, T5Tokenizer

HERE = pathlib.Path(__file__).resolve().parents[2]
OUT = HERE / "tests" / "golden" / "tokenizers"
NASTY = [json.loads(line) for line in open(HERE / "tests" / "fixtures" / "nasty.jsonl")]
PLAIN = """The orchestra tuned before the audience arrived, and nobody noticed the missing violin.
She asked whether the trains were running; he answered that they hadn't been for weeks.
In 1987 the town's population was 12,340, roughly 3.5% more than in 1986.
A chorus of frogs sang by the river while the children were playing and singing along.
Clients never share their text: they share what a model has learnt from it.
"Don't touch that," said the engineer, "it's still running the experiment we've started."
Privacy is not secrecy; federated learning keeps data where it was written.
The quick brown fox jumps over the lazy dog, then the dog jumps over the fox.
Unbelievably, the naïve café owner résumé was accepted; crème brûlée followed.
Running runners ran; players played playful plays in playgrounds.
Wikipedia says the mountain is 4,478 metres high (14,692 feet).
Email me at someone@example.org or visit https://example.org/path?x=1.""".split("\n")
RULES = """D 20
A 20
9 20
A0 20
3000 20
200B
7
FB01 66 69
FF21 41
FF26 46
FF41 61
FF01 21
2460 31
2126 3A9
BD 31 2044 32
E9 65
C5 41
65 301 E9
61 308 E4
1F600 3A 29
"""


def wordpiece(folder, lowercase):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(PLAIN, trainer)
    vocab = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("".join(token + "\n" for token, _ in vocab))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"do_lower_case": lowercase, "tokenizer_class": "BertTokenizer", "model_max_length": 512})
    )
    return BertTokenizer(vocab=dict(vocab), do_lower_case=lowercase)


def bpe(folder, special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(PLAIN, trainer)
    tokenizer.model.save(str(folder))
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(m) for m in model["merges"]]


def unigram(folder, albert):
    rules = folder / "rules.tsv"
    rules.write_text("".join(line_to_rule(line) for line in RULES.splitlines()))
    model = io.BytesIO()
    special = dict(user_defined_symbols=["[CLS]", "[SEP]", "[MASK]"]) if albert else {}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(PLAIN * 4),
        model_writer=model,
        vocab_size=160,
        pad_id=0,
        eos_id=-1 if albert else 1,
        unk_id=1 if albert else 2,
        bos_id=-1,
        hard_vocab_limit=False,
        minloglevel=2,
        **(dict(normalization_rule_name="identity") if albert else dict(normalization_rule_tsv=str(rules))),
        **special,
    )
    rules.unlink()
    (folder / "spiece.model").write_bytes(model.getvalue())
    name = "AlbertTokenizer" if albert else "T5Tokenizer"
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name, "extra_ids": 100}))
    return (AlbertTokenizer if albert else T5Tokenizer).from_pretrained(folder)


def line_to_rule(line):
    """RULES has the source first: one code point, except for the two decomposed letters."""
    codes = line.split()
    size = 2 if codes[0] in ("65", "61") else 1
    return " ".join(codes[:size]) + "\t" + " ".join(codes[size:]) + "\n"


def case(tokenizer, row):
    backend = tokenizer._tokenizer
    backend.no_truncation()
    if "max_length" in row:
        backend.enable_truncation(
            row["max_length"], stride=row.get("stride", 0), strategy=row.get("truncation", "longest_first")
        )
    if "words" in row:
        encoding = backend.encode(row["words"], is_pretokenized=True)
        row["word_ids"] = [-1 if w is None else w for w in encoding.word_ids]
    else:
        encoding = backend.encode(row["text"], row.get("second"))
        row["decoded"] = backend.decode(encoding.ids)
    row |= {"ids": encoding.ids, "offsets": encoding.offsets, "type_ids": encoding.type_ids}
    if "max_length" in row:
        row["overflow"] = [window.ids for window in encoding.overflowing]
    return json.dumps(row) + "\n"


def rows():
    for text in NASTY + PLAIN:
        yield {"text": text}
    for first, second in zip(PLAIN, NASTY[15:] + PLAIN):
        yield {"text": first, "second": second}
        yield {"text": first, "second": second, "max_length": 24}
        yield {"text": first, "second": PLAIN[3], "max_length": 30, "stride": 2}
        yield {"text": "fox?", "second": first, "max_length": 20, "stride": 4, "truncation": "only_second"}
        yield {"text": first, "max_length": 12, "stride": 3, "truncation": "only_first"}
        yield {"words": first.split(" ")}
    yield {"words": ["", "a", " b", "c d", "[MASK]", "<mask>", "é", "\u200b", "x"]}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    for name in ("bert", "bert-cased", "gpt2", "roberta", "t5", "albert"):
        folder = OUT / name
        folder.mkdir(parents=True)
        if name.startswith("bert"):
            tokenizer = wordpiece(folder, name == "bert")
        elif name == "gpt2":
            vocab, merges = bpe(folder, ["<|endoftext|>"])
            tokenizer = GPT2Tokenizer(vocab=vocab, merges=merges)
            (folder / "config.json").write_text('{"model_type": "gpt2"}')
        elif name == "roberta":
            vocab, merges = bpe(folder, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
            tokenizer = RobertaTokenizer(vocab=vocab, merges=merges, add_prefix_space=True)
            for file in folder.iterdir():
                file.unlink()
            backend = json.loads(tokenizer._tokenizer.to_str())
            for token in backend["added_tokens"]:
                token["lstrip"] = token["content"] == "<mask>"
            (folder / "tokenizer.json").write_text(json.dumps(backend))
            tokenizer._tokenizer = Tokenizer.from_str(json.dumps(backend))
        else:
            tokenizer = unigram(folder, name == "albert")
        with open(OUT / f"{name}.jsonl", "w") as out:
            out.writelines(case(tokenizer, row) for row in rows())
        print(name, len(tokenizer))


if __name__ == "__main__":
    main()
