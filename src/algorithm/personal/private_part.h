#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/config/config_visitor.h"
#include "core/ports/message.h"
#include "core/ports/workbench.h"
#include "core/tensor/layout.h"

namespace chorus::inline personal {

/// Which parameters stay with the clients. A part is one of these words, or a name:
///
///     embeddings, head, layers       by position in the network
///     3, 0-5                         layers by number, counted from the input
///     attached                       what the tuning adds: adapters, low-rank factors, prefixes
///     norms, biases                  layer norms (weights and biases); every bias
///     classifier, bert.pooler        a parameter or module by its name, or the end of it
///     *lora_B*                       a name with * for anything
///
/// `private` lists what stays; alternatively `shared` lists what travels, and everything else stays.
struct PartConfig {
  std::vector<std::string> own = {};     ///< the key `private`
  std::vector<std::string> shared = {};  ///< the key `shared`

  void describe(ConfigVisitor& visitor);
  /// ConfigError when `shared` is given and `private` is not what it is by default.
  void refuse_both(const PartConfig& defaults) const;
};

/// The two parts of the trainable parameters: [P] = shared [S] and private [P - S], each in the order of the vector.
/// Both ends derive it from the same layout, so only shared elements travel.
///
///     const PrivatePart part(config, layout);
///     at::Tensor travels = part.shared_of(model);          // [S], or [C, S] of [C, P]
class PrivatePart {
 public:
  /// ConfigError for a part that matches no trainable parameter, and when nothing is private or nothing is shared.
  PrivatePart(const PartConfig& config, const Layout& layout);

  std::int64_t shared_size() const { return shared_size_; }
  std::int64_t private_size() const { return private_size_; }
  /// For TrainWish::frozen.
  const std::vector<FlatRange>& shared_ranges() const { return shared_; }
  const std::vector<FlatRange>& private_ranges() const { return private_; }

  at::Tensor shared_of(const at::Tensor& whole) const;
  at::Tensor private_of(const at::Tensor& whole) const;
  /// [P] or [C, P] from its parts.
  at::Tensor join(const at::Tensor& shared, const at::Tensor& own) const;
  /// Writes the shared elements into `whole`.
  void put_shared(const at::Tensor& shared, const at::Tensor& whole) const;

 private:
  std::vector<FlatRange> shared_, private_;
  std::int64_t shared_size_ = 0, private_size_ = 0;
};

/// A configuration in a request, and its parts for a client's network: DataError when it does not fit.
void write_parts(const PartConfig& config, Message& body);
PrivatePart read_parts(const Message& body, const Layout& layout);

}  // namespace chorus::inline personal
