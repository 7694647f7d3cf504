#include "algorithm/personal/private_part.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>

#include "core/base/error.h"

namespace chorus::inline personal {
namespace {

using Matcher = std::function<bool(const ParamSpec&)>;

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// LayerNorm, layer_norm, sa_layer_norm, layernorm_embedding, ln_1, ln_f, ...
bool is_norm(const ParamSpec& spec) {
  std::string name;
  for (const char c : spec.name) name += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return contains(name, "layernorm") || contains(name, "layer_norm") || contains("." + name, ".ln_");
}

// Without exponential time in the number of stars: a pattern may come from a peer.
bool glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, back = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      back = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++back;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// "classifier" names "classifier.weight", "pooler.dense" names "bert.pooler.dense.bias".
bool is_named(const std::string& parameter, const std::string& word) {
  return contains("." + parameter + ".", "." + word + ".");
}

// "3" or "0-5".
bool layer_range(const std::string& word, int& first, int& last) {
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, first);
  if (error != std::errc() || first < 0) return false;
  last = first;
  if (at == end) return true;
  if (*at != '-') return false;
  const auto [stop, wrong] = std::from_chars(at + 1, end, last);
  return wrong == std::errc() && stop == end && last >= first;
}

Matcher matcher_of(const std::string& word) {
  if (word == "embeddings") return [](const ParamSpec& spec) { return spec.layer == kEmbeddingLayer; };
  if (word == "head") return [](const ParamSpec& spec) { return spec.layer == kHeadLayer; };
  if (word == "layers") return [](const ParamSpec& spec) { return spec.layer >= 0 && spec.layer != kHeadLayer; };
  if (word == "attached") return [](const ParamSpec& spec) { return spec.attached; };
  if (word == "norms") return is_norm;
  if (word == "biases") return [](const ParamSpec& spec) { return spec.name.ends_with(".bias"); };
  int first = 0, last = 0;
  if (layer_range(word, first, last)) {
    return [first, last](const ParamSpec& spec) {
      return spec.layer != kHeadLayer && spec.layer >= first && spec.layer <= last;
    };
  }
  if (contains(word, "*")) return [word](const ParamSpec& spec) { return glob(word, spec.name); };
  return [word](const ParamSpec& spec) { return is_named(spec.name, word); };
}

// The names of trainable modules, without layer numbers.
std::string known_names(const Layout& layout) {
  std::set<std::string> names;
  for (const ParamSpec& spec : layout.specs()) {
    if (!spec.trainable) continue;
    const std::string module = spec.name.substr(0, spec.name.rfind('.'));
    names.insert(module.substr(module.rfind('.') + 1));
  }
  std::vector<std::string> first(names.begin(), names.end());
  const bool more = first.size() > 12;
  first.resize(std::min<std::size_t>(first.size(), 12));
  return fmt::format("{}{}", fmt::join(first, ", "), more ? ", ..." : "");
}

at::Tensor gathered(const std::vector<FlatRange>& ranges, const at::Tensor& whole) {
  std::vector<at::Tensor> parts;
  for (const FlatRange& range : ranges) parts.push_back(whole.narrow(-1, range.begin, range.end - range.begin));
  return at::cat(parts, -1);
}

void scatter(const std::vector<FlatRange>& ranges, const at::Tensor& part, const at::Tensor& whole) {
  std::int64_t next = 0;
  for (const FlatRange& range : ranges) {
    const std::int64_t size = range.end - range.begin;
    whole.narrow(-1, range.begin, size).copy_(part.narrow(-1, next, size));
    next += size;
  }
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + '\n';
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace

void PartConfig::describe(ConfigVisitor& visitor) {
  visitor.field("private", own, "what stays with the clients: head, embeddings, 0-3, norms, attached, or names");
  visitor.field("shared", shared, "instead of `private`: what travels; everything else stays");
}

void PartConfig::refuse_both(const PartConfig& defaults) const {
  if (shared.empty() || own == defaults.own) return;
  throw ConfigError("algorithm.private and algorithm.shared are both given; keep one, the other follows from it");
}

PrivatePart::PrivatePart(const PartConfig& config, const Layout& layout) {
  const bool by_shared = !config.shared.empty();
  const std::vector<std::string>& words = by_shared ? config.shared : config.own;
  const char* key = by_shared ? "shared" : "private";
  if (words.empty()) throw ConfigError("algorithm.private is empty; give what stays with the clients, or `shared`");
  std::vector<Matcher> matchers;
  for (const std::string& word : words) {
    matchers.push_back(matcher_of(word));
    const Matcher& matches = matchers.back();
    const auto& specs = layout.specs();
    if (std::none_of(specs.begin(), specs.end(), [&](const ParamSpec& s) { return s.trainable && matches(s); })) {
      throw ConfigError(
          fmt::format("algorithm.{}: \"{}\" matches nothing that trains; give embeddings, head, layers, a layer's "
                      "number, attached, "
                      "norms, biases, a pattern with *, or a name such as {}",
                      key, word, known_names(layout)));
    }
  }
  struct Piece {
    FlatRange range;
    bool shared;
  };
  std::vector<Piece> pieces;
  for (const ParamSpec& spec : layout.specs()) {
    if (!spec.trainable) continue;
    const bool listed = std::any_of(matchers.begin(), matchers.end(), [&](const Matcher& m) { return m(spec); });
    pieces.push_back({{spec.offset, spec.offset + spec.count}, listed == by_shared});
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.range.begin < b.range.begin; });
  for (const Piece& piece : pieces) {
    std::vector<FlatRange>& ranges = piece.shared ? shared_ : private_;
    (piece.shared ? shared_size_ : private_size_) += piece.range.end - piece.range.begin;
    if (!ranges.empty() && ranges.back().end == piece.range.begin) {
      ranges.back().end = piece.range.end;
    } else {
      ranges.push_back(piece.range);
    }
  }
  if (shared_.empty()) {
    throw ConfigError(fmt::format("algorithm.{}: nothing would be shared; use algorithm: local, or keep less", key));
  }
  if (private_.empty()) {
    throw ConfigError(fmt::format("algorithm.{}: nothing would be private; use algorithm: fedavg, or keep more", key));
  }
}

at::Tensor PrivatePart::shared_of(const at::Tensor& whole) const { return gathered(shared_, whole); }
at::Tensor PrivatePart::private_of(const at::Tensor& whole) const { return gathered(private_, whole); }

at::Tensor PrivatePart::join(const at::Tensor& shared, const at::Tensor& own) const {
  std::vector<std::int64_t> shape = (own.dim() > shared.dim() ? own : shared).sizes().vec();
  shape.back() = shared_size_ + private_size_;
  const at::Tensor whole = at::empty(shape, shared.options());
  scatter(shared_, shared, whole);
  scatter(private_, own, whole);
  return whole;
}

void PrivatePart::put_shared(const at::Tensor& shared, const at::Tensor& whole) const {
  scatter(shared_, shared, whole);
}

void write_parts(const PartConfig& config, Message& body) {
  body.texts["private"] = joined(config.own);
  body.texts["shared"] = joined(config.shared);
}

PrivatePart read_parts(const Message& body, const Layout& layout) {
  try {
    return PrivatePart({split(body.text("private")), split(body.text("shared"))}, layout);
  } catch (const ConfigError& error) {
    throw DataError(error.what());
  }
}

}  // namespace chorus::inline personal
