#pragma once

/// The format "squad": SQuAD 1.1 and 2.0 JSON ({"data": [{"title", "paragraphs": [{"context", "qas": [...]}]}]}), read
/// one article at a time. The title becomes the source. A question without answers (2.0) is kept. Answers that are not
/// at their offset: ReaderOptions::misaligned.
