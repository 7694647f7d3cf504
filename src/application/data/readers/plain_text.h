#pragma once

/// The format "text": plain text for language models. A line an example, or, with ReaderOptions::paragraphs, the lines
/// up to a blank one. Blank lines are no examples.
///
/// The format "parallel": two plain files whose lines belong together, source and target, for seq2seq; their path is
/// both names with a comma between: "train.en,train.de". Different numbers of lines are a DataError.
