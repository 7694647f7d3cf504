#include "core/files/torch_pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/byte_reader.h"
#include "core/base/error.h"
#include "core/files/pickle.h"
#include "core/files/stored_zip.h"

namespace chorus::inline files {
namespace {

using Bytes = std::span<const std::byte>;
using Members = std::map<std::string, Bytes, std::less<>>;
using Value = Pickle::Value;

constexpr size_t kMaxPickle = 16 << 20;  // of the list of tensors; the elements are elsewhere in the zip
constexpr size_t kMaxRank = 64;

constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::string_view kTypeTag = "torch.jit._pickle.restore_type_tag";  // LibTorch's own pickler adds it
constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor";
constexpr std::string_view kRebuildTensorV2 = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";

std::optional<StoredType> storage_type(std::string_view name) {
  using enum StoredType;
  static constexpr std::array<std::pair<std::string_view, StoredType>, 10> kClasses = {
      {{"torch.FloatStorage", kF32},
       {"torch.HalfStorage", kF16},
       {"torch.BFloat16Storage", kBF16},
       {"torch.DoubleStorage", kF64},
       {"torch.LongStorage", kI64},
       {"torch.IntStorage", kI32},
       {"torch.ShortStorage", kI16},
       {"torch.CharStorage", kI8},
       {"torch.ByteStorage", kU8},
       {"torch.BoolStorage", kBool}}};
  for (const auto& [known, type] : kClasses) {
    if (known == name) return type;
  }
  return std::nullopt;
}

bool allowed(std::string_view name) {
  return name == kOrderedDict || name == kTypeTag || name == kRebuildTensor || name == kRebuildTensorV2 ||
         name == kRebuildParameter || storage_type(name);
}

/// Interprets the pickle of a state_dict.
class Checkpoint {
 public:
  Checkpoint(const Pickle& pickle, const Members& members, std::string_view root, const std::string& where)
      : members_(members), root_(root), where_(where), pickle_(pickle) {}

  std::vector<PickledTensor> read() const {
    const Value& root = pickle_[pickle_.root];
    const Value& dict = is_call(root, kTypeTag) ? pickle_[arguments(root, 1, "(all)")[0]] : root;
    if (dict.kind != Value::Kind::kDict && !is_call(dict, kOrderedDict))
      throw damaged("is not a dictionary of tensors");
    std::vector<PickledTensor> out;
    std::set<std::string_view> seen;
    for (size_t i = 0; i < dict.items.size(); i += 2) {
      const Value& key = pickle_[dict.items[i]];
      if (key.kind != Value::Kind::kText) throw damaged("has a name that is not a string");
      if (!seen.insert(key.text).second) throw damaged(fmt::format("names '{}' twice", key.text));
      out.push_back(tensor(pickle_[dict.items[i + 1]], key.text));
    }
    return out;
  }

 private:
  DataError damaged(std::string_view what) const {
    return DataError(fmt::format("{}: the list of tensors {}; {}", where_, what, kConvertPickle));
  }
  DataError damaged(std::string_view name, std::string_view what) const {
    return DataError(fmt::format("{}: tensor '{}' {}; {}", where_, name, what, kConvertPickle));
  }

  bool is_call(const Value& value, std::string_view callee) const {
    return value.kind == Value::Kind::kCall && pickle_[value.parts[0]].kind == Value::Kind::kGlobal &&
           pickle_[value.parts[0]].text == callee;
  }

  /// The arguments of a call, at least `count` of them.
  const std::vector<Pickle::Ref>& arguments(const Value& call, size_t count, std::string_view name) const {
    const Value& tuple = pickle_[call.parts[1]];
    if (tuple.kind != Value::Kind::kTuple || tuple.items.size() < count) throw damaged(name, "lacks a part");
    return tuple.items;
  }

  std::vector<int64_t> sizes(const Value& tuple, std::string_view name) const {
    if (tuple.kind != Value::Kind::kTuple || tuple.items.size() > kMaxRank)
      throw damaged(name, "has a shape that is not a tuple");
    std::vector<int64_t> out;
    for (const Pickle::Ref ref : tuple.items) {
      const Value& item = pickle_[ref];
      if (item.kind != Value::Kind::kInt || item.number < 0)
        throw damaged(name, "has a shape or strides that are not sizes");
      out.push_back(item.number);
    }
    return out;
  }

