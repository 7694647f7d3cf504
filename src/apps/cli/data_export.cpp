#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "application/data/example_text.h"
#include "apps/cli/cli.h"
#include "apps/cli/data_options.h"
#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExportHelp = R"(
Writes what was read as CSV or JSON lines, which other programs and Chorus itself read again.

Examples:
  chorus data export 20news_data.h5 -o 20news.csv
  chorus data export messages.jsonl --by-client -o clients --as csv)";

struct ExportArguments {
  DataOptions data;
  std::string out, as, split;
  bool by_client = false;
};

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos && !text.starts_with(' ') && !text.ends_with(' ')) {
    return std::string(text);
  }
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
  return field + '"';
}

/// The columns that some example uses, and how to get them.
using CsvColumns = std::vector<std::pair<std::string, std::function<std::string(const Example&)>>>;

CsvColumns csv_columns(const Dataset& data, bool with_client) {
  if (data.formulation() == Formulation::kSequenceTagging || data.formulation() == Formulation::kSpanExtraction) {
    throw ConfigError(
        fmt::format("{} does not fit into CSV; export it as JSON lines: --as jsonl", name_of(data.formulation())));
  }
  CsvColumns columns;
  const auto name = [](const StringTable& table, std::int32_t id) {
    return id < 0 ? std::string() : std::string(table.at(id));
  };
  bool ids = false;
  for (std::size_t i = 0; i < data.size() && !ids; ++i) ids = !data.at(i).id.empty();
  if (ids) columns.emplace_back("id", [](const Example& e) { return std::string(e.id); });
  const bool pair =
      data.formulation() != Formulation::kTextClassification && data.formulation() != Formulation::kLanguageModel;
  columns.emplace_back(pair ? "text1" : "text", [](const Example& e) { return std::string(e.text); });
  if (pair) columns.emplace_back("text2", [](const Example& e) { return std::string(e.second); });
  if (!data.label_ids().empty())
    columns.emplace_back("label", [&data, name](const Example& e) { return name(data.labels(), e.label); });
  if (!data.scores().empty())
    columns.emplace_back("score", [](const Example& e) { return fmt::format("{}", e.score); });
  if (with_client && !data.client_ids().empty())
    columns.emplace_back("client", [&data, name](const Example& e) { return name(data.clients(), e.client); });
  if (!data.source_ids().empty())
    columns.emplace_back("source", [&data, name](const Example& e) { return name(data.sources(), e.source); });
  if (!data.times().empty()) {
    columns.emplace_back(
        "time", [](const Example& e) { return e.time == kNoTime ? std::string() : fmt::format("{}", e.time); });
  }
  return columns;
}

/// The examples as one text. A CSV file of one client does not name it again.
std::string export_text(const Dataset& data, const std::vector<std::uint32_t>& examples, bool csv,
                        bool with_client = true) {
  std::string text;
  if (!csv) {
    for (const std::uint32_t i : examples) text += example_json(data, i) + "\n";
    return text;
  }
  const CsvColumns columns = csv_columns(data, with_client);
  for (std::size_t c = 0; c < columns.size(); ++c) text += (c == 0 ? "" : ",") + columns[c].first;
  text += "\n";
  for (const std::uint32_t i : examples) {
    const Example example = data.at(i);
    for (std::size_t c = 0; c < columns.size(); ++c)
      text += (c == 0 ? "" : ",") + csv_field(columns[c].second(example));
    text += "\n";
  }
  return text;
}

/// A client's name as a file name; different names stay different.
std::string file_name(std::string name, std::set<std::string>& taken) {
  for (char& c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  if (name.empty()) name = "unnamed";
  std::string unique = name;
  for (int number = 2; !taken.insert(unique).second; ++number) unique = fmt::format("{}_{}", name, number);
  return unique;
}

void export_by_client(const ExportArguments& arguments, const Dataset& data, const std::vector<std::uint32_t>& examples,
                      bool csv) {
  if (data.client_ids().empty()) {
    throw DataError("--by-client: the data names no clients; name their column with --column client=NAME");
  }
  std::map<std::int32_t, std::vector<std::uint32_t>> clients;
  for (const std::uint32_t i : examples) clients[data.client_ids()[i]].push_back(i);
  std::error_code error;
  fs::create_directories(arguments.out, error);
  if (error) throw DataError(fmt::format("{}: cannot be made: {}", arguments.out, error.message()));
  std::set<std::string> taken;
  for (const auto& [client, own] : clients) {
    const std::string name = file_name(client < 0 ? "" : std::string(data.clients().at(client)), taken);
    write_file(fs::path(arguments.out) / (name + (csv ? ".csv" : ".jsonl")), export_text(data, own, csv, false));
  }
  fmt::print("{}: {} files, one per client, {} examples\n", arguments.out, clients.size(), examples.size());
}

void export_data(const ExportArguments& arguments) {
  const Dataset data = load_data(arguments.data);
  const bool csv = arguments.as == "csv" || (arguments.as.empty() && fs::path(arguments.out).extension() == ".csv");
  std::vector<std::uint32_t> examples;
  for (std::uint32_t i = 0; i < data.size(); ++i) {
    if (arguments.split.empty() || arguments.split == name_of(data.at(i).split)) examples.push_back(i);
  }
  if (examples.empty())
    throw DataError(
        fmt::format("there are no examples{}", arguments.split.empty() ? "" : " in the " + arguments.split + " split"));
  if (arguments.by_client) return export_by_client(arguments, data, examples, csv);
  write_file(arguments.out, export_text(data, examples, csv));
  fmt::print("{}: {} examples\n", arguments.out, examples.size());
}

}  // namespace

void add_data_export(CLI::App& app) {
  CLI::App* command = app.get_subcommand("data")->add_subcommand("export", "Write a dataset as CSV or JSON lines");
  const auto arguments = std::make_shared<ExportArguments>();
  command->footer(kExportHelp);
  add_reading(*command, arguments->data);
  command->add_option("-o,--out", arguments->out, "The file, or with --by-client the folder")->required();
  command->add_option("--as", arguments->as, "csv or jsonl (default: as the file is called, else jsonl)")
      ->check(CLI::IsMember({"csv", "jsonl"}));
  command->add_option("--split", arguments->split, "Only this split: train, validation or test")
      ->check(CLI::IsMember({"train", "validation", "test"}));
  command->add_flag("--by-client", arguments->by_client, "One file per client");
  command->callback([arguments] { export_data(*arguments); });
}

}  // namespace chorus::inline cli
