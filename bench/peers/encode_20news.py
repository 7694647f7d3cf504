#!/usr/bin/env python3
"""Reads and tokenizes 20 Newsgroups with the Hugging Face tokenizers library and with `chorus data encode`.

    taskset -c 0 python3 bench/peers/encode_20news.py --chorus build/chorus \
        --data ../shared/data/20news --tokenizer ../shared/data/vocab/bert-base-uncased

Both sides get one core and one thread, read the same gzipped JSON lines and truncate to the same length; the number
of ids must be equal. The times exclude the process start (imports, dynamic linking): reading the files, loading the
tokenizer, tokenizing. `cpu` is CPU time, which a busy machine does not change; that of Chorus includes the start of its
process. Needs: pip install tokenizers.
"""
import argparse
import glob
import gzip
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

from tokenizers import BertWordPieceTokenizer, Tokenizer  # noqa: E402


def load(folder):
    path = os.path.join(folder, "tokenizer.json")
    if os.path.exists(path):
        return Tokenizer.from_file(path)
    return BertWordPieceTokenizer(os.path.join(folder, "vocab.txt"), lowercase=True)


def python_side(data, folder, length):
    begin, cpu = time.perf_counter(), time.process_time()
    texts, labels = [], []
    for path in sorted(glob.glob(os.path.join(data, "*.jsonl.gz"))):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                texts.append(record["text"])
                labels.append(record["label"])
    # Chorus leaves out examples without text.
    texts = [text for text in texts if text.strip()]
    read = time.perf_counter()
    tokenizer = load(folder)
    tokenizer.no_padding()
    tokenizer.enable_truncation(length)
    loaded = time.perf_counter()
    tokens = 0
    for at in range(0, len(texts), 1000):
        tokens += sum(len(e.ids) for e in tokenizer.encode_batch(texts[at:at + 1000]))
    end = time.perf_counter()
    return {"examples": len(texts), "tokens": tokens, "read": read - begin, "tokenizer": loaded - read,
            "encode": end - loaded, "all": end - begin, "cpu": time.process_time() - cpu}


def chorus_side(program, data, folder, length, cache):
    paths = sorted(glob.glob(os.path.join(data, "*.jsonl.gz")))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([program, "data", "encode", "--data", *paths, "--tokenizer", folder, "--max-length", str(length),
                           "--cache", cache, "--threads", "1", "--json"], check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    report = json.loads(done.stdout)
    splits = report["splits"].values()
    return {"examples": sum(s["examples"] for s in splits), "tokens": sum(s["tokens"] for s in splits),
            "cached": all(s["from_cache"] for s in splits), "cpu": cpu, **report["seconds"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chorus", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    peers, fresh, cached = [], [], []
    for _ in range(options.repeat):
        peers.append(python_side(options.data, options.tokenizer, options.max_length))
        with tempfile.TemporaryDirectory() as cache:
            side = (options.chorus, options.data, options.tokenizer, options.max_length, cache)
            fresh.append(chorus_side(*side))
            cached.append(chorus_side(*side))
    assert not any(run["cached"] for run in fresh) and all(run["cached"] for run in cached)
    for runs in (fresh, cached):
        for run in runs:
            assert (run["examples"], run["tokens"]) == (peers[0]["examples"], peers[0]["tokens"]), (run, peers[0])
    print(f"{peers[0]['examples']} examples, {peers[0]['tokens']} tokens; seconds, median of {options.repeat}")
    print(f"{'':24}{'read':>8}{'tokenizer':>11}{'encode':>8}{'all':>8}{'cpu':>8}")
    medians = {}
    for name, runs in (("Hugging Face tokenizers", peers), ("Chorus", fresh), ("Chorus, cached", cached)):
        medians[name] = {key: statistics.median(run[key] for run in runs) for key in ("read", "tokenizer", "encode", "all", "cpu")}
        row = medians[name]
        print(f"{name:24}{row['read']:8.2f}{row['tokenizer']:11.2f}{row['encode']:8.2f}{row['all']:8.2f}{row['cpu']:8.2f}")
    by_cpu = medians["Hugging Face tokenizers"]["cpu"] / medians["Chorus"]["cpu"]
    ratio = medians["Hugging Face tokenizers"]["all"] / medians["Chorus"]["all"]
    print(f"from scratch Chorus is {ratio:.2f} times as fast, by processor time {by_cpu:.2f} (wanted: 3); "
          f"from the cache it takes {medians['Chorus, cached']['all']:.2f} s (wanted: below 1)")


if __name__ == "__main__":
    main()
