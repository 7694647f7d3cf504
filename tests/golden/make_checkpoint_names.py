#!/usr/bin/env python3
"""Writes tests/fixtures/checkpoints/names.json: tensor names, tiny shapes and config.json keys of the most downloaded
checkpoints of the families that Chorus has.

    pip install torch transformers && python3 tests/golden/make_checkpoint_names.py

The names are those of the state_dict of the class that each checkpoint was saved from, as transformers has it, with one
layer. The differences of older versions are applied afterwards: LayerNorm.gamma, buffers that are no longer saved,
tied copies, bodies without their prefix, and config.json without "architectures" or "model_type".

"missing" and "unexpected" are what transformers' from_pretrained reports when it loads the folder with the head in
"head".

    tests/golden/make_checkpoint_names.py --table   # the table of docs/reference/checkpoints.md, without transformers"""
import json
import pathlib
import re
import sys
import tempfile

if "--table" not in sys.argv:
    import torch
    import transformers

OUT = pathlib.Path(__file__).parents[1] / "fixtures" / "checkpoints" / "names.json"

BERT = dict(vocab_size=11, hidden_size=4, num_hidden_layers=1, num_attention_heads=2, intermediate_size=6,
            max_position_embeddings=8)
TINY = {
    "bert": BERT,
    "roberta": dict(BERT, type_vocab_size=1, pad_token_id=1),
    "distilbert": dict(vocab_size=11, dim=4, n_layers=1, n_heads=2, hidden_dim=6, max_position_embeddings=8),
    "gpt2": dict(vocab_size=11, n_embd=4, n_layer=1, n_head=2, n_positions=8),
    "bart": dict(vocab_size=11, d_model=4, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                 decoder_attention_heads=2, encoder_ffn_dim=6, decoder_ffn_dim=6, max_position_embeddings=8),
    "t5": dict(vocab_size=11, d_model=4, d_kv=2, d_ff=6, num_layers=1, num_heads=2, decoder_start_token_id=0),
}
PREFIX = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert", "gpt2": "GPT2", "bart": "Bart", "t5": "T5"}

