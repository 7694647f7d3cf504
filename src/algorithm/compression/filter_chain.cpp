#include "algorithm/compression/filter_chain.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cfloat>
#include <cmath>
#include <cstring>

#include "algorithm/compression/bit_packing.h"
#include "algorithm/compression/number_loops.h"
#include "algorithm/compression/owning_tensor.h"
#include "core/base/byte_reader.h"

namespace chorus::inline compression {
namespace {

using Stage = Filter::Stage;

constexpr std::string_view kMagic = "CHF1";
constexpr std::size_t kMostDimensions = 8;
constexpr std::size_t kMostNumbers = 0xFFFFFFFF;  // positions are 32 bits

// The largest body for this many values, before entropy coding.
std::size_t most_body(std::size_t numbers) { return 16 * numbers + (std::size_t{1} << 20); }

struct Distance {
  double norm2 = 0, error2 = 0;
};

}  // namespace

std::string order_mistake(const FilterList& filters) {
  std::string last_name;
  Stage last = Stage::kTransform;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    const auto filter = filters[i].make();
    const std::string& name = filters[i].name();
    if (i > 0 && filter->stage() < last) {
      return fmt::format(
          "{} cannot come after {}; filters go in this order: clip and noise, leave values out, shorten them, mask, "
          "zstd",
          name, last_name);
    }
    if (i > 0 && filter->stage() == last && last > Stage::kReduce) {
      return fmt::format("{} cannot follow {}: a list has one filter of this stage", name, last_name);
    }
    if (i > 0 && last != Stage::kTransform && filter->needs_blocks()) {
      return fmt::format("{} must come first: after {} there are no matrices", name, last_name);
    }
    last = filter->stage();
    last_name = name;
  }
  return "";
}

std::string down_mistake(const FilterList& filters) {
  for (const Choice<Filters>& choice : filters) {
    const auto filter = choice.make();
    if (filter->stage() == Stage::kReduce && filter->feedback()) {
      return fmt::format(
          "{} with error feedback would send what it left out many times over, since whole models go down, not "
          "changes; "
          "set its error_feedback: false",
          choice.name());
    }
  }
  return "";
}

FilterList without_answers(const FilterList& filters) {
  FilterList result = filters;
  std::erase_if(result, [](const Choice<Filters>& choice) { return choice.make()->answer_size() > 0; });
  return result;
}

FilterChain::FilterChain(const FilterList& filters) {
  const std::string mistake = order_mistake(filters);
  if (!mistake.empty()) throw ConfigError("compression: " + mistake);
  for (const Choice<Filters>& choice : filters) {
    filters_.push_back(choice.make());
    if (filters_.back()->stage() == Stage::kTransform) first_ = filters_.size();
    names_ += (names_.empty() ? "" : "+") + choice.name();
    // The last wish wins: that of a quantizer after a sparsifier.
    if (const auto wish = filters_.back()->feedback()) feedback_ = wish;
  }
  check(names_.size() < 256, "a list of filters is too long");
}

bool FilterChain::lossless() const { return empty() || filters_.front()->stage() >= Stage::kMask; }

bool FilterChain::remembers() const {
  if (feedback_) return true;
  for (const auto& filter : filters_) {
    if (filter->remembers()) return true;
  }
  return false;
}

FilterContext FilterChain::at_filter(const FilterContext& context, std::size_t index) const {
  FilterContext result = context;
  result.key.step = mix(context.key.step, index);
  result.place = context.place + std::to_string(index) + ".";
  result.memory = nullptr;
  return result;
}

Numbers FilterChain::transform(std::span<const float> values, const FilterContext& context) const {
  Numbers result(values.begin(), values.end());
  for (std::size_t i = 0; i < first_; ++i) result = filters_[i]->transform(result, at_filter(context, i));
  check(result.size() == values.size(), "a transform keeps the number of values");
  if (!(max_magnitude(result) <= FLT_MAX)) throw DataError("some of its values are not finite");
  return result;
}

