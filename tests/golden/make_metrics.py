#!/usr/bin/env python3
"""Generates test cases for the metrics with values of the reference implementations, and compares Chorus with them.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install seqeval==1.2.2 rouge-score==0.1.2 nltk scikit-learn scipy transformers==4.44.2
    /tmp/venv/bin/pip install --no-deps allennlp==0.8.4 pycocoevalcap==1.2
    /tmp/venv/bin/python tests/golden/make_metrics.py golden                  # rewrites tests/golden/metrics.jsonl
    /tmp/venv/bin/python tests/golden/make_metrics.py compare BUILD [CASES]   # CASES (3000) of each kind, with
                                                                              # BUILD's metrics_test and chorus

References: scikit-learn, scipy.stats, seqeval, rouge-score (with nltk's stemmer), str.lower of this Python, the official
SQuAD v1.1 script (allennlp.tools.squad_eval is a copy of it), the official v2.0 functions
(transformers.data.metrics.squad_metrics), and for FedNLP's ROUGE-L pycocoevalcap, which has the code FedNLP uses.
None of them is reimplemented here.
"""
import importlib.util
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unicodedata
import warnings
from pathlib import Path

import numpy as np
from nltk.stem.porter import PorterStemmer
from rouge_score import rouge_scorer
from scipy import stats
from seqeval.metrics import accuracy_score as tag_accuracy
from seqeval.metrics import sequence_labeling as lenient
from seqeval.metrics import v1 as strict
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, Entities
from sklearn import metrics as sk
from transformers.data.metrics import squad_metrics as squad2

warnings.filterwarnings("ignore")


def load(package, path):
    """Loads a module from its file, because its package needs unrelated libraries."""
    root = Path(importlib.util.find_spec(package).submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location("reference_" + Path(path).stem, root / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


squad1 = load("allennlp", "tools/squad_eval.py")
coco = load("pycocoevalcap", "rouge/rouge.py")

STEMS = """happ run agree hop fil fall troubl siz conflat sk d l t sp th gener relat condition rat val hesit digit conform
radic differ vil analog vietnam predic oper feud decis hope call form sensit sens triplic electr good reviv allow infer
airlin gyroscop adjust defens irrit replac depend adopt homolog commun activ angular effect bowdler prob ceas control
roll archaeo geo theo philo syz enjo y boy bl at iz add mess buzz whal tan hiss fizz fail connect argu abs""".split()
ENDINGS = """ s es ed ing ies ied eed y ly ational tional enci anci izer bli abli alli entli eli ousli ization ation ator
alism iveness fulness ousness aliti iviti biliti fulli logi logy icate ative alize iciti ical ful ness al ance ence er ic
able ible ant ement ment ent ion sion tion ou ism ate iti ous ive ize e le ll l yed ying ss sses""".split() + [""]
WORDS = """the a an The A AN cat sat on mat dog. dog, it's isn't Paris France U.S. New-York 1999 3.14 $100 e-mail and of in
answer answers answering running runs ran nationally organization organizations quickly flies dying news""".split()
STRANGE = ["É", "éa", "naïve", "ÜBER", "straße", "İstanbul", "ΟΔΥΣΣΕΥΣ", "Σ", "ΣΑΣ.", "ΑΣ'", "\u212aelvin", "日本", "a日", "the本",
           "мир", "МИР", "ﬁ", "Ⅷ", "ⓐⓑ", "½", "x²", "_a_", "a_the", "the\u0301", "a\u200dn", "\u0301a", "😀", "an😀", "’the’",
           "“a”", "—", "the–a", "ａｎ", "Ǆ", "ǅ", "𝐀", "𐐀", "a\u00a0the", "\u2028", "\u0085", "\u001c", "\u3000the", "\t", "ª",
           "ªΣ", "Ⓐς", "AΣ\u00ad", "ΑΣ:Β", "ΑΣ·", "٣", "ไทย", "हिन्दी", "ß", "ẞ", "\u1e9e", "\u0130", "ı", "\x1f", "\x7f"]


def text(rng, most=12):
    kind = rng.random()
    if kind < 0.04:
        return ""
    if kind < 0.07:
        return rng.choice([" ", ".", "the", "a an", "\n", "'", "the.", "  the  ", "?!"])
    words = []
    for _ in range(rng.randint(1, most)):
        pick = rng.random()
        if pick < 0.55:
            words.append(rng.choice(WORDS))
        elif pick < 0.75:
            words.append(rng.choice(STEMS) + rng.choice(ENDINGS))
        elif pick < 0.95:
            words.append(rng.choice(STRANGE))
        else:
            words.append("".join(chr(rng.choice(CASED)) for _ in range(rng.randint(1, 4))))
    glue = rng.choice([" ", " ", " ", "  ", "\n", ", "])
    out = words[0]
    for word in words[1:]:
        out += (glue if rng.random() < 0.2 else " ") + word
    return out


def changed(rng, original, most=12):
    """A variation of the original, so that scores are neither 0 nor 1."""
    if rng.random() < 0.1:
        return original
    if rng.random() < 0.1:
        return text(rng, most)
    words = original.split(" ")
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(words) + 1)
        pick = rng.random()
        if pick < 0.4 and words:
            words.pop(min(at, len(words) - 1))
        elif pick < 0.7:
            words.insert(at, text(rng, 1))
        elif words:
            other = rng.randrange(len(words))
            at = min(at, len(words) - 1)
            words[at], words[other] = words[other], words[at]
    joined = " ".join(words)
    return joined.upper() if rng.random() < 0.1 else joined


CASED = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"
         and (chr(c).lower() != chr(c) or chr(c).upper() != chr(c))]


