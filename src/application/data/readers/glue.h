#pragma once

/// The format "glue": the TSV files of the nine GLUE tasks (Wang et al. 2019) and its diagnostic set as distributed.
/// Quotes are literal; CoLA's train and dev files have no header; test files have no label. The task comes from
/// ReaderOptions::glue_task or the folder's name (CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI, diagnostic).
/// Rows of QQP with missing fields (the original has a few) are skipped with a note; elsewhere they are a DataError.
/// STS-B is pair_regression; CoLA and SST-2 are text_classification; the others pair_classification.
