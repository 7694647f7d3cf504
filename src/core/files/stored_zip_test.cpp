#include "core/files/stored_zip.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline files {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

template <typename T>
void append_number(std::string& to, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    to += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
  }
}

/// A zip file as PKWARE's APPNOTE.TXT describes it (4.3.7, 4.3.12, 4.3.16 and, with `large`, 4.3.14, 4.3.15, 4.5.3).
struct ZipWriter {
  struct Entry {
    std::string name, bytes;
    std::uint16_t flags = 0, method = 0;
    std::uint32_t packed_more = 0;  // packed size minus size
    std::uint64_t moved = 0;        // added to the offset
  };
  std::vector<Entry> entries;
  std::string comment = {};
  bool large = false;

  std::string text() const {
    std::string file, directory;
    for (const Entry& entry : entries) {
      const std::uint64_t offset = file.size() + entry.moved;
      append_number<std::uint32_t>(file, 0x04034b50);
      for (int i = 0; i < 5; ++i) append_number<std::uint16_t>(file, 0);  // version, flags, method, time, date
      append_number<std::uint32_t>(file, 0);                              // checksum
      append_number<std::uint32_t>(file, static_cast<std::uint32_t>(entry.bytes.size()));
      append_number<std::uint32_t>(file, static_cast<std::uint32_t>(entry.bytes.size()));
      append_number<std::uint16_t>(file, static_cast<std::uint16_t>(entry.name.size()));
      append_number<std::uint16_t>(file, 3);  // extra field
      file += entry.name + "pad" + entry.bytes;

      const auto size = static_cast<std::uint32_t>(entry.bytes.size());
      append_number<std::uint32_t>(directory, 0x02014b50);
      append_number<std::uint32_t>(directory, 0);  // versions
      append_number<std::uint16_t>(directory, entry.flags);
      append_number<std::uint16_t>(directory, entry.method);
      append_number<std::uint64_t>(directory, 0);  // time, date, checksum
      append_number<std::uint32_t>(directory, large ? 0xffffffff : size + entry.packed_more);
      append_number<std::uint32_t>(directory, large ? 0xffffffff : size);
      append_number<std::uint16_t>(directory, static_cast<std::uint16_t>(entry.name.size()));
      append_number<std::uint16_t>(directory, large ? 6 + 28 : 0);
      append_number<std::uint16_t>(directory, 4);  // comment
      append_number<std::uint64_t>(directory, 0);  // disk, attributes
      append_number<std::uint32_t>(directory, large ? 0xffffffff : static_cast<std::uint32_t>(offset));
      directory += entry.name;
      if (large) {
        append_number<std::uint16_t>(directory, 7);  // another extra field comes first
        append_number<std::uint16_t>(directory, 2);
        append_number<std::uint16_t>(directory, 0);
        append_number<std::uint16_t>(directory, 1);
        append_number<std::uint16_t>(directory, 24);
        append_number<std::uint64_t>(directory, size);
        append_number<std::uint64_t>(directory, size + entry.packed_more);
        append_number<std::uint64_t>(directory, offset);
      }
      directory += "note";
    }
    const std::uint64_t begin = file.size();
    file += directory;
    if (large) {
      const std::uint64_t end64 = file.size();
      append_number<std::uint32_t>(file, 0x06064b50);
      append_number<std::uint64_t>(file, 44);
      append_number<std::uint32_t>(file, 0);  // versions
      append_number<std::uint64_t>(file, 0);  // disks
      append_number<std::uint64_t>(file, entries.size());
      append_number<std::uint64_t>(file, entries.size());
      append_number<std::uint64_t>(file, directory.size());
      append_number<std::uint64_t>(file, begin);
      append_number<std::uint32_t>(file, 0x07064b50);
      append_number<std::uint32_t>(file, 0);
      append_number<std::uint64_t>(file, end64);
      append_number<std::uint32_t>(file, 1);
    }
    append_number<std::uint32_t>(file, 0x06054b50);
    append_number<std::uint64_t>(file, 0);  // disks and counts
    append_number<std::uint32_t>(file, large ? 0xffffffff : static_cast<std::uint32_t>(directory.size()));
    append_number<std::uint32_t>(file, large ? 0xffffffff : static_cast<std::uint32_t>(begin));
    append_number<std::uint16_t>(file, static_cast<std::uint16_t>(comment.size()));
    return file + comment;
  }
};