def number(value):
    value = float(value)
    return None if math.isnan(value) else value


def classification(rng):
    size = rng.choice([1, 2, 3, 10, 40])
    names = rng.choice([["0", "1"], ["1"], ["a", "b", "c"], ["é", "日", "B", "b", "10", "9"], [str(i) for i in range(20)]])
    true = [rng.choice(names) for _ in range(size)]
    pred = [t if rng.random() < rng.choice([0, 0.5, 0.9, 1]) else rng.choice(names) for t in true]
    expect = {"accuracy": sk.accuracy_score(true, pred), "matthews": sk.matthews_corrcoef(true, pred)}
    for average in "micro", "macro", "weighted":
        p, r, f, _ = sk.precision_recall_fscore_support(true, pred, average=average, zero_division=0)
        expect |= {average + "_precision": p, average + "_recall": r, average + "_f1": f}
    labels = sorted(set(true) | set(pred))
    for label, p, r, f, s in zip(labels, *sk.precision_recall_fscore_support(true, pred, labels=labels, zero_division=0)):
        expect |= {f"precision/{label}": p, f"recall/{label}": r, f"f1/{label}": f, f"support/{label}": s}
    case = {"predictions": pred, "references": true}
    if set(labels) <= {"0", "1"}:
        case["positive"] = "1"
        p, r, f, _ = sk.precision_recall_fscore_support(true, pred, pos_label="1", average="binary", zero_division=0)
        expect |= {"precision": p, "recall": r, "f1": f}
    return case | {"expect": {k: number(v) for k, v in expect.items()}}


def correlation(rng):
    size = rng.choice([2, 2, 3, 5, 20, 60])
    kind = rng.randrange(7)
    if kind == 0:
        x = [rng.gauss(0, 1) for _ in range(size)]
        y = [a + rng.gauss(0, 1) for a in x]
    elif kind == 1:  # ties
        x = [float(rng.randint(0, 3)) for _ in range(size)]
        y = [float(rng.randint(0, 5)) / 2 for _ in range(size)]
    elif kind == 2:  # constant
        x, y = [3.0] * size, [rng.random() for _ in range(size)]
    elif kind == 3:  # large offsets and scales
        x = [1e8 + rng.random() * 100 for _ in range(size)]
        y = [-1e200 * rng.random() for _ in range(size)]
    elif kind == 4:  # exact
        x = [float(i) for i in range(size)]
        y = [-2 * a + 1 for a in x]
    elif kind == 5:
        x = [round(rng.uniform(0, 5), 1) for _ in range(size)]
        y = [min(5, max(0, a + round(rng.gauss(0, 1), 1))) for a in x]
    else:
        x = [rng.gauss(0, 1) for _ in range(size)]
        y = [math.exp(5 * a) for a in x]
    return {"x": x, "y": y,
            "expect": {"pearson": number(stats.pearsonr(x, y)[0]), "spearman": number(stats.spearmanr(x, y)[0])}}


