#pragma once

/// The format "mrqa": MRQA 2019 JSONL (usually gzipped): a header line {"header": {"dataset": ...}}, whose dataset
/// becomes the source, then one context with its "qas" per line. Answers are the "detected_answers" with their
/// "char_spans" ([first, last], inclusive). Answers that are not at their offset: ReaderOptions::misaligned.