std::map<std::string, std::string> members_of(const std::string& file) {
  std::map<std::string, std::string> members;
  for (const auto& [name, bytes] : read_stored_zip(std::as_bytes(std::span(file)), "x.zip")) {
    members[name] = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return members;
}

const std::map<std::string, std::string> kTwo = {{"archive/data.pkl", "first"},
                                                 {"archive/data/0", std::string(300, 'z')}};

ZipWriter two_members() {
  ZipWriter zip;
  for (const auto& [name, bytes] : kTwo) zip.entries.push_back({name, bytes});
  return zip;
}

TEST(StoredZip, ReadsMembersOfBothFormats) {
  for (const bool large : {false, true}) {
    for (const std::string comment : {"", "a comment", "PK\5\6"}) {
      ZipWriter zip = two_members();
      zip.large = large;
      zip.comment = comment;
      EXPECT_EQ(members_of(zip.text()), kTwo) << large << comment;
    }
  }
  EXPECT_TRUE(members_of(ZipWriter{}.text()).empty());
}

TEST(StoredZip, EveryTruncationIsRefused) {
  for (const bool large : {false, true}) {
    ZipWriter zip = two_members();
    zip.large = large;
    const std::string whole = zip.text();
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THROW((void)members_of(whole.substr(0, size)), DataError) << size;
    }
  }
}

TEST(StoredZip, NoChangedByteReadsOutsideTheFile) {
  // Whatever one byte says, members lie within the file or the file is refused; the sanitizers check the rest.
  for (const bool large : {false, true}) {
    ZipWriter zip = two_members();
    zip.large = large;
    const std::string whole = zip.text();
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (const int value : {0, 1, 0x7f, 0xff}) {
        std::string changed = whole;
        changed[at] = static_cast<char>(value);
        try {
          for (const auto& [name, bytes] : members_of(changed)) EXPECT_LE(bytes.size(), changed.size());
        } catch (const DataError& error) {
          EXPECT_THAT(error.what(), StartsWith("x.zip: "));
        }
      }
    }
  }
}

TEST(StoredZip, WhatPyTorchNeverWritesIsRefused) {
  const auto refused = [](const auto& edit) {
    ZipWriter zip = two_members();
    edit(zip);
    return message_of<DataError>([&] { (void)members_of(zip.text()); });
  };
  EXPECT_THAT(refused([](ZipWriter& zip) { zip.entries[1].method = 8; }),
              AllOf(HasSubstr("archive/data/0"), HasSubstr("compressed or encrypted")));
  EXPECT_THAT(refused([](ZipWriter& zip) { zip.entries[0].flags = 1; }), HasSubstr("compressed or encrypted"));
  EXPECT_THAT(refused([](ZipWriter& zip) { zip.entries[0].packed_more = 1; }), HasSubstr("compressed or encrypted"));
  EXPECT_THAT(refused([](ZipWriter& zip) { zip.entries[1].name = zip.entries[0].name; }), HasSubstr("is repeated"));
  EXPECT_THAT(refused([](ZipWriter& zip) { zip.entries[1].moved = 1; }), HasSubstr("outside the file"));
  EXPECT_THAT(refused([](ZipWriter& zip) { zip.entries[1].moved = 1 << 20; }), HasSubstr("outside the file"));
  EXPECT_THAT(refused([](ZipWriter& zip) {
                zip.large = true;
                zip.entries[1].moved = std::uint64_t{1} << 63;
              }),
              HasSubstr("outside the file"));
}

}  // namespace
}  // namespace chorus::inline files
