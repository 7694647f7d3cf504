#include "application/tasks/encoded_file.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "core/base/byte_reader.h"
#include "core/base/error.h"

namespace chorus::inline tasks {
namespace {

static_assert(std::endian::native == std::endian::little, "the file holds little-endian numbers as they are in memory");

constexpr std::string_view kMagic = "CHORENC\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kNameBytes = 24;
constexpr std::size_t kFixedBytes = 8 + 4 + 4 + 16 + 8;
constexpr std::size_t kColumnBytes = kNameBytes + 8 + 8 + 8 + 16;
constexpr std::size_t kAlignment = 64;

std::size_t column_count() {
  std::size_t count = 0;
  EncodedColumns<ColumnView>::visit([&](const char*, auto, ColumnUnit, bool) { ++count; });
  return count;
}

std::uint64_t aligned(std::uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

std::uint64_t header_bytes() { return kFixedBytes + column_count() * kColumnBytes + 16; }

template <typename T>
std::string_view bytes_of(ColumnView<T> column) {
  return {reinterpret_cast<const char*>(column.data()), column.size_bytes()};
}

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void put(std::string& out, const Fingerprint& value) {
  put(out, value.high);
  put(out, value.low);
}

Fingerprint take_fingerprint(ByteReader& reader) {
  const auto high = reader.take<std::uint64_t>();
  return {high, reader.take<std::uint64_t>()};
}

}  // namespace

void write_encoded(const std::filesystem::path& path, const Fingerprint& key,
                   const EncodedColumns<ColumnView>& columns) {
  using Columns = EncodedColumns<ColumnView>;
  std::string table;
  std::uint64_t offset = header_bytes();
  Columns::visit([&](const char* name, auto member, ColumnUnit, bool) {
    const auto column = columns.*member;
    std::array<char, kNameBytes> padded{};
    std::memcpy(padded.data(), name, std::min(std::strlen(name), kNameBytes - 1));
    table.append(padded.data(), padded.size());
    offset = aligned(offset);
    put(table, static_cast<std::uint64_t>(sizeof(column[0])));
    put(table, offset);
    put(table, static_cast<std::uint64_t>(column.size()));
    put(table, fingerprint(bytes_of(column)));
    offset += column.size_bytes();
  });
  std::string header(kMagic);
  put(header, kVersion);
  put(header, static_cast<std::uint32_t>(column_count()));
  put(header, key);
  put(header, offset);
  header += table;
  put(header, fingerprint(header));

  AtomicFile file(path);
  file.write(header);
  std::uint64_t written = header.size();
  Columns::visit([&](const char*, auto member, ColumnUnit, bool) {
    file.write(std::string(aligned(written) - written, '\0'));
    file.write(bytes_of(columns.*member));
    written = aligned(written) + (columns.*member).size_bytes();
  });
  file.commit();
}

std::shared_ptr<const EncodedDataset> open_encoded(const std::filesystem::path& path, const Fingerprint& key,
                                                   const EncodedLimits& limits) {
  MappedFile file(path);
  const auto refuse = [&](const std::string& why) { throw DataError(fmt::format("{}: {}", path.string(), why)); };
  if (file.size() < header_bytes() || file.text().substr(0, kMagic.size()) != kMagic) {
    refuse("this is no file of encoded data, or its header is cut off");
  }
  ByteReader reader(file.bytes().subspan(kMagic.size()));
  if (reader.take<std::uint32_t>() != kVersion) refuse("it was written by another version of Chorus");
  if (reader.take<std::uint32_t>() != column_count()) refuse("it has other columns than this version of Chorus");
  const Fingerprint stored_key = take_fingerprint(reader);
  const auto size = reader.take<std::uint64_t>();
  EncodedColumns<ColumnView> columns;
  std::uint64_t offset = header_bytes();
  EncodedColumns<ColumnView>::visit([&](const char* name, auto member, ColumnUnit, bool) {
    using T = typename std::remove_cvref_t<decltype(columns.*member)>::value_type;
    const std::string_view stored = reader.text(kNameBytes);
    if (stored.substr(0, stored.find('\0')) != name) refuse(fmt::format("the column '{}' is missing", name));
    const auto width = reader.take<std::uint64_t>();
    const auto begin = reader.take<std::uint64_t>();
    const auto count = reader.take<std::uint64_t>();
    const Fingerprint sum = take_fingerprint(reader);
    offset = aligned(offset);
    if (!reader.ok() || width != sizeof(T) || begin != offset || offset > file.size() ||
        count > (file.size() - offset) / sizeof(T)) {
      refuse(fmt::format("the column '{}' goes beyond the end of the file or lies in the wrong place", name));
    }
    columns.*member = {reinterpret_cast<const T*>(file.bytes().data() + begin), static_cast<std::size_t>(count)};
    if (fingerprint(bytes_of(columns.*member)) != sum) {
      refuse(fmt::format("the column '{}' was changed after it was written", name));
    }
    offset += count * sizeof(T);
  });
  const std::string_view header = file.text().substr(0, header_bytes() - 16);
  if (take_fingerprint(reader) != fingerprint(header)) refuse("its header was changed after it was written");
  if (size != file.size() || offset != size) refuse("it has another size than its header says");
  if (stored_key != key) refuse("it belongs to other data, or to another tokenizer or task");
  try {
    return std::make_shared<EncodedDataset>(columns, std::move(file), limits);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace chorus::inline tasks
