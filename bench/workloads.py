"""The workloads of bench/engine.py for Chorus and its peers: networks, texts and training, at three sizes.

Texts use an artificial vocabulary in which every word is one token, so that both sides read the same token ids; the
weights are random. `cuda` has the sizes of docs/explanation/performance.md, `cpu` has fewer or smaller clients
(examples/s is a rate, and the work per example is the same), `quick` has just enough to see that everything runs.
"""
import dataclasses
import itertools
import random
import string

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CLS, SEP = 2, 3
LABELS = 20


@dataclasses.dataclass
class Workload:
    key: str  # W1 to W5, and W7
    title: str
    network: dict  # config.json, read by Chorus (model.fresh) and by Hugging Face alike
    task: str  # text_classification or causal_lm
    clients: list  # per client: rows of (token ids, label)
    batch_size: int
    optimizer: str
    learning_rate: float
    rounds: int  # the first is not measured
    tuning: str = "full"  # or pfeiffer, lora
    work: int = 6  # FLOP per token and matmul weight: 2 forward, 2 for the input's gradient, 2 for the weight's

    @property
    def examples(self):
        return sum(len(rows) for rows in self.clients)

    @property
    def tokens(self):
        """Tokens with a prediction: not the last of a language model's row."""
        last = 1 if self.task == "causal_lm" else 0
        return sum(len(ids) - last for rows in self.clients for ids, _ in rows)

    @property
    def ragged(self):
        return len({len(ids) for rows in self.clients for ids, _ in rows}) > 1

    @property
    def flops(self):
        """FLOP per round: work x N x tokens, with N the weights of matmuls that every token passes; 0: unknown."""
        return self.work * product_weights(self.network) * self.tokens


def product_weights(network):
    """Layers and a language model's output, without embedding tables (look-ups) and classifier (once per text)."""
    kind = network["model_type"]
    if kind == "lstm":
        widths = [network["embedding_size"]] + [network["hidden_size"]] * network["num_layers"]
        layers = sum(4 * out * (into + out) for into, out in zip(widths, widths[1:]))
        return layers + network["hidden_size"] * network["vocab_size"]
    names = {"bert": ("hidden_size", "intermediate_size", "num_hidden_layers"), "distilbert": ("dim", "hidden_dim", "n_layers"),
             "gpt2": ("n_embd", "n_inner", "n_layer")}[kind]
    width, inner, layers = (network[name] for name in names)
    output = width * network["vocab_size"] if kind == "gpt2" else 0
    return layers * (4 * width * width + 2 * width * inner) + output


def vocabulary(size):
    """The special tokens and artificial words of four letters; a word's id is its index."""
    words = ("".join(letters) for letters in itertools.product(string.ascii_lowercase, repeat=4))
    return SPECIAL + list(itertools.islice(words, size - len(SPECIAL)))