  struct Storage {
    StoredType type;
    int64_t elements;
    Bytes bytes;
  };

  /// ('storage', torch.FloatStorage, key, device, elements); the elements are in the member data/key. The old format
  /// adds None, or a view into another storage, which PyTorch has not written since 0.4.
  Storage storage(const Value& value, std::string_view name) const {
    const Value* id = value.kind == Value::Kind::kPersistent ? &pickle_[value.parts[0]] : nullptr;
    if (!id || id->kind != Value::Kind::kTuple || id->items.size() < 5 || id->items.size() > 6)
      throw damaged(name, "has no storage");
    if (id->items.size() == 6 && pickle_[id->items[5]].kind != Value::Kind::kNothing)
      throw damaged(name, "is a view of another storage");
    const Value& type_name = pickle_[id->items[1]];
    const Value& key = pickle_[id->items[2]];
    const Value& elements = pickle_[id->items[4]];
    const auto type = type_name.kind == Value::Kind::kGlobal ? storage_type(type_name.text) : std::nullopt;
    if (!type || key.kind != Value::Kind::kText || elements.kind != Value::Kind::kInt || elements.number < 0)
      throw damaged(name, "has an invalid storage description");

    const auto member = members_.find(fmt::format("{}data/{}", root_, key.text));
    if (member == members_.end())
      throw damaged(name, fmt::format("needs storage '{}', which the file lacks", key.text));
    const auto held = static_cast<int64_t>(member->second.size() / bytes_of(*type));
    if (elements.number > held)
      throw damaged(name, fmt::format("needs {} elements of storage '{}', but the file holds {}", elements.number,
                                      key.text, held));
    return {*type, elements.number, member->second};
  }

  /// _rebuild_tensor_v2(storage, offset, shape, strides, ...), perhaps within _rebuild_parameter(tensor, ...).
  PickledTensor tensor(const Value& value, const std::string& name) const {
    const bool parameter = is_call(value, kRebuildParameter);
    const Value& call = parameter ? pickle_[arguments(value, 1, name)[0]] : value;
    if (!is_call(call, kRebuildTensorV2) && !is_call(call, kRebuildTensor))
      throw damaged(fmt::format("holds '{}', which is not a tensor: only a model's state_dict can be read", name));
    const auto& parts = arguments(call, 4, name);
    const Storage from = storage(pickle_[parts[0]], name);
    const Value& offset = pickle_[parts[1]];
    if (offset.kind != Value::Kind::kInt || offset.number < 0)
      throw damaged(name, "has no valid offset into its storage");

    PickledTensor out;
    out.name = name;
    out.type = from.type;
    out.shape = sizes(pickle_[parts[2]], name);
    out.strides = sizes(pickle_[parts[3]], name);
    out.bytes = reached(out, from, offset.number);
    return out;
  }

  /// The bytes from the first to the last element. At most as many elements as the storage has: with strides of 0 a few
  /// bytes could describe terabytes.
  Bytes reached(const PickledTensor& tensor, const Storage& from, int64_t offset) const {
    const auto elements = elements_of(tensor.shape, tensor.type);
    if (!elements || tensor.strides.size() != tensor.shape.size() || *elements > from.elements)
      throw damaged(tensor.name, fmt::format("has the impossible shape {}", shape_text(tensor.shape)));
    if (*elements == 0) return {};
    int64_t last = offset;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      int64_t reach = 0;
      if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &reach) ||
          __builtin_add_overflow(last, reach, &last))
        throw damaged(tensor.name, "has impossible strides");
    }
    if (last >= from.elements)
      throw damaged(tensor.name, fmt::format("of shape {} reaches beyond its storage", shape_text(tensor.shape)));
    const size_t width = bytes_of(from.type);
    return from.bytes.subspan(static_cast<size_t>(offset) * width, static_cast<size_t>(last - offset + 1) * width);
  }

  const Members& members_;
  std::string_view root_;
  const std::string& where_;
  const Pickle& pickle_;
};