# name: family, class, differences of the files ("labels N": number of labels)
CHECKPOINTS = {
    "google-bert/bert-base-uncased": ("bert", "ForPreTraining", "named ForMaskedLM, gamma"),
    "google-bert/bert-base-cased": ("bert", "ForPreTraining", "named ForMaskedLM, gamma"),
    "google-bert/bert-base-chinese": ("bert", "ForPreTraining", "named ForMaskedLM, gamma"),
    "google-bert/bert-base-multilingual-cased": ("bert", "ForPreTraining", "named ForMaskedLM"),
    "google-bert/bert-base-multilingual-uncased": ("bert", "ForPreTraining", "named ForMaskedLM, gamma"),
    "google-bert/bert-large-uncased": ("bert", "ForPreTraining", "named ForMaskedLM, gamma"),
    "google/bert_uncased_L-2_H-128_A-2": ("bert", "ForPreTraining", "no type, no architecture"),
    "prajjwal1/bert-tiny": ("bert", "ForPreTraining", "no architecture"),
    "emilyalsentzer/Bio_ClinicalBERT": ("bert", "ForPreTraining", "no architecture"),
    "dmis-lab/biobert-v1.1": ("bert", "Model", "no architecture, ids"),
    "allenai/scibert_scivocab_uncased": ("bert", "ForPreTraining", "no type, no architecture, ids"),
    "nlpaueb/legal-bert-base-uncased": ("bert", "ForPreTraining", "ids"),
    "neuralmind/bert-base-portuguese-cased": ("bert", "ForPreTraining", "named ForMaskedLM"),
    "sentence-transformers/all-MiniLM-L6-v2": ("bert", "Model", "ids"),
    "sentence-transformers/all-MiniLM-L12-v2": ("bert", "Model", "ids"),
    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2": ("bert", "Model", "ids"),
    "sentence-transformers/LaBSE": ("bert", "Model", "ids"),
    "BAAI/bge-small-en-v1.5": ("bert", "Model", "ids"),
    "BAAI/bge-base-en-v1.5": ("bert", "Model", ""),
    "intfloat/e5-small-v2": ("bert", "Model", "ids"),
    "thenlper/gte-base": ("bert", "Model", "ids"),
    "dslim/bert-base-NER": ("bert", "ForTokenClassification", "pooler, labels 9"),
    "dbmdz/bert-large-cased-finetuned-conll03-english": ("bert", "ForTokenClassification", "ids, labels 9"),
    "nlptown/bert-base-multilingual-uncased-sentiment": ("bert", "ForSequenceClassification", "labels 5"),
    "ProsusAI/finbert": ("bert", "ForSequenceClassification", "ids, labels 3"),
    "google-bert/bert-large-uncased-whole-word-masking-finetuned-squad": ("bert", "ForQuestionAnswering", "pooler"),
    "cross-encoder/ms-marco-MiniLM-L6-v2": ("bert", "ForSequenceClassification", "labels 1, ids"),
    "FacebookAI/roberta-base": ("roberta", "ForMaskedLM", "pooler, ids, tied"),
    "FacebookAI/roberta-large": ("roberta", "ForMaskedLM", "pooler, ids, tied"),
    "distilbert/distilroberta-base": ("roberta", "ForMaskedLM", "pooler, ids, tied"),
    "cardiffnlp/twitter-roberta-base-sentiment-latest": ("roberta", "ForSequenceClassification", "pooler, ids, labels 3"),
    "deepset/roberta-base-squad2": ("roberta", "ForQuestionAnswering", "pooler, ids"),
    "microsoft/codebert-base": ("roberta", "Model", "ids"),
    "sentence-transformers/all-distilroberta-v1": ("roberta", "ForMaskedLM", "no prefix, body, pooler, ids"),
    "distilbert/distilbert-base-uncased": ("distilbert", "ForMaskedLM", "tied"),
    "distilbert/distilbert-base-uncased-finetuned-sst-2-english": ("distilbert", "ForSequenceClassification", "labels 2"),
    "distilbert/distilbert-base-cased-distilled-squad": ("distilbert", "ForQuestionAnswering", ""),
    "openai-community/gpt2": ("gpt2", "LMHeadModel", "no prefix, body, mask"),
    "distilbert/distilgpt2": ("gpt2", "LMHeadModel", "mask, tied"),
    "microsoft/DialoGPT-medium": ("gpt2", "LMHeadModel", "mask, tied"),
    "facebook/bart-base": ("bart", "Model", "no prefix, tied"),
    "facebook/bart-large-cnn": ("bart", "ForConditionalGeneration", "version, body"),
    "facebook/bart-large-mnli": ("bart", "ForSequenceClassification", "labels 3"),
    "google-t5/t5-small": ("t5", "ForConditionalGeneration", "named WithLMHeadModel, cross bias"),
    "google-t5/t5-base": ("t5", "ForConditionalGeneration", "tied, cross bias"),
    "google/flan-t5-base": ("t5", "ForConditionalGeneration", "gated, untied"),
}


def build(family, ending, edits):
    settings = dict(TINY[family])
    labels = next((int(e.split()[1]) for e in edits if e.startswith("labels ")), 2)
    if "gated" in edits:
        settings.update(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    config = getattr(transformers, PREFIX[family] + "Config")(**settings, num_labels=labels)
    model = getattr(transformers, PREFIX[family] + ending)(config)
    tensors = {name: list(value.shape) for name, value in model.state_dict().items()}
    prefix = model.base_model_prefix + "."
    tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "lm_head.decoder.weight",
            "lm_head.decoder.bias", "vocab_projector.weight"}
    if family in ("gpt2", "bart", "t5") and "untied" not in edits:
        tied |= {n for n in tensors if n == "lm_head.weight" or n.endswith("embed_tokens.weight")}
    if "tied" not in edits and ending != "ForPreTraining":
        tensors = {n: s for n, s in tensors.items() if n not in tied}
    tensors.pop("cls.predictions.decoder.bias", None)  # since 2021 only
    if "body" in edits:
        heads = ("lm_head", "cls.", "final_logits_bias")
        tensors = {n: s for n, s in tensors.items() if not n.startswith(heads)}
    stem = prefix if any(n.startswith(prefix) for n in tensors) else ""
    if "pooler" in edits:
        tensors |= {stem + "pooler.dense.weight": [4, 4], stem + "pooler.dense.bias": [4]}
    if "ids" in edits:
        tensors[stem + "embeddings.position_ids"] = [1, 8]
    if "mask" in edits:
        tensors |= {stem + "h.0.attn.bias": [1, 1, 8, 8], stem + "h.0.attn.masked_bias": []}
    if "version" in edits:
        tensors |= {stem + "encoder.version": [1], stem + "decoder.version": [1]}
    if "cross bias" in edits:
        tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = [32, 2]
    if "no prefix" in edits:
        tensors = {n.removeprefix(prefix): s for n, s in tensors.items()}
    if "gamma" in edits:
        tensors = {re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", n)): s
                   for n, s in tensors.items()}
    named = next((e.split()[1] for e in edits if e.startswith("named ")), ending)
    settings["architectures"] = [PREFIX[family] + named]
    settings["model_type"] = family
    if family == "bart":
        settings.update(decoder_start_token_id=2)
    if family in ("bert", "roberta") and "type_vocab_size" not in settings:
        settings["type_vocab_size"] = 2
    if labels != 2:
        settings["id2label"] = {str(i): f"LABEL_{i}" for i in range(labels)}
    if "no architecture" in edits:
        del settings["architectures"]
    if "no type" in edits:
        del settings["model_type"]
    return settings, tensors


