#!/usr/bin/env python3
"""Measures the difficulty of the generated corpora with simple models.

    pip install scikit-learn
    for f in text_classification pair_classification pair_regression seq_tagging span_extraction seq2seq language_model; do
      chorus data make --formulation $f --examples 4000 --seed 1 --out DIR/$f.jsonl; done
    python3 bench/peers/synthetic_difficulty.py DIR

Train on the first 2,000 examples, test on the next 500. Needs scikit-learn; not part of the build or the tests.
"""
import collections
import json
import math
import os
import re
import sys

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

FOLDER = sys.argv[1]
TRAIN, TEST = 2000, 500


def load(name):
    with open(os.path.join(FOLDER, name + ".jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def split(rows):
    return rows[:TRAIN], rows[TRAIN:TRAIN + TEST]


def words(text):
    return re.findall(r"\w+", text.lower())


def classification():
    train, test = split(load("text_classification"))
    model = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10, max_iter=1000))
    model.fit([r["text"] for r in train], [r["label"] for r in train])
    score = model.score([r["text"] for r in test], [r["label"] for r in test])
    counts = collections.Counter(r["label"] for r in train)
    print(f"text_classification  tf-idf + logistic regression {score:.3f}  ({len(counts)} labels, "
          f"{min(counts.values())} to {max(counts.values())} each)")


def compare(row):
    a, b = words(row["text"]), words(row["second"])
    sa, sb = set(a), set(b)
    passive = lambda w: "was" in w
    order = lambda w: [x for x in w if x not in ("the", "was", "by", "in", "on", "at")]
    oa, ob = order(a), order(b)
    first = [ob.index(x) / max(len(ob), 1) if x in ob else -1 for x in oa[:6]] + [-2] * 6
    negative = lambda s: bool(s & {"not", "never", "failed"})
    return [len(sa & sb), len(sa - sb), len(sb - sa), len(a), len(b), passive(a), passive(b), passive(a) != passive(b),
            negative(sa), negative(sb), negative(sa) != negative(sb)] + first[:6]


def pairs():
    train, test = split(load("pair_classification"))
    bag = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10, max_iter=1000))
    join = lambda rows: [r["text"] + " " + r["second"] for r in rows]
    labels = lambda rows: [r["label"] for r in rows]
    bag.fit(join(train), labels(train))
    hypothesis = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10, max_iter=1000))
    hypothesis.fit([r["second"] for r in train], labels(train))
    boosted = GradientBoostingClassifier(random_state=0).fit([compare(r) for r in train], labels(train))
    print(f"pair_classification  bag of both {bag.score(join(test), labels(test)):.3f}  second only "
          f"{hypothesis.score([r['second'] for r in test], labels(test)):.3f}  comparison features "
          f"{boosted.score([compare(r) for r in test], labels(test)):.3f}")
    train, test = split(load("pair_regression"))
    scores = lambda rows: np.array([r["score"] for r in rows])
    ridge = make_pipeline(TfidfVectorizer(), Ridge()).fit(join(train), scores(train))
    boosted = GradientBoostingRegressor(random_state=0).fit([compare(r) for r in train], scores(train))
    pearson = lambda p: np.corrcoef(p, scores(test))[0, 1]
    print(f"pair_regression      Pearson: bag of both {pearson(ridge.predict(join(test))):.3f}  comparison features "
          f"{pearson(boosted.predict([compare(r) for r in test])):.3f}  (scores: mean {scores(train).mean():.2f}, "
          f"deviation {scores(train).std():.2f})")


def spans(tags):
    found, start, kind = set(), None, None
    for i, tag in enumerate(list(tags) + ["O"]):
        if start is not None and not (tag.startswith("I-") and tag[2:] == kind):
            found.add((start, i, kind))
            start = None
        if tag.startswith("B-") or (tag.startswith("I-") and start is None):
            start, kind = i, tag[2:]
    return found


def tagging():
    train, test = split(load("seq_tagging"))

    def features(row, i, previous):
        f = {"bias": 1, "prev_tag": previous}
        for d in (-2, -1, 0, 1, 2):
            w = row["words"][i + d] if 0 <= i + d < len(row["words"]) else "<>"
            f[f"w{d}={w.lower()}"] = 1
        w = row["words"][i]
        f.update(title=w.istitle(), upper=w.isupper(), digit=w.isdigit(), suffix=w[-3:].lower(), first=i == 0)
        return f

    x = [features(r, i, r["tags"][i - 1] if i else "") for r in train for i in range(len(r["words"]))]
    y = [t for r in train for t in r["tags"]]
    vectors = DictVectorizer()
    model = LogisticRegression(C=3, max_iter=400).fit(vectors.fit_transform(x), y)
    right = found = gold = 0
    memory = collections.defaultdict(collections.Counter)
    for r in train:
        for w, t in zip(r["words"], r["tags"]):
            memory[w.lower()][t] += 1
    right_memory = found_memory = 0
    for r in test:
        tags = []
        for i in range(len(r["words"])):
            tags.append(model.predict(vectors.transform([features(r, i, tags[-1] if tags else "")]))[0])
        known = [memory[w.lower()].most_common(1)[0][0] if w.lower() in memory else "O" for w in r["words"]]
        g, p, m = spans(r["tags"]), spans(tags), spans(known)
        right, found, gold = right + len(g & p), found + len(p), gold + len(g)
        right_memory, found_memory = right_memory + len(g & m), found_memory + len(m)
    print(f"seq_tagging          context window F1 {2 * right / (found + gold):.3f}  most frequent tag of the word F1 "
          f"{2 * right_memory / (found_memory + gold):.3f}")