/// The format before PyTorch 1.6: pickles of a magic number, a version, the machine, the tensors and the keys of their
/// storages, then for each key the number of elements and the elements.
class OldFormat {
 public:
  // Of the magic number, 0x1950a86a20f9469cfc6c.
  static constexpr std::string_view kMagic{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15};

  OldFormat(Bytes file, const std::string& where) : rest_(file.subspan(kMagic.size())), where_(where) {}

  std::vector<PickledTensor> read() {
    const Pickle version = next();
    if (version[version.root].kind != Value::Kind::kInt || version[version.root].number != 1001)
      throw damaged("has an unknown version");
    require_little_endian(next());
    const Pickle tensors = next();
    const Members members = storages(tensors, next());
    return Checkpoint(tensors, members, "", where_).read();
  }

 private:
  DataError damaged(std::string_view what) const {
    return DataError(
        fmt::format("{}: the file, in the format of PyTorch before 1.6, {}; {}", where_, what, kConvertPickle));
  }

  Pickle next() {
    Pickle pickle = parse_pickle(rest_.first(std::min(rest_.size(), kMaxPickle)), allowed, where_);
    rest_ = rest_.subspan(pickle.length);
    return pickle;
  }

  void require_little_endian(const Pickle& machine) const {
    const Value& dict = machine[machine.root];
    for (size_t i = 0; dict.kind == Value::Kind::kDict && i + 1 < dict.items.size(); i += 2) {
      if (machine[dict.items[i]].text == "little_endian" && machine[dict.items[i + 1]].number == 1) return;
    }
    throw damaged("does not say that its elements are little-endian");
  }

  Members storages(const Pickle& tensors, const Pickle& keys) {
    std::map<std::string_view, StoredType> types;
    for (const Value& value : tensors.values) {
      if (value.kind != Value::Kind::kPersistent) continue;
      const Value& id = tensors[value.parts[0]];
      if (id.kind != Value::Kind::kTuple || id.items.size() < 3) throw damaged("has no storage for a tensor");
      const Value& type_name = tensors[id.items[1]];
      const auto type = type_name.kind == Value::Kind::kGlobal ? storage_type(type_name.text) : std::nullopt;
      if (!type) throw damaged("has a storage of an unknown type");
      types.emplace(tensors[id.items[2]].text, *type);
    }
    const Value& list = keys[keys.root];
    if (list.kind != Value::Kind::kList) throw damaged("does not list its storages");
    Members members;
    ByteReader reader(rest_);
    for (const Pickle::Ref ref : list.items) {
      const auto type = types.find(keys[ref].text);
      if (type == types.end()) throw damaged("lists a storage that no tensor has");
      const auto elements = reader.take<uint64_t>();
      const size_t width = bytes_of(type->second);
      if (elements > reader.left() / width) throw damaged("ends in the middle of a storage");
      members.emplace(fmt::format("data/{}", keys[ref].text), reader.bytes(elements * width));
    }
    if (!reader.ok()) throw damaged("ends before its storages");
    return members;
  }

  Bytes rest_;
  const std::string& where_;
};

}  // namespace

std::vector<PickledTensor> parse_torch_checkpoint(Bytes file, const std::string& where) {
  if (ByteReader(file).text(OldFormat::kMagic.size()) == OldFormat::kMagic) return OldFormat(file, where).read();
  const Members members = read_stored_zip(file, where);
  constexpr std::string_view kList = "data.pkl";
  for (const auto& [name, bytes] : members) {
    if (!name.ends_with(kList)) continue;
    const auto root = std::string_view(name).substr(0, name.size() - kList.size());
    if (!root.empty() && root.find('/') != root.size() - 1) continue;
    if (bytes.size() > kMaxPickle)
      throw DataError(fmt::format("{}: the list of tensors is {} bytes long, more than the {} allowed", where,
                                  bytes.size(), kMaxPickle));
    const auto order = members.find(fmt::format("{}byteorder", root));
    if (order != members.end() && ByteReader(order->second).text(order->second.size()) == "big")
      throw DataError(fmt::format("{}: the elements are big-endian; {}", where, kConvertPickle));
    return Checkpoint(parse_pickle(bytes, allowed, where), members, root, where).read();
  }
  throw DataError(fmt::format("{}: the zip file has no data.pkl, so torch.save did not write it", where));
}

}  // namespace chorus::inline files
