#include "core/files/pickle.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "core/base/byte_reader.h"
#include "core/base/error.h"

namespace chorus::inline files {
namespace {

using Ref = Pickle::Ref;
using Value = Pickle::Value;

class Machine {
 public:
  Machine(const std::function<bool(std::string_view)>& allowed, const std::string& where)
      : allowed_(allowed), where_(where) {}

  Pickle run(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    while (true) {
      const auto code = reader.take<uint8_t>();
      if (reader.ok() && code == '.') break;
      if (reader.ok()) step(code, reader);
      if (!reader.ok()) throw damaged("ends in the middle");
    }
    marks_.clear();
    pickle_.root = pop();
    pickle_.length = bytes.size() - reader.left();
    return std::move(pickle_);
  }

 private:
  DataError damaged(std::string_view what) const {
    return DataError(fmt::format("{}: the pickle {}; {}", where_, what, kConvertPickle));
  }

  void push(Value value) {
    stack_.push_back(static_cast<Ref>(pickle_.values.size()));
    pickle_.values.push_back(std::move(value));
  }
  void push_int(int64_t number) { push({.kind = Value::Kind::kInt, .number = number}); }
  void push_text(std::string_view text) { push({.kind = Value::Kind::kText, .text = std::string(text)}); }

  Ref top() const {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) throw damaged("takes from an empty stack");
    return stack_.back();
  }
  Ref pop() {
    const Ref ref = top();
    stack_.pop_back();
    return ref;
  }
  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) throw damaged("lacks a mark");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Ref> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }

  void push_tuple(size_t count) {
    std::vector<Ref> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push({.kind = Value::Kind::kTuple, .items = std::move(items)});
  }
  void append_to_list(const std::vector<Ref>& more) {
    Value& list = pickle_.values[top()];
    if (list.kind != Value::Kind::kList) throw damaged("appends to something that is not a list");
    list.items.insert(list.items.end(), more.begin(), more.end());
  }
  void set_items(const std::vector<Ref>& more) {
    Value& dict = pickle_.values[top()];
    if ((dict.kind != Value::Kind::kDict && dict.kind != Value::Kind::kCall) || more.size() % 2 != 0)
      throw damaged("sets items of something that is not a dictionary");
    dict.items.insert(dict.items.end(), more.begin(), more.end());
  }
  void push_global(const std::string& name) {
    if (!allowed_(name))
      throw DataError(
          fmt::format("{}: the file uses the Python object '{}', but Chorus reads only tensors; it "
                      "may be malicious; {}",
                      where_, name, kConvertPickle));
    push({.kind = Value::Kind::kGlobal, .text = name});
  }
  void recall(uint64_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) throw damaged("reads a memo entry that was never stored");
    stack_.push_back(found->second);
  }

  // The instructions have the names of Python's pickletools.
  void step(uint8_t code, ByteReader& reader) {
    if (step_atom(code, reader) || step_container(code) || step_memo(code, reader) || step_object(code, reader)) return;
    throw damaged(fmt::format("has the instruction 0x{:02x}, which tensors do not need", code));
  }

  bool step_atom(uint8_t code, ByteReader& reader) {
    switch (code) {
      case 'J':  // BININT
        return push_int(reader.take<int32_t>()), true;
      case 'K':  // BININT1
        return push_int(reader.take<uint8_t>()), true;
      case 'M':  // BININT2
        return push_int(reader.take<uint16_t>()), true;
      case 0x8a:  // LONG1
        return push_int(long_integer(reader.bytes(reader.take<uint8_t>()))), true;
      case 'X':  // BINUNICODE
        return push_text(reader.text(reader.take<uint32_t>())), true;
      case 0x8c:  // SHORT_BINUNICODE
        return push_text(reader.text(reader.take<uint8_t>())), true;
      case 'G':  // BINFLOAT
        reader.take<double>();
        [[fallthrough]];
      case 'N':   // NONE
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        return push({.number = code == 0x88 ? 1 : 0}), true;
      default:
        return false;
    }
  }

  int64_t long_integer(std::span<const std::byte> bytes) const {
    if (bytes.size() > 8) throw damaged("has an integer that does not fit in 64 bits");
    if (bytes.empty()) return 0;
    uint64_t number = 0;
    for (size_t i = 0; i < bytes.size(); ++i) number |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    const size_t spare = 64 - 8 * bytes.size();
    return static_cast<int64_t>(number << spare) >> spare;
  }

  bool step_container(uint8_t code) {
    switch (code) {
      case '(':  // MARK
        return marks_.push_back(stack_.size()), true;
      case 't':  // TUPLE
        return push({.kind = Value::Kind::kTuple, .items = pop_to_mark()}), true;
      case ')':  // EMPTY_TUPLE
        return push_tuple(0), true;
      case 0x85:  // TUPLE1
      case 0x86:  // TUPLE2
      case 0x87:  // TUPLE3
        return push_tuple(code - 0x84U), true;
      case ']':  // EMPTY_LIST
        return push({.kind = Value::Kind::kList}), true;
      case '}':  // EMPTY_DICT
        return push({.kind = Value::Kind::kDict}), true;
      case 'e':  // APPENDS
        return append_to_list(pop_to_mark()), true;
      case 'a':  // APPEND
        return append_to_list({pop()}), true;
      case 'u':  // SETITEMS
        return set_items(pop_to_mark()), true;
      case 's': {  // SETITEM
        const Ref value = pop();
        const Ref key = pop();
        return set_items({key, value}), true;
      }
      default:
        return false;
    }
  }

  bool step_memo(uint8_t code, ByteReader& reader) {
    switch (code) {
      case 'q':  // BINPUT
        return memo_[reader.take<uint8_t>()] = top(), true;
      case 'r':  // LONG_BINPUT
        return memo_[reader.take<uint32_t>()] = top(), true;
      case 0x94: {  // MEMOIZE
        const uint64_t slot = memo_.size();
        return memo_[slot] = top(), true;
      }
      case 'h':  // BINGET
        return recall(reader.take<uint8_t>()), true;
      case 'j':  // LONG_BINGET
        return recall(reader.take<uint32_t>()), true;
      default:
        return false;
    }
  }

  bool step_object(uint8_t code, ByteReader& reader) {
    switch (code) {
      case 0x80:  // PROTO
        if (reader.take<uint8_t>() > 5) throw damaged("has a protocol above 5");
        return true;
      case 0x95:  // FRAME
        return reader.take<uint64_t>(), true;
      case 'c': {  // GLOBAL
        const std::string_view module = reader.line();
        const std::string_view name = reader.line();
        if (reader.ok()) push_global(fmt::format("{}.{}", module, name));
        return true;
      }
      case 0x93: {  // STACK_GLOBAL
        const Value& name = pickle_.values[pop()];
        const Value& module = pickle_.values[pop()];
        if (name.kind != Value::Kind::kText || module.kind != Value::Kind::kText)
          throw damaged("names an object by something that is not a string");
        return push_global(fmt::format("{}.{}", module.text, name.text)), true;
      }
      case 'Q':  // BINPERSID
        return push({.kind = Value::Kind::kPersistent, .parts = {pop(), 0}}), true;
      case 'R': {  // REDUCE
        const Ref arguments = pop();
        const Ref callee = pop();
        return push({.kind = Value::Kind::kCall, .parts = {callee, arguments}}), true;
      }
      case 'b':  // BUILD: attributes of an object, such as the _metadata of a state_dict, are ignored
        pop();
        return top(), true;
      default:
        return false;
    }
  }

  const std::function<bool(std::string_view)>& allowed_;
  const std::string& where_;
  Pickle pickle_;
  std::vector<Ref> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<uint64_t, Ref> memo_;
};

}  // namespace

Pickle parse_pickle(std::span<const std::byte> bytes, const std::function<bool(std::string_view)>& allowed,
                    const std::string& where) {
  return Machine(allowed, where).run(bytes);
}

}  // namespace chorus::inline files
