#pragma once

/// The format "fednlp": FedNLP's HDF5 data file, NAME_data.h5 (docs/reference/formats.md; Lin et al. 2022, appendix B).
///
/// The root dataset "attributes" holds a JSON object: index_list, train_index_list, test_index_list, label_vocab,
/// task_type, label_index_list. Example i is in X/<i> and Y/<i> (or context_X, question_X, Y, Y_answer, question_ids;
/// or X_<g>/X/<i> for StackOverflow). Unknown keys and groups are ignored. Missing parts are derived: task_type from
/// the groups; Y_answer from the offsets; without train and test lists the first nine tenths are training data, as in
/// FedNLP's partitioners.
///
/// Records come in ascending id, so that an example's index in the Dataset is its id in partition files; none is
/// skipped. `label_vocab` is authoritative. `label_index_list` (or source_list, doc_index) becomes the source.