Packed FilterChain::encode(std::span<const float> original, const Input& input) const {
  Numbers transformed;
  if (first_ > 0) transformed = transform(original, input.context);
  const std::span<const float> values = first_ > 0 ? std::span<const float>(transformed) : original;
  const double norm2 = sum_of_squares(values);  // summed in double: cannot overflow
  if (!std::isfinite(norm2)) throw DataError("some of its numbers are not finite");
  check(values.size() <= kMostNumbers && input.shape.size() <= kMostDimensions, "a vector is too large to be packed");
  ClientState* memory = input.context.memory;
  const std::string error_name = input.context.place + "error";
  at::Tensor old;  // e, if one of this size exists
  if (feedback_ && memory != nullptr) {
    const auto found = memory->find(error_name);
    if (found != memory->end() && found->second.scalar_type() == at::kFloat &&
        found->second.numel() == static_cast<std::int64_t>(values.size())) {
      old = found->second.cpu().contiguous();
    }
  }
  Numbers compensated;  // v
  std::span<const float> to_send = values;
  if (old.defined()) {
    const auto* e = old.data_ptr<float>();
    const auto alpha = static_cast<float>(feedback_->compensation);
    compensated.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) compensated[i] = values[i] + alpha * e[i];
    to_send = compensated;
  }

  Packed result;
  Filter::Bytes& out = result.bytes;
  append_raw(out, kMagic.data(), kMagic.size());
  out.push_back(static_cast<std::byte>(names_.size()));
  append_raw(out, names_.data(), names_.size());
  out.push_back(static_cast<std::byte>(input.relative ? 1 : 0));
  out.push_back(static_cast<std::byte>(input.shape.size()));
  for (const std::int64_t size : input.shape) append_number(out, static_cast<std::uint64_t>(size));
  const std::size_t measures = out.size();
  append_number(out, Distance{});
  const std::size_t body = out.size();

  ClientState draft;  // draft of the filters' memory: nothing is kept when one of them fails
  FilterContext context = input.context;
  Numbers left;
  bool packed = false;
  std::size_t stage = first_;
  for (; stage < filters_.size() && filters_[stage]->stage() < Stage::kMask; ++stage) {
    const Filter& filter = *filters_[stage];
    context = at_filter(input.context, stage);
    if (stage > first_) context.blocks = {};
    if (memory != nullptr && filter.remembers()) {
      for (const auto& [name, tensor] : *memory) {
        if (name.starts_with(context.place)) draft[name] = tensor;
      }
      context.memory = &draft;
    } else {
      context.memory = nullptr;
    }
    const std::size_t begin = out.size();
    packed = filter.stage() == Stage::kPack;
    if (!packed) append_number(out, std::uint64_t{0});
    Numbers next = filter.encode(to_send, out, context);
    if (!packed) {
      const std::uint64_t length = out.size() - begin - sizeof(std::uint64_t);
      std::memcpy(out.data() + begin, &length, sizeof(length));
    }
    left = std::move(next);
    to_send = left;
  }
  if (!packed) append_raw(out, to_send.data(), to_send.size() * sizeof(float));

  // Large vectors: free early.
  compensated = {};
  left = {};
  Numbers arrived = restore(first_, std::span(out).subspan(body), values.size());
  const Distance far{norm2, squared_distance(values, arrived)};
  std::memcpy(out.data() + measures, &far, sizeof(far));
  result.norm2 = far.norm2;
  result.error2 = far.error2;
  if (stage < filters_.size() && filters_[stage]->stage() == Stage::kMask) {
    filters_[stage]->mask(std::span(out).subspan(body), at_filter(input.context, stage));
    ++stage;
  }
  if (stage < filters_.size()) {
    const Filter::Bytes squeezed = filters_[stage]->squeeze(std::span(out).subspan(body));
    out.resize(body);
    append_raw(out, squeezed.data(), squeezed.size());
  }

  if (memory == nullptr) return result;
  for (auto& [name, tensor] : draft) (*memory)[name] = std::move(tensor);
  if (feedback_) {
    const float* e = old.defined() ? old.data_ptr<float>() : nullptr;
    const auto beta = static_cast<float>(feedback_->decay);
    for (std::size_t i = 0; i < values.size(); ++i) {
      arrived[i] = (e != nullptr ? beta * e[i] : 0) + (values[i] - arrived[i]);
    }
    (*memory)[error_name] = tensor_of(std::move(arrived), {static_cast<std::int64_t>(values.size())}, at::kFloat);
  }
  return result;
}