def questions():
    rows = load("span_extraction")
    train, test = split(rows)
    sentence = lambda text: [m.span() for m in re.finditer(r"[^.]+(?:\.|$)", text)]
    which = collections.Counter()
    for r in train:
        which[[i for i, (b, e) in enumerate(sentence(r["context"])) if b <= r["answers"][0]["answer_start"] < e][0]] += 1
    usual = which.most_common(1)[0][0]
    by_position = by_overlap = typed = 0.0
    stop = set("the a an of in to is was does did what who which where when how for with".split())
    for r in test:
        text, answer = r["context"], r["answers"][0]
        assert text[answer["answer_start"]:answer["answer_start"] + len(answer["text"])] == answer["text"]
        places = sentence(text)
        asked = set(words(r["question"])) - stop

        def candidates(k):
            b, e = places[k]
            found = [m.group() for m in re.finditer(r"[£€]\d+|\d+|(?:[A-Z]\w+ ?)+|\b(?:\w+ \w+)(?=\.)", text[b:e])]
            return [c.strip() for c in found if not set(words(c)) & asked] or [""]

        c = candidates(min(usual, len(places) - 1))
        by_position += sum(x == answer["text"] for x in c) / len(c)
        best = max(range(len(places)), key=lambda k: len(asked & set(words(text[slice(*places[k])]))))
        c = candidates(best)
        by_overlap += sum(x == answer["text"] for x in c) / len(c)
        q = r["question"].lower()
        if "year" in q or "when" in q:
            c = [x for x in c if re.fullmatch(r"(19|20)\d\d", x)] or c
        elif "money" in q or "price" in q or "pay?" in q:
            c = [x for x in c if x[:1] in "£€"] or c
        elif q.startswith("who"):
            c = [x for x in c if x.count(" ") == 1 and x[:1].isupper()] or c
        elif "where" in q or "town" in q:
            c = [x for x in c if x[:1].isupper() and " " not in x] or c
        typed += sum(x == answer["text"] for x in c) / len(c)
    n = len(test)
    print(f"span_extraction      usual sentence {by_position / n:.3f}  lexical overlap {by_overlap / n:.3f}  overlap and "
          f"answer type {typed / n:.3f}")


def rouge1(a, b):
    ca, cb = collections.Counter(words(a)), collections.Counter(words(b))
    hit = sum((ca & cb).values())
    return 2 * hit / max(1, sum(ca.values()) + sum(cb.values()))


def headlines():
    rows = load("seq2seq")[:TRAIN]
    lead = np.mean([rouge1(r["text"].split(". ")[0], r["target"]) for r in rows])
    ratio = np.mean([len(words(r["target"])) / len(words(r["text"])) for r in rows])
    novel = np.mean([np.mean([w not in set(words(r["text"])) for w in words(r["target"])]) for r in rows])
    print(f"seq2seq              first sentence as headline: ROUGE-1 {lead:.3f}; length ratio {ratio:.2f}; words not in "
          f"the article {novel:.2f}")


def language():
    rows = load("language_model")
    tokens = lambda r: re.findall(r"\w+|[^\w\s]+", r["text"].lower()) + ["</s>"]

    class Model:
        def __init__(self, rows):
            self.uni, self.bi = collections.Counter(), collections.defaultdict(collections.Counter)
            for r in rows:
                t = tokens(r)
                self.uni.update(t)
                for a, b in zip(["<s>"] + t, t):
                    self.bi[a][b] += 1
            self.total, self.size = sum(self.uni.values()), len(self.uni) + 1

        def perplexity(self, rows, order):
            loss = count = 0
            for r in rows:
                t = tokens(r)
                for a, b in zip(["<s>"] + t, t):
                    p = (self.uni[b] + 0.5) / (self.total + 0.5 * self.size)
                    if order == 2:
                        seen = sum(self.bi[a].values()) if a in self.bi else 0
                        p = (self.bi[a][b] + 10 * p) / (seen + 10) if seen else p
                    loss, count = loss - math.log(p), count + 1
            return math.exp(loss / max(count, 1))

    train, test = split(rows)
    model = Model(train)
    users = collections.defaultdict(list)
    for r in rows:
        users[r["client"]].append(r)
    top = [u for u, r in sorted(users.items(), key=lambda x: -len(x[1]))[:8]]
    own = [(Model(users[u][::2]).perplexity(users[u][1::2], 1), model.perplexity(users[u][1::2], 1)) for u in top]
    rows.sort(key=lambda r: r["time"])
    third = len(rows) // 3
    early = Model(rows[:third:2])
    sizes = sorted(len(r) for r in users.values())
    print(f"language_model       perplexity: unigram {model.perplexity(test, 1):.0f}  bigram {model.perplexity(test, 2):.0f}; "
          f"trained on the first four months, bigram: tested on them {early.perplexity(rows[1:third:2], 2):.0f}, on the "
          f"last four {early.perplexity(rows[-third:], 2):.0f}\n                     largest users, own / common unigram: "
          + ", ".join(f"{a:.0f}/{b:.0f}" for a, b in own)
          + f"; messages a user: {sizes[0]} to {sizes[-1]} ({len(sizes)} users)")


for part in (classification, pairs, tagging, questions, headlines, language):
    part()