ENDINGS = {"none": "Model", "masked_lm": "ForMaskedLM", "sequence_classification": "ForSequenceClassification",
           "token_classification": "ForTokenClassification", "question_answering": "ForQuestionAnswering",
           "causal_lm": "LMHeadModel", "seq2seq": "ForConditionalGeneration"}


def expected(family, ending, settings, tensors):
    """The head that Chorus should choose, and what transformers finds missing and unexpected with it."""
    heads = {e: h for h, e in ENDINGS.items()} | {"ForPreTraining": "masked_lm"}
    head = "seq2seq" if family in ("bart", "t5") else heads[ending]
    with tempfile.TemporaryDirectory() as folder:
        values = {n: torch.zeros(s, dtype=torch.long if n.endswith("_ids") else torch.float) for n, s in tensors.items()}
        torch.save(values, pathlib.Path(folder) / "pytorch_model.bin")
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(dict(settings, model_type=family)))
        kind = getattr(transformers, PREFIX[family] + ENDINGS[head])
        info = kind.from_pretrained(folder, output_loading_info=True, low_cpu_mem_usage=False)[1]
    return {"head": head, "missing": sorted(info["missing_keys"]), "unexpected": sorted(info["unexpected_keys"])}


def main():
    groups, checkpoints = {}, []
    for name, (family, ending, edits) in CHECKPOINTS.items():
        settings, tensors = build(family, ending, [e.strip() for e in edits.split(",") if e.strip()])
        layer = re.compile(r"(layer|layers|h|block)\.0\.")
        parts = [{n: s for n, s in tensors.items() if layer.search(n)}, {n: s for n, s in tensors.items() if not layer.search(n)}]
        keys = []
        for part in parts:  # many checkpoints share them
            text = json.dumps(part, sort_keys=True)
            keys.append(groups.setdefault(text, len(groups)))
        checkpoints.append({"name": name, "config": settings, "groups": keys, **expected(family, ending, settings, tensors)})
    lines = ['{"groups": [']
    lines += [",\n".join(" " + text for text in groups), "],", '"checkpoints": [']
    lines += [",\n".join(" " + json.dumps(c) for c in checkpoints), "]}"]
    OUT.write_text("\n".join(lines) + "\n")
    print(f"{len(checkpoints)} checkpoints, {OUT.stat().st_size} bytes")


def short(names):
    """Tensor names by the module they belong to."""
    names = [re.sub(r"(layer|layers|h|block)\.0\.", r"\1.N.", n) for n in names]
    return ", ".join(f"`{m}`" for m in sorted({re.sub(r"\.(weight|bias|gamma|beta)$", "", n) for n in names})) or "-"


def table():
    print("| checkpoint | family | head | what its files have of their own | fresh | unused |\n|---|---|---|---|---|---|")
    words = {"gamma": "`LayerNorm.gamma` and `beta`", "ids": "`position_ids`", "no type": "no `model_type`",
             "no architecture": "no `architectures`", "no prefix": "no prefix before the body", "tied": "tied copies",
             "body": "", "mask": "attention masks as buffers", "version": "`version` buffers", "pooler": "a pooler",
             "cross bias": "a position bias that T5 does not use", "gated": "gated layers", "untied": "untied output"}
    for checkpoint in json.loads(OUT.read_text())["checkpoints"]:
        family, ending, edits = CHECKPOINTS[checkpoint["name"]]
        edits = [e.strip() for e in edits.split(",") if e.strip()]
        notes = [words.get(e, "") for e in edits]
        notes += [f"{e.split()[1]} labels" for e in edits if e.startswith("labels ") and e != "labels 2"]
        if ending == "ForPreTraining":
            notes.insert(0, "both pretraining heads")
        print(f"| {checkpoint['name']} | {family} | {checkpoint['head']} | {', '.join(filter(None, notes)) or '-'} | "
              f"{short(checkpoint['missing'])} | {short(checkpoint['unexpected'])} |")


if __name__ == "__main__":
    table() if "--table" in sys.argv else main()
