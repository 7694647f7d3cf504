#!/usr/bin/env python3
"""Compares Chorus's tokenizers with the Hugging Face `tokenizers` library: ids, offsets and speed.

    python bench/peers/tokenizers_compare.py --data ../shared/data --chorus build/chorus

Compares bert-base-uncased, gpt2 and t5 (vocabularies in DATA/vocab) on at least 50,000 real lines and on
tests/fixtures/nasty.jsonl, then measures both on one core in the same run: Chorus through `tokenize --count` (ids,
offsets and type ids, nothing printed), the library through encode_batch with one thread. Needs only `tokenizers`.
Exits 1 on a difference, or when Chorus is less than twice as fast. --only gpt2 compares that one.
"""
import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors


def protobuf(data):
    """(field, value) of one message: varints as int, everything else as bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at : at + size]
        at += size


def peer_bert(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def peer_gpt2(folder):
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False)])
    return tokenizer


def peer_t5(folder):
    """As transformers builds T5Tokenizer from a spiece.model."""
    pieces, charsmap = [], b""
    for field, value in protobuf((folder / "spiece.model").read_bytes()):
        if field == 1:
            piece = dict(protobuf(value))
            pieces.append((piece[1].decode(), struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0))
        if field == 3:
            charsmap = dict(protobuf(value)).get(2, b"")
    pieces += [(f"<extra_id_{i}>", 0.0) for i in range(99, -1, -1)]
    tokenizer = Tokenizer(models.Unigram(pieces, 2, False))
    tokenizer.normalizer = normalizers.Precompiled(charsmap)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("\u2581", "always", True)]
    )
    special = ["<pad>", "</s>", "<unk>"] + [f"<extra_id_{i}>" for i in range(100)]
    tokenizer.add_special_tokens([AddedToken(s, normalized=False) for s in special])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", "</s>"], pair=["$A", "</s>", "$B", "</s>"], special_tokens=[("</s>", 1)]
    )
    return tokenizer


PEERS = {"bert-base-uncased": peer_bert, "gpt2": peer_gpt2, "t5": peer_t5}
SOURCES = ["irc", "20news", "shakespeare", "glue", "imdb", "agnews", "xlsum_title", "scitldr", "covid_qa", "squad"]


def real_lines(data, wanted):
    """Lines of every source in turn, so that no kind of text dominates the sample."""
    import gzip

    lines = []
    share = wanted // len(SOURCES) + 1
    rest = []
    for source in SOURCES:
        mine = []
        for file in sorted((data / source).rglob("*")):
            if not file.is_file() or file.suffix in (".h5", ".md", ".bin", ".npy", ".zip"):
                continue
            opener = gzip.open if file.suffix == ".gz" else open
            with opener(file, "rt", encoding="utf-8", errors="replace", newline="\n") as stream:
                for line in stream:
                    line = line.rstrip("\n")
                    if 0 < len(line) < 20000:
                        mine.append(line)
                    if len(mine) >= 4 * share:
                        break
            if len(mine) >= 4 * share:
                break
        lines += mine[:share]
        rest += mine[share:]
    return lines + rest[: max(0, wanted - len(lines))]


def chorus_json(program, folder, lines):
    with tempfile.TemporaryFile("w+") as stdin, tempfile.TemporaryFile("w+") as stdout:
        stdin.writelines(json.dumps(line) + "\n" for line in lines)
        stdin.seek(0)
        command = [program, "tokenize", "--tokenizer", str(folder), "--json", "--json-input"]
        subprocess.run(command, stdin=stdin, stdout=stdout, check=True)
        stdout.seek(0)
        return [json.loads(line) for line in stdout]


def chorus_seconds(program, folder, lines):
    command = [program, "tokenize", "--tokenizer", str(folder), "--json-input", "--count", "--json"]
    if hasattr(os, "sched_setaffinity"):
        command = ["taskset", "-c", str(min(os.sched_getaffinity(0)))] + command
    with tempfile.TemporaryFile("w+") as stdin:
        stdin.writelines(json.dumps(line) + "\n" for line in lines)
        stdin.seek(0)
        answer = json.loads(subprocess.run(command, stdin=stdin, capture_output=True, check=True, text=True).stdout)
    return answer["seconds"], answer["ids_only_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("../shared/data"))
    parser.add_argument("--chorus", default="build/chorus")
    parser.add_argument("--lines", type=int, default=60000)
    parser.add_argument("--repeat", type=int, default=3, help="best of this many measurements")
    parser.add_argument("--only", choices=list(PEERS), action="append", metavar="NAME", help=f"one of {', '.join(PEERS)}")
    args = parser.parse_args()

    nasty = [json.loads(line) for line in open("tests/fixtures/nasty.jsonl")]
    lines = real_lines(args.data, args.lines)
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    print(f"{len(lines)} real lines ({megabytes:.1f} MB), {len(nasty)} nasty ones")
    failed = len(lines) < min(args.lines, 50000)
    for name in args.only or PEERS:
        folder = args.data / "vocab" / name
        peer = PEERS[name](folder)
        wrong = 0
        texts = lines + nasty
        for text, mine in zip(texts, chorus_json(args.chorus, folder, texts), strict=True):
            theirs = peer.encode(text)
            if mine["ids"] == theirs.ids and mine["offsets"] == [list(o) for o in theirs.offsets]:
                if mine["type_ids"] == theirs.type_ids:
                    continue
            wrong += 1
            if wrong <= 5:
                print(f"{name}: differs on {text!r:.300}")
                print("   chorus", list(zip(mine["ids"], mine["offsets"]))[:60])
                print("   peer  ", list(zip(theirs.ids, theirs.offsets))[:60])
        times = []
        for _ in range(args.repeat):
            start = time.perf_counter()
            for at in range(0, len(lines), 1000):
                peer.encode_batch(lines[at : at + 1000])
            times.append((time.perf_counter() - start, *chorus_seconds(args.chorus, folder, lines)))
        theirs, mine, ids_only = (min(column) for column in zip(*times))
        print(
            f"{name:18} {wrong} differences; tokenizers {megabytes / theirs:6.1f} MB/s, chorus {megabytes / mine:6.1f} MB/s"
            f" ({theirs / mine:.1f}x), ids only {megabytes / ids_only:6.1f} MB/s ({theirs / ids_only:.1f}x)"
        )
        failed |= wrong > 0 or theirs / mine < 2
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
