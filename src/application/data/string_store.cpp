#include "application/data/string_store.h"

#include <cstring>
#include <functional>
#include <limits>

#include "core/base/error.h"

namespace chorus::inline data {

StringPlace StringArena::add(std::string_view text) {
  if (text.empty()) return {};
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw DataError("one text is longer than 4 GiB; split it into several examples");
  }
  const auto length = static_cast<std::uint32_t>(text.size());
  if (used_ + length > kBlock) {
    const std::uint64_t blocks = (length + kBlock - 1) / kBlock;
    owned_.push_back(std::make_unique<char[]>(blocks * kBlock));
    char* memory = owned_.back().get();
    const std::uint64_t begin = static_cast<std::uint64_t>(blocks_.size()) << kShift;
    for (std::uint64_t i = 0; i < blocks; ++i) blocks_.push_back(memory + i * kBlock);
    std::memcpy(memory, text.data(), length);
    head_ = memory + (blocks - 1) * kBlock;
    used_ = length - (blocks - 1) * kBlock;
    return {begin, length};
  }
  const std::uint64_t begin = ((static_cast<std::uint64_t>(blocks_.size()) - 1) << kShift) + used_;
  std::memcpy(head_ + used_, text.data(), length);
  used_ += length;
  return {begin, length};
}

StringArena StringArena::over(std::string_view content) {
  check(content.size() % kBlock == 0, "an arena must consist of whole blocks");
  StringArena arena;
  for (std::size_t begin = 0; begin < content.size(); begin += kBlock) arena.blocks_.push_back(content.data() + begin);
  return arena;
}

StringColumn StringColumn::of(std::vector<StringPlace> places, std::size_t count) {
  check(places.empty() || places.size() == count, "a column needs a place for each string");
  StringColumn column;
  column.places_ = std::move(places);
  column.count_ = count;
  return column;
}

void StringColumn::push(std::string_view text, StringArena& arena) {
  if (places_.empty() && text.empty()) {
    ++count_;
    return;
  }
  if (places_.empty()) places_.resize(count_);
  if (!places_.empty() && arena.at(places_.back()) == text) {
    places_.push_back(places_.back());
  } else {
    places_.push_back(arena.add(text));
  }
  ++count_;
}

std::size_t StringTable::slot_of(std::string_view text) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(text)&mask;
  while (slots_[slot] != kNone && at(slots_[slot]) != text) slot = (slot + 1) & mask;
  return slot;
}

void StringTable::grow() {
  slots_.assign(slots_.empty() ? 16 : slots_.size() * 2, kNone);
  for (std::size_t id = 0; id < places_.size(); ++id) {
    slots_[slot_of(arena_.at(places_[id]))] = static_cast<std::int32_t>(id);
  }
}

std::int32_t StringTable::intern(std::string_view text) {
  if (slots_.size() < 2 * (places_.size() + 1)) grow();
  std::int32_t& slot = slots_[slot_of(text)];
  if (slot == kNone) {
    check(places_.size() < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), "string table is full");
    slot = static_cast<std::int32_t>(places_.size());
    places_.push_back(arena_.add(text));
  }
  return slot;
}

std::int32_t StringTable::find(std::string_view text) const { return slots_.empty() ? kNone : slots_[slot_of(text)]; }

std::uint64_t StringTable::memory() const {
  return arena_.memory() + places_.capacity() * sizeof(StringPlace) + slots_.capacity() * sizeof(std::int32_t);
}

}  // namespace chorus::inline data
