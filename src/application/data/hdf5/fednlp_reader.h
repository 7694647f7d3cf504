#pragma once

/// The format "fednlp": FedNLP's HDF5 data file, NAME_data.h5 (docs/formats.md; Lin et al. 2022, appendix B).
///
/// The root dataset "attributes" holds a JSON object: index_list, train_index_list, test_index_list, label_vocab,
/// task_type, label_index_list. Example i stands in X/<i> and Y/<i> (or context_X, question_X, Y, Y_answer,
/// question_ids; or X_<g>/X/<i> for StackOverflow). Unknown keys and groups are passed over. What a file leaves out is
/// found from the rest: no task_type from the groups; no Y_answer from the offsets; no train and test lists: the first
/// nine tenths are training data, as FedNLP's partitioners take them.
///
/// Records come in ascending id, so that an example's index in the Dataset is its id in partition files; therefore no
/// record is ever left out. `label_vocab` is authoritative. `label_index_list` (or source_list, doc_index) becomes the
/// source.
