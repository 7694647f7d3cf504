#pragma once

#include <optional>

#include "application/data/dataset.h"
#include "apps/experiment/client_half.h"
#include "apps/experiment/public_data.h"
#include "apps/experiment/server_half.h"
#include "apps/experiment/task_model.h"

namespace chorus::inline experiment {

/// Data of a party that has only its own: a server with a test set, a client with its examples.
///
///     const Dataset data = open_server_data(config.data);                 // the server
///     const TaskModel model(config, TaskFacts::of(data));
///     const ServerHalf server(model, own_test_set(model, data));
///
///     const Dataset data = open_client_data(config.data, facts);          // a client; facts are the server's
///     ClientHalf client({.model = model, .examples = own_examples(model, data, id)});

/// Reads `data.test`, not `data.train` and `data.validation`, which belong to clients. ConfigError without test data.
Dataset open_server_data(DataConfig config);
TestSet own_test_set(const TaskModel& model, const Dataset& data);

/// The public set of such a party; nothing without `public`. `reading`: how its files are read. Borrows `data`.
std::optional<PublicData> own_public_data(const ExperimentConfig& config, const DataConfig& reading,
                                          const Dataset& data);

/// Reads a client's files. DataError when their formulation is not the server's.
Dataset open_client_data(DataConfig config, const TaskFacts& facts);
/// DataError for a client without training examples, and for a label that the server does not know.
ClientExamples own_examples(const TaskModel& model, const Dataset& data, ClientId id);

}  // namespace chorus::inline experiment
