#!/usr/bin/env python3
"""LoRA adapters as PEFT writes them, and the weights PEFT merges them into: tests/fixtures/peft.

    pip install peft==0.21.2 transformers torch
    python3 tests/golden/make_peft_merge.py     # in the root of the repository

Each case is a PEFT folder on a checkpoint of tests/fixtures/parity, with merged.safetensors: every weight that
merge_and_unload changed. The cases use everything that scales an update: alpha / r, alpha / sqrt(r) (use_rslora), and
the exceptions of rank_pattern and alpha_pattern, for weights stored [out, in] (BERT) and [in, out] (GPT-2).
"""
import pathlib
import shutil

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

FIXTURES = pathlib.Path("tests/fixtures")
CASES = {
    "bert_plain": ("bert-seqcls", dict(r=3, lora_alpha=5, target_modules=["query", "value"])),
    "bert_rslora": ("bert-seqcls", dict(r=3, lora_alpha=5, target_modules=["query", "value"], use_rslora=True)),
    "bert_patterns": ("bert-seqcls", dict(
        r=3, lora_alpha=5, target_modules=["query", "value", "intermediate.dense"],
        rank_pattern={"layer.1.attention.self.query": 2, "query": 4, "intermediate.*": 1},
        alpha_pattern={"layer.0.*value": 7, ".*value": 11})),
    "bert_rslora_patterns": ("bert-seqcls", dict(
        r=4, lora_alpha=6, target_modules=["key", "output.dense"], use_rslora=True,
        rank_pattern={"key": 2}, alpha_pattern={"attention.output.dense": 9})),
    "gpt2_rslora": ("gpt2-lm", dict(r=2, lora_alpha=3, target_modules=["c_attn"], use_rslora=True, fan_in_fan_out=True)),
}

shutil.rmtree(FIXTURES / "peft", ignore_errors=True)
for name, (base, settings) in CASES.items():
    torch.manual_seed(len(name))
    causal = base.startswith("gpt2")
    kind = AutoModelForCausalLM if causal else AutoModelForSequenceClassification
    model = kind.from_pretrained(str(FIXTURES / "parity" / base))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    task = "CAUSAL_LM" if causal else "SEQ_CLS"
    tuned = get_peft_model(model, LoraConfig(task_type=task, **settings))
    with torch.no_grad():
        for key, value in tuned.named_parameters():
            if "lora_B" in key:
                value.normal_(0, 0.1)
    folder = FIXTURES / "peft" / name
    tuned.save_pretrained(folder)
    (folder / "README.md").unlink()
    # Read again: PEFT sorts the patterns when it writes them, and the first match counts.
    again = PeftModel.from_pretrained(kind.from_pretrained(str(FIXTURES / "parity" / base)), str(folder))
    merged = again.merge_and_unload().state_dict()
    changed = {key: value.contiguous() for key, value in merged.items() if not torch.equal(value, before[key])}
    save_file(changed, folder / "merged.safetensors")
    print(name, len(changed), "weights changed")
