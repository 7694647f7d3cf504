#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace chorus::inline data {

/// The location of a string in a StringArena.
struct StringPlace {
  std::uint64_t begin = 0;
  std::uint32_t length = 0;
};

/// Many strings in few blocks. Grows without moving stored strings, so views stay valid; a million strings take a few
/// hundred heap blocks.
class StringArena {
 public:
  StringPlace add(std::string_view text);
  std::string_view at(StringPlace place) const {
    if (place.length == 0) return {};
    return {blocks_[place.begin >> kShift] + (place.begin & (kBlock - 1)), place.length};
  }
  std::uint64_t memory() const { return static_cast<std::uint64_t>(blocks_.size()) << kShift; }

  static constexpr unsigned kShift = 18;
  static constexpr std::uint64_t kBlock = 1ULL << kShift;

  /// The concatenation of these blocks of kBlock bytes is the whole content; unused bytes are zero.
  const std::vector<const char*>& blocks() const { return blocks_; }
  /// An arena over external memory (a multiple of kBlock bytes that outlives it). It may grow.
  static StringArena over(std::string_view content);
  bool holds(StringPlace place) const {
    return place.length == 0 || (place.begin < memory() && place.length <= memory() - place.begin);
  }

 private:
  std::vector<std::unique_ptr<char[]>> owned_;
  std::vector<const char*> blocks_;  // address of every kBlock bytes; a longer string spans several in a row
  char* head_ = nullptr;             // the block being filled
  std::uint64_t used_ = kBlock;
};

/// One string per example, in an arena. A column of empty strings takes no memory; a string equal to the previous one
/// (a context with many questions) is stored once.
class StringColumn {
 public:
  void push(std::string_view text, StringArena& arena);
  std::string_view at(std::size_t i, const StringArena& arena) const {
    return i < places_.size() ? arena.at(places_[i]) : std::string_view{};
  }
  std::uint64_t memory() const { return places_.capacity() * sizeof(StringPlace); }

  /// Empty when all strings are.
  const std::vector<StringPlace>& places() const { return places_; }
  /// A column of `count` strings at `places`, or empty strings without places.
  static StringColumn of(std::vector<StringPlace> places, std::size_t count);

 private:
  std::vector<StringPlace> places_;
  std::size_t count_ = 0;
};

/// Distinct strings with ids in order of first appearance. Open addressing over an arena.
class StringTable {
 public:
  static constexpr std::int32_t kNone = -1;

  /// The id of `text`, added when unknown.
  std::int32_t intern(std::string_view text);
  /// The id of `text`, or kNone.
  std::int32_t find(std::string_view text) const;
  std::string_view at(std::int32_t id) const { return arena_.at(places_[static_cast<std::size_t>(id)]); }
  std::size_t size() const { return places_.size(); }
  bool empty() const { return places_.empty(); }
  std::uint64_t memory() const;

 private:
  std::size_t slot_of(std::string_view text) const;
  void grow();

  StringArena arena_;
  std::vector<StringPlace> places_;
  std::vector<std::int32_t> slots_;  // a power of two; kNone when free
};

}  // namespace chorus::inline data
