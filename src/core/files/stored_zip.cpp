#include "core/files/stored_zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/base/byte_reader.h"
#include "core/base/error.h"

namespace chorus::inline files {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint32_t kLocalMember = 0x04034b50, kMember = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr uint32_t kSeeZip64 = 0xffffffff;

struct Directory {
  uint64_t offset = 0, size = 0;
};

Bytes from(Bytes file, uint64_t offset) { return offset <= file.size() ? file.subspan(offset) : Bytes(); }

/// The end record is last, before a comment of at most 65,535 bytes.
std::optional<size_t> find_end(Bytes file) {
  constexpr size_t kEndBytes = 22;
  if (file.size() < kEndBytes) return std::nullopt;
  const size_t last = file.size() - kEndBytes;
  for (size_t back = 0; back <= std::min<size_t>(last, 65535); ++back) {
    if (ByteReader(file.subspan(last - back)).take<uint32_t>() == kEnd) return last - back;
  }
  return std::nullopt;
}

std::optional<Directory> find_directory(Bytes file) {
  const auto end = find_end(file);
  if (!end) return std::nullopt;
  ByteReader reader(file.subspan(*end + 12));
  Directory directory;
  directory.size = reader.take<uint32_t>();
  directory.offset = reader.take<uint32_t>();
  if (directory.offset != kSeeZip64 && directory.size != kSeeZip64) return directory;

  constexpr size_t kLocatorBytes = 20;
  if (*end < kLocatorBytes) return std::nullopt;
  ByteReader locator(file.subspan(*end - kLocatorBytes));
  if (locator.take<uint32_t>() != kEnd64Locator) return std::nullopt;
  locator.take<uint32_t>();  // disk
  ByteReader end64(from(file, locator.take<uint64_t>()));
  if (end64.take<uint32_t>() != kEnd64) return std::nullopt;
  end64.bytes(36);  // record size, versions, disks, counts
  directory.size = end64.take<uint64_t>();
  directory.offset = end64.take<uint64_t>();
  if (!end64.ok()) return std::nullopt;
  return directory;
}

struct Member {
  std::string_view name;
  uint16_t flags = 0, method = 0;
  uint64_t packed = 0, size = 0, offset = 0;
};

/// Fields that did not fit in 32 bits are in extra field 1, in this order.
void read_zip64(ByteReader extra, Member& member) {
  while (extra.ok() && extra.left() > 0) {
    const auto id = extra.take<uint16_t>();
    ByteReader field(extra.bytes(extra.take<uint16_t>()));
    if (id != 1) continue;
    for (uint64_t* value : {&member.size, &member.packed, &member.offset}) {
      if (*value == kSeeZip64) *value = field.take<uint64_t>();
    }
  }
}

std::optional<Member> read_member(ByteReader& reader) {
  Member member;
  if (reader.take<uint32_t>() != kMember) return std::nullopt;
  reader.bytes(4);  // versions
  member.flags = reader.take<uint16_t>();
  member.method = reader.take<uint16_t>();
  reader.bytes(8);  // time, date, checksum
  member.packed = reader.take<uint32_t>();
  member.size = reader.take<uint32_t>();
  const auto name = reader.take<uint16_t>();
  const auto extra = reader.take<uint16_t>();
  const auto comment = reader.take<uint16_t>();
  reader.bytes(8);  // disk, attributes
  member.offset = reader.take<uint32_t>();
  member.name = reader.text(name);
  read_zip64(ByteReader(reader.bytes(extra)), member);
  reader.bytes(comment);
  if (!reader.ok()) return std::nullopt;
  return member;
}

std::optional<Bytes> contents(Bytes file, const Member& member) {
  ByteReader reader(from(file, member.offset));
  if (reader.take<uint32_t>() != kLocalMember) return std::nullopt;
  reader.bytes(22);
  const auto name = reader.take<uint16_t>();
  const auto extra = reader.take<uint16_t>();
  reader.bytes(name);
  reader.bytes(extra);
  const Bytes bytes = reader.bytes(member.size);
  if (!reader.ok()) return std::nullopt;
  return bytes;
}

}  // namespace

std::map<std::string, Bytes, std::less<>> read_stored_zip(Bytes file, const std::string& where) {
  const auto directory = find_directory(file);
  if (!directory || directory->offset > file.size() || directory->size > file.size() - directory->offset)
    throw DataError(
        fmt::format("{}: not a complete zip file; it is truncated or of another kind, fetch it again", where));

  std::map<std::string, Bytes, std::less<>> members;
  ByteReader reader(file.subspan(directory->offset, directory->size));
  while (reader.left() > 0) {
    const auto member = read_member(reader);
    if (!member) throw DataError(fmt::format("{}: the list of members of the zip file is damaged", where));
    const bool encrypted = (member->flags & 1) != 0;
    if (encrypted || member->method != 0 || member->packed != member->size)
      throw DataError(
          fmt::format("{}: member '{}' is compressed or encrypted, which PyTorch never does", where, member->name));
    const auto bytes = contents(file, *member);
    if (!bytes) throw DataError(fmt::format("{}: member '{}' lies outside the file", where, member->name));
    if (!members.emplace(member->name, *bytes).second)
      throw DataError(fmt::format("{}: member '{}' is repeated", where, member->name));
  }
  return members;
}

}  // namespace chorus::inline files