TYPES = ["PER", "LOC", "ORG", "é", "geo-loc", "_", "日本"]


def tags(rng, size, prefixes, types):
    row = []
    while len(row) < size:
        pick = rng.random()
        kind = rng.choice(types)
        if pick < 0.3:
            row.append("O")
        elif pick < 0.6:  # well-formed
            row += ["B-" + kind] + ["I-" + kind] * rng.randint(0, 3)
        elif pick < 0.64:
            row.append(rng.choice(prefixes))  # without a type
        elif pick < 0.67:
            row.append(rng.choice(["O-" + kind, "B--" + kind, "I-" + kind + "-", "B-", "I-"]))
        else:
            row.append(rng.choice(prefixes) + "-" + kind)
    return row[:size]


def spans(rng):
    scheme = rng.choice(["lenient", "lenient", "iob2"])
    prefixes = rng.choice(["BI", "BI", "BIES"] if scheme == "lenient" else ["BI"])
    types = rng.sample(TYPES, rng.randint(1, 4))
    true, pred = [], []
    for _ in range(rng.randint(1, 4)):
        size = rng.choice([0, 1, 2, 5, 12])
        row = tags(rng, size, prefixes, types)
        true.append(row)
        other = tags(rng, size, prefixes, types)
        keep = rng.choice([0, 0.5, 0.8, 1])
        pred.append([a if rng.random() < keep else b for a, b in zip(row, other)])
    expect = {}
    score = lenient.precision_recall_fscore_support if scheme == "lenient" else strict.precision_recall_fscore_support
    more = {} if scheme == "lenient" else {"scheme": IOB2}
    if scheme == "lenient":
        types = sorted({e[0] for e in get_entities(true)} | {e[0] for e in get_entities(pred)})
    else:
        types = sorted(Entities(true, IOB2).unique_tags | Entities(pred, IOB2).unique_tags)
    for average in "micro", "macro", "weighted":
        if types:  # seqeval's averages over no type at all are NaN or an error; ours are 0
            p, r, f, _ = score(true, pred, average=average, zero_division=0, **more)
            expect |= {average + "_precision": p, average + "_recall": r, average + "_f1": f}
    if types:
        for kind, p, r, f, s in zip(types, *score(true, pred, average=None, zero_division=0, **more)):
            expect |= {f"precision/{kind}": p, f"recall/{kind}": r, f"f1/{kind}": f, f"support/{kind}": s}
    if sum(map(len, true)):
        expect["accuracy"] = tag_accuracy(true, pred)
    return {"scheme": scheme, "predictions": pred, "references": true, "expect": {k: number(v) for k, v in expect.items()}}


def squad_v1(rng):
    golds = [text(rng, 6) for _ in range(rng.randint(1, 3))]
    pred = changed(rng, rng.choice(golds), 6)
    best = squad1.metric_max_over_ground_truths
    return {"prediction": pred, "golds": golds,
            "expect": {"exact_match": number(best(squad1.exact_match_score, pred, golds)),
                       "f1": number(best(squad1.f1_score, pred, golds)),
                       "normalized": squad1.normalize_answer(pred)}}


class Question:
    def __init__(self, golds):
        self.qas_id = "q"
        self.answers = [{"text": gold} for gold in golds]


def squad_v2(rng):
    golds = [text(rng, 6) for _ in range(rng.randint(0, 3))]
    pred = "" if rng.random() < 0.2 else changed(rng, rng.choice(golds or [""]), 6)
    result = squad2.squad_evaluate([Question(golds)], {"q": pred})
    kind = "has_answer" if golds else "no_answer"
    return {"prediction": pred, "golds": golds,
            "expect": {"exact_match": result["exact"] / 100, "f1": result["f1"] / 100,
                       kind + "_f1": result["HasAns_f1" if golds else "NoAns_f1"] / 100}}