Numbers FilterChain::restore(std::size_t stage, std::span<const std::byte> bytes, std::size_t size) const {
  if (stage == filters_.size() || filters_[stage]->stage() >= Stage::kMask) {
    if (bytes.size() != size * sizeof(float)) {
      throw DataError(fmt::format("{} numbers should be {} bytes, not {}", size, size * sizeof(float), bytes.size()));
    }
    Numbers values(size);
    if (size > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  const Filter& filter = *filters_[stage];
  if (filter.stage() == Stage::kPack) return filter.decode(bytes, {}, size);
  ByteReader reader(bytes);
  const auto length = reader.take<std::uint64_t>();
  const auto own = reader.bytes(length);
  if (!reader.ok()) throw DataError("packed bytes end too early");
  const std::size_t left = filter.left(own, size);
  return filter.decode(own, restore(stage + 1, bytes.subspan(sizeof(length) + own.size()), left), size);
}

Unpacked FilterChain::decode(std::span<const std::byte> bytes, std::size_t most, const FilterContext& context) const {
  ByteReader reader(bytes);
  if (reader.text(kMagic.size()) != kMagic) throw DataError("these are not packed numbers");
  const std::string_view names = reader.text(reader.take<std::uint8_t>());
  if (!reader.ok()) throw DataError("packed bytes end too early");
  if (names != names_) {
    throw DataError(fmt::format("packed by other filters than this side has ({})", empty() ? "none" : names_));
  }
  Unpacked result;
  const auto flags = reader.take<std::uint8_t>();
  const auto dimensions = reader.take<std::uint8_t>();
  if (flags > 1 || dimensions > kMostDimensions) throw DataError("the head of packed numbers is damaged");
  result.relative = flags == 1;
  std::size_t size = 1;
  for (int d = 0; d < dimensions; ++d) {
    const auto extent = reader.take<std::uint64_t>();
    // Compare before multiplying: every partial product is at most `most`.
    if (extent != 0 && (extent > most || size > most / extent)) {
      throw DataError(fmt::format("packed numbers are more than the {} that are expected", most));
    }
    size *= extent;
    result.shape.push_back(static_cast<std::int64_t>(extent));
  }
  result.norm2 = reader.take<double>();
  result.error2 = reader.take<double>();
  if (!reader.ok()) throw DataError("packed bytes end too early");
  if (!std::isfinite(result.norm2) || !std::isfinite(result.error2) || result.norm2 < 0 || result.error2 < 0) {
    throw DataError("the head of packed numbers is damaged");
  }
  if (size > std::min(most, kMostNumbers)) {
    throw DataError(fmt::format("packed numbers are more than the {} that are expected", most));
  }
  std::span<const std::byte> body = bytes.last(reader.left());
  Filter::Bytes plain;
  if (!filters_.empty() && filters_.back()->stage() == Stage::kEntropy) {
    plain = filters_.back()->unsqueeze(body, most_body(size));
    body = plain;
  }
  for (std::size_t i = first_; i < filters_.size(); ++i) {
    if (filters_[i]->stage() != Stage::kMask) continue;
    if (plain.empty()) plain.assign(body.begin(), body.end());
    filters_[i]->unmask(plain, at_filter(context, i));
    body = plain;
  }
  result.values = restore(first_, body, size);
  if (!(max_magnitude(result.values) <= FLT_MAX)) throw DataError("packed numbers are not finite");
  return result;
}

}  // namespace chorus::inline compression
