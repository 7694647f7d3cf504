#pragma once

/// The format "mrqa": MRQA 2019 JSONL (usually gzipped): a header line {"header": {"dataset": ...}}, whose dataset
/// becomes the source, then a context with its "qas" a line. Answers are the "detected_answers" with their
/// "char_spans" ([first, last], last included). An answer that is not at its offset: ReaderOptions::misaligned.
