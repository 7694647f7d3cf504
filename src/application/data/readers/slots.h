#pragma once

/// The format "slots": SNIPS and ATIS, one line an utterance: "BOS word ... EOS", a tab, and as many tags, of which the
/// first belongs to BOS and the last is the intent. Read as seq_tagging with the intent as the label, or, when
/// text_classification is asked for, as text and intent. Unequal counts are a DataError with the line.
