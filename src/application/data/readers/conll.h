#pragma once

/// The format "conll": a word a line with its columns (between tabs, where the file has any, else between blanks), a
/// blank line after each sentence, "-DOCSTART-" lines passed over. Which columns: ReaderOptions::word_column and
/// tag_column. A line with too few columns is a DataError with its number.
