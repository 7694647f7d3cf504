#include "application/text/sentencepiece_model.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "application/text/tokenizer_spec.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace chorus::inline text {

namespace {

/// The fields of one protobuf message, in file order.
class Fields {
 public:
  Fields(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  bool next() {
    if (at_ >= bytes_.size()) return false;
    const std::uint64_t key = varint();
    number = static_cast<int>(key >> 3 & 0x1FFFFFFF);
    wire = static_cast<int>(key & 7);
    switch (wire) {
      case 0:
        value = varint();
        return true;
      case 1:
        text = take(8);
        return true;
      case 2:
        text = take(varint());
        return true;
      case 5:
        text = take(4);
        return true;
      default:
        fail("a field of a kind that does not exist");
    }
  }

  /// The present field as what the schema says it is.
  std::string_view bytes() const {
    if (wire != 2) fail("a field of another type than it should have");
    return text;
  }
  std::uint64_t integer() const {
    if (wire != 0) fail("a field of another type than it should have");
    return value;
  }
  float real() const {
    if (wire != 5) fail("a field of another type than it should have");
    std::uint32_t bits = 0;
    std::memcpy(&bits, text.data(), 4);
    return std::bit_cast<float>(bits);
  }
  [[noreturn]] void fail(std::string_view reason) const {
    throw DataError(fmt::format("{}: not a SentencePiece model, or a damaged one: {} before byte {} of its part", file_,
                                reason, at_));
  }

  int number = 0;
  int wire = 0;

 private:
  std::uint64_t varint() {
    std::uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ >= bytes_.size()) fail("it ends inside a number");
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      result |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return result;
    }
    fail("a number that is too long");
  }
  std::string_view take(std::uint64_t length) {
    if (length > bytes_.size() - at_) fail("it ends inside a field");
    const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(length));
    at_ += static_cast<std::size_t>(length);
    return taken;
  }

  std::string_view bytes_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::uint64_t value = 0;
  std::string_view text;
};

SentencePieceModel::Piece read_piece(std::string_view bytes, const std::string& file) {
  SentencePieceModel::Piece piece;
  for (Fields f(bytes, file); f.next();) {
    if (f.number == 1) piece.text = std::string(f.bytes());
    if (f.number == 2) piece.score = f.real();
    if (f.number == 3) {
      if (f.integer() < 1 || f.integer() > 6) f.fail("a piece of a type that does not exist");
      piece.type = static_cast<SentencePieceModel::PieceType>(f.integer());
    }
  }
  if (!utf8::valid(piece.text)) throw DataError(fmt::format("{}: a piece of the vocabulary is not UTF-8", file));
  return piece;
}

void read_trainer(std::string_view bytes, const std::string& file, SentencePieceModel& model) {
  for (Fields f(bytes, file); f.next();) {
    if (f.number == 3) {
      if (f.integer() < 1 || f.integer() > 4) f.fail("a model of a type that does not exist");
      model.type = static_cast<SentencePieceModel::Type>(f.integer());
    }
    if (f.number == 35) model.byte_fallback = f.integer() != 0;
  }
}

void read_normalizer(std::string_view bytes, const std::string& file, SentencePieceModel& model) {
  for (Fields f(bytes, file); f.next();) {
    if (f.number == 2) model.charsmap = std::string(f.bytes());
    if (f.number == 3) model.add_dummy_prefix = f.integer() != 0;
    if (f.number == 4) model.remove_extra_whitespaces = f.integer() != 0;
  }
}

}  // namespace

SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& file) {
  if (bytes.empty()) throw DataError(fmt::format("{}: is empty", file));
  SentencePieceModel model;
  for (Fields f(bytes, file); f.next();) {
    if (f.number == 1) model.pieces.push_back(read_piece(f.bytes(), file));
    if (f.number == 2) read_trainer(f.bytes(), file, model);
    if (f.number == 3) read_normalizer(f.bytes(), file, model);
    if (model.pieces.size() > kMaxTokens) f.fail("more pieces than a vocabulary can have");
  }
  if (model.pieces.empty()) throw DataError(fmt::format("{}: no vocabulary in this SentencePiece model", file));
  bool found = false;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != SentencePieceModel::PieceType::kUnknown) continue;
    model.unknown = static_cast<std::int32_t>(id);
    found = true;
  }
  if (!found) throw DataError(fmt::format("{}: the vocabulary has no piece for unknown characters (<unk>)", file));
  return model;
}

}  // namespace chorus::inline text
