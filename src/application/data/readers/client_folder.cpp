#include "application/data/readers/client_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "application/data/readers/format.h"
#include "application/data/readers/jsonl.h"
#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

namespace fs = std::filesystem;

/// NAME of client_NAME.jsonl[.gz], empty for another file.
std::string client_of(const fs::path& path) {
  std::string name = path.filename().string();
  if (!name.starts_with("client_")) return {};
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  if (!name.ends_with(".jsonl")) return {};
  return name.substr(7, name.size() - 7 - 6);
}

std::vector<std::pair<std::string, fs::path>> client_files(const fs::path& folder) {
  std::vector<std::pair<std::string, fs::path>> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string client = client_of(entry.path());
    if (!client.empty()) files.emplace_back(client, entry.path());
  }
  const auto number = [](const std::string& text) { return text.find_first_not_of("0123456789") == std::string::npos; };
  std::sort(files.begin(), files.end(), [&](const auto& a, const auto& b) {
    if (number(a.first) && number(b.first) && a.first.size() != b.first.size()) {
      return a.first.size() < b.first.size();
    }
    return a.first < b.first;
  });
  return files;
}

class ClientFolderReader final : public RecordReader {
 public:
  ClientFolderReader(const fs::path& folder, const ReaderOptions& options) : options_(options) {
    if (!fs::is_directory(folder)) {
      throw DataError(fmt::format("{}: not a folder of client_*.jsonl files", folder.string()));
    }
    files_ = client_files(folder);
    if (files_.empty()) throw DataError(fmt::format("{}: has no client_*.jsonl files", folder.string()));
    open();
  }

  std::optional<Formulation> formulation() const override { return options_.formulation; }
  std::string where() const override { return reader_->where(); }
  ReadReport report() const override {
    ReadReport report = report_;
    if (reader_) report.add(reader_->report());
    return report;
  }

  bool next(Record& record) override {
    while (!reader_->next(record)) {
      if (file_ + 1 == files_.size()) return false;
      report_.add(reader_->report());
      ++file_;
      open();
    }
    return true;
  }

 private:
  void open() {
    reader_ = open_jsonl(files_[file_].second, options_, files_[file_].first);
    if (!options_.formulation) options_.formulation = reader_->formulation();
  }

  ReaderOptions options_;
  std::vector<std::pair<std::string, fs::path>> files_;
  std::size_t file_ = 0;
  std::unique_ptr<RecordReader> reader_;
  ReadReport report_;
};

int looks_like_client_folder(const FileHead& head) {
  return head.folder && !client_files(head.path).empty() ? kCertain : kNo;
}

const FormatRegistration kClientFolder{
    {"clients", "a folder of client_*.jsonl files, one per client", looks_like_client_folder,
     [](const fs::path& path, const ReaderOptions& options) -> std::unique_ptr<RecordReader> {
       return std::make_unique<ClientFolderReader>(path, options);
     }}};

}  // namespace
}  // namespace chorus::inline readers
