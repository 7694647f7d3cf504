#pragma once

/// The format "conll": one word per line with its columns (separated by tabs if there are any, else by spaces), a blank
/// line after each sentence; "-DOCSTART-" lines are skipped. Columns: ReaderOptions::word_column and tag_column. A line
/// with too few columns is a DataError with its line number.