BERT = {"model_type": "bert", "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072}
DISTILBERT = {"model_type": "distilbert", "vocab_size": 30522, "dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072}
STACKOVERFLOW = {"model_type": "gpt2", "vocab_size": 10000, "n_positions": 64, "n_embd": 96, "n_layer": 3, "n_head": 8,
                 "n_inner": 1536, "tie_word_embeddings": True}
SHAKESPEARE = {"model_type": "lstm", "vocab_size": 90, "embedding_size": 8, "hidden_size": 256, "num_layers": 2, "dropout": 0}
SMALL_LSTM = {"model_type": "lstm", "vocab_size": 8192, "embedding_size": 32, "hidden_size": 64, "num_layers": 1, "dropout": 0}


def texts(clients, examples, network):
    """Classified texts of about 120 tokens, at most 256: lengths are log-normal (median 106, sigma 0.5)."""
    draw = random.Random(1)
    words = range(len(SPECIAL), network["vocab_size"])

    def row(i):
        length = max(8, min(256, round(draw.lognormvariate(4.66, 0.5))))
        return [CLS] + draw.choices(words, k=length - 2) + [SEP], i % LABELS

    return [[row(client * examples + i) for i in range(examples)] for client in range(clients)]


def sentences(sizes, length, network):
    """Rows for a language model; sizes: rows per client; length: of every row, or a function that draws it."""
    draw = random.Random(2)
    words = range(len(SPECIAL), network["vocab_size"])
    tokens = length if callable(length) else lambda draw: length
    return [[(draw.choices(words, k=tokens(draw)), None) for _ in range(size)] for size in sizes]


def at_most_20(draw):
    """Tokens of a message, with a first and a last one, truncated at 20: log-normal, as on the Ubuntu IRC channel (mean
    12.2, 24 % truncated; here 12.3 and 24 %)."""
    return min(20, max(1, round(draw.lognormvariate(2.25, 0.85))) + 2)


def sizes_up_to(most, clients):
    draw = random.Random(3)
    return [draw.randint(most // 4, most) for _ in range(clients)]


def fine_tuning(key, title, network, size, **more):
    clients, examples, rounds = {"cuda": (10, 113, 8), "cpu": (2, 32, 3), "quick": (2, 8, 2)}[size]
    return Workload(key, title, network, "text_classification", texts(clients, examples, network), 8, "adamw", 5e-5, rounds,
                    **more)


def w1(size):
    return [fine_tuning("W1", "DistilBERT, all weights", DISTILBERT, size),
            fine_tuning("W1", "BERT-base, all weights", BERT, size)]


def w2(size):
    """Chorus caches the output of the ten frozen layers, so FLOP are not counted."""
    return [fine_tuning("W2", "BERT-base, adapters in the top 2", BERT, size, tuning="pfeiffer", work=0)]


def w3(size):
    return [fine_tuning("W3", "BERT-base, LoRA of rank 8", BERT, size, tuning="lora", work=4)]


def w4(size):
    """pfl-research truncates StackOverflow's sentences to 20 tokens and pads shorter ones. Once with all sentences of the
    full length, where packing saves nothing, and once with realistic lengths."""
    clients, rounds = {"cuda": (400, 8), "cpu": (40, 4), "quick": (8, 3)}[size]
    sizes = sizes_up_to(64, clients)

    def work(title, length):
        return Workload("W4", title, STACKOVERFLOW, "causal_lm", sentences(sizes, length, STACKOVERFLOW), 16, "sgd", 0.3, rounds)

    return [work("small transformer LM, 20 tokens", 20), work("small transformer LM, up to 20", at_most_20)]


def w5(size):
    """Shakespeare's characters as 85 words and 5 special tokens: the same arithmetic, sequences of 80 of them."""
    clients, most, rounds = {"cuda": (10, 256, 4), "cpu": (8, 128, 4), "quick": (4, 32, 3)}[size]
    rows = sentences(sizes_up_to(most, clients), 80, SHAKESPEARE)
    return [Workload("W5", "LSTM LM of characters", SHAKESPEARE, "causal_lm", rows, 10, "sgd", 0.8, rounds)]


def w7(size):
    """The peers' counterpart of configs/scale/100k_clients.yaml: the same network, a round of its cohort."""
    clients, rounds = {"cuda": (100, 10), "cpu": (100, 10), "quick": (100, 3)}[size]
    rows = sentences([3] * clients, 24, SMALL_LSTM)
    return [Workload("W7", "100,000 clients, 100 a round", SMALL_LSTM, "causal_lm", rows, 8, "sgd", 0.5, rounds)]


def cpu_precisions():
    """Precisions on a CPU: bfloat16 only where the processor supports it; LibTorch's emulation takes hours."""
    with open("/proc/cpuinfo") as lines:
        flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return ["float32"] + (["bfloat16"] if "avx512_bf16" in flags or "amx_bf16" in flags else [])


TRAINING = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5}