KINDS = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
SCORERS = {stem: rouge_scorer.RougeScorer(KINDS, use_stemmer=stem) for stem in (False, True)}


def rouge(rng):
    stem = rng.random() < 0.5
    references = [text(rng, 25) for _ in range(1 if rng.random() < 0.8 else 3)]
    pred = changed(rng, rng.choice(references), 25)
    got = SCORERS[stem].score_multi(references, pred)
    return {"stem": stem, "prediction": pred, "references": references,
            "expect": {k: [float(got[k].precision), float(got[k].recall), float(got[k].fmeasure)] for k in KINDS}}


def fednlp_rouge(rng):
    references = [text(rng) for _ in range(1 if rng.random() < 0.8 else 2)]
    pred = changed(rng, rng.choice(references))
    return {"prediction": pred, "references": references, "expect": float(coco.Rouge().calc_score([pred], references))}


STEMMER = PorterStemmer()


def stem(rng):
    pick = rng.random()
    if pick < 0.6:
        word = rng.choice(STEMS) + rng.choice(ENDINGS)
    elif pick < 0.8:
        word = rng.choice(STEMS) + rng.choice(ENDINGS) + rng.choice(ENDINGS)
    elif pick < 0.95:
        word = "".join(rng.choice("aeiouylsz") if rng.random() < 0.6 else rng.choice("bcdfghkmnprtvwx9")
                       for _ in range(rng.randint(1, 9))) + rng.choice(ENDINGS)
    else:
        word = rng.choice("""sky skies dying lying tying news innings inning outings outing cannings canning howe proceed
            exceed succeed spied died dies flies enjoy yyyy y sayyy""".split())
    return {"word": word, "expect": STEMMER.stem(word)}


def lower(rng):
    if rng.random() < 0.5:
        value = text(rng)
    else:
        value = "".join(rng.choice(["Σ", "Α", "α", "'", ".", ":", "\u0301", "\u00ad", "ª", "Ⅷ", "ⓐ", "ʰ", " ", "1", "日",
                                    "\U0001f130", "\u2019", "İ"]) for _ in range(rng.randint(1, 6)))
    return {"text": value, "expect": value.lower()}


GENERATORS = {f.__name__: f for f in (classification, correlation, spans, squad_v1, squad_v2, rouge, fednlp_rouge, stem, lower)}


def cases(count, seed):
    for kind, generate in GENERATORS.items():
        rng = random.Random(f"{seed} {kind}")
        for _ in range(count):
            yield {"kind": kind} | generate(rng)


def write(path, items):
    with open(path, "w") as out:
        for item in items:
            out.write(json.dumps(item, separators=(",", ":")) + "\n")


