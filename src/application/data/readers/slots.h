#pragma once

/// The format "slots": SNIPS and ATIS, one utterance per line: "BOS word ... EOS", a tab, and as many tags, of which
/// the first belongs to BOS and the last is the intent. Read as seq_tagging with the intent as label, or as
/// text_classification of the intent when that is configured. Unequal counts are a DataError with the line.
