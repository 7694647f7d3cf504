#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::inline text {

/// The parts of a spiece.model (sentencepiece_model.proto) that encoding needs. Parsed here with every length checked,
/// so that training T5 needs neither sentencepiece nor protobuf.
struct SentencePieceModel {
  enum class Type : std::uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };
  enum class PieceType : std::uint8_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
  };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::kNormal;
  };

  std::vector<Piece> pieces;  ///< by id
  Type type = Type::kUnigram;
  bool byte_fallback = false;
  std::int32_t unknown = 0;  ///< id of the piece of type kUnknown
  std::string charsmap;      ///< normalizer_spec.precompiled_charsmap
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
};

/// DataError, with the file's name, when the bytes are truncated, damaged or not a SentencePiece model.
SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& file);

}  // namespace chorus::inline text