def score(chorus, folder, task, *arguments):
    command = [chorus, "score", "--task", task, "--predictions", f"{folder}/p", "--json", *arguments]
    if task != "lm":
        command += ["--references", f"{folder}/r"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["scores"]


def compare_program(chorus, count):
    """Whole files through `chorus score`, against the references' corpus values."""
    rng = random.Random("files")
    wrong = total = 0

    def same(what, ours, theirs):
        nonlocal wrong, total
        total += 1
        if not math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9):
            wrong += 1
            print(f"  chorus score, {what}: {ours} is not {theirs}")

    with tempfile.TemporaryDirectory() as folder:
        p, r = Path(folder, "p"), Path(folder, "r")
        true = [rng.choice("abcde") for _ in range(count)]
        pred = [t if rng.random() < 0.6 else rng.choice("abcdef") for t in true]
        p.write_text("\n".join(pred) + "\n"), r.write_text("\r\n".join(true))
        got = score(chorus, folder, "classification")
        same("accuracy", got["accuracy"], sk.accuracy_score(true, pred))
        same("matthews", got["matthews"], sk.matthews_corrcoef(true, pred))
        same("macro F1", got["macro_f1"], sk.f1_score(true, pred, average="macro", zero_division=0))

        x = [rng.gauss(2, 1) for _ in range(count)]
        y = [round(a + rng.gauss(0, 1), 1) for a in x]
        p.write_text("".join(f"{a!r}\n" for a in x)), r.write_text("".join(f"{a!r}\n" for a in y))
        got = score(chorus, folder, "regression")
        same("pearson", got["pearson"], stats.pearsonr(x, y)[0])
        same("spearman", got["spearman"], stats.spearmanr(x, y)[0])

        true = [tags(rng, rng.randint(1, 20), "BI", TYPES[:4]) for _ in range(count)]
        pred = [[t if rng.random() < 0.8 else rng.choice(row) for t in row] for row in true]
        conll = lambda rows: "".join("".join(f"w{i}\t{t}\n" for i, t in enumerate(row)) + "\n" for row in rows)
        p.write_text(conll(pred)), r.write_text(conll(true))
        same("span F1", score(chorus, folder, "tagging")["f1"], lenient.f1_score(true, pred))
        same("strict span F1", score(chorus, folder, "tagging", "--strict")["f1"],
             lenient.f1_score(true, pred, mode="strict", scheme=IOB2))

        golds = {f"q{i}": [text(rng, 6) for _ in range(rng.randint(1, 3))] for i in range(count)}
        answers = {q: changed(rng, rng.choice(g), 6) for q, g in golds.items()}
        data = [{"paragraphs": [{"context": "", "qas": [
            {"id": q, "question": "?", "answers": [{"text": a, "answer_start": 0} for a in g]} for q, g in golds.items()]}]}]
        p.write_text(json.dumps(answers)), r.write_text(json.dumps({"version": "1.1", "data": data}, indent=1))
        got, official = score(chorus, folder, "qa"), squad1.evaluate(data, answers)
        same("exact match", 100 * got["exact_match"], official["exact_match"])
        same("answer F1", 100 * got["f1"], official["f1"])

        true = [text(rng, 25).replace("\n", " ").replace("\r", " ") for _ in range(count)]
        pred = [changed(rng, t, 25).replace("\n", " ").replace("\r", " ") for t in true]
        p.write_text("".join(t + "\n" for t in pred)), r.write_text("".join(t + "\n" for t in true))
        for stemmed in False, True:
            got = score(chorus, folder, "generation", *["--stem"] * stemmed)
            scores = [SCORERS[stemmed].score(t, s) for t, s in zip(true, pred)]
            for kind in KINDS:
                same(kind, got[kind], np.mean([s[kind].fmeasure for s in scores]))

        losses = [(rng.uniform(0, 200), rng.randint(1, 40)) for _ in range(count)]
        p.write_text("".join(f"{loss!r}\t{n}\n" for loss, n in losses))
        same("perplexity", score(chorus, folder, "lm")["perplexity"],
             math.exp(math.fsum(l for l, _ in losses) / sum(n for _, n in losses)))
    print(f"chorus score on files of {count} items: {total} values, {wrong} mismatches")
    return wrong


def main():
    here = Path(__file__).resolve().parent
    if sys.argv[1:] == ["golden"]:
        write(here / "metrics.jsonl", cases(60, "golden"))
        return 0
    if len(sys.argv) < 3 or sys.argv[1] != "compare":
        sys.exit(__doc__)
    build, count = Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 3000
    program = next(build.rglob("metrics_test"))
    with tempfile.TemporaryDirectory() as folder:
        many = Path(folder, "cases.jsonl")
        write(many, cases(count, "compare"))
        failed = subprocess.run([program, "--gtest_filter=MetricsGolden.*", "--gtest_brief=1"], cwd=here,
                                env=os.environ | {"CHORUS_METRICS_GOLDEN": str(many)}).returncode
    chorus = next((f for f in (build / "chorus", here.parent.parent / "chorus") if f.is_file()), None)
    if chorus:
        failed += compare_program(chorus, count)
    else:
        print(f"no chorus program in {build}: `chorus score` was not compared")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
