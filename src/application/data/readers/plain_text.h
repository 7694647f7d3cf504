#pragma once

/// The format "text": plain text for language models. One example per line, or per paragraph with
/// ReaderOptions::paragraphs. Blank lines are skipped.
///
/// The format "parallel": two plain files with matching lines, source and target, for seq2seq; the path is both names
/// joined by a comma: "train.en,train.de". Different numbers of lines are a DataError.
