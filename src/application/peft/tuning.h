#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "application/models/model.h"
#include "application/models/pretrained.h"
#include "core/config/registry.h"
#include "core/ports/variant.h"

namespace chorus::inline peft {

/// Which part of a network trains, and what is attached to it. Only trainable parameters travel.
///
///     const auto tuning = Choice<Tunings>("lora").make();
///     tuning->attach(*model, {});          // before Params are made
///
/// A new one is a pair of files and a Registration.
class Tuning {
 public:
  static constexpr std::string_view kKind = "tuning";
  virtual ~Tuning() = default;

  /// Attaches this variant and freezes the rest. ConfigError if it does not fit the model.
  virtual void attach(Model& model, const Variant& variant) const = 0;
  /// Depth and width of Variant{} for a model with `layers` layers.
  virtual Variant whole(int layers) const = 0;
  /// Widths are multiples of it.
  virtual int unit() const { return 1; }
  /// True if the network's own layers never change, so that all variants share their weights.
  virtual bool keeps_network() const { return true; }
  /// The settings of a variant in adapter_config.json (application/peft/adapter_folder.h), as a JSON object.
  virtual std::string settings_json(const Model& model, const Variant& variant) const;
  /// Whether the updates can be merged into the network's own weights.
  virtual bool merges() const { return false; }
  /// The scale of the update in the module of this name ("bert.encoder.layer.0.attention.self.query").
  virtual double scale(const std::string&) const { return 0; }
};

using Tunings = Registry<Tuning>;

/// Which part of the head trains beside the attachments.
enum class HeadPart {
  kAnswers,  ///< the last layer of a classifier; a pretrained pooler is frozen, a new one is the identity
  kAll,      ///< including the pooler
  kNone
};
void describe_head_part(ConfigVisitor& visitor, HeadPart& part);

/// Whether a parameter of the head trains under `part`. Language models' heads count as kNone unless kAll.
bool trains_in_head(const ParamSpec& spec, const Model& model, HeadPart part);

/// The top `depth` layers' slots, lowest first. ConfigError when the model has fewer layers, or none to attach to.
std::vector<LayerSlots> top_slots(Model& model, int depth, std::string_view method);

/// `configured` layers, or all by default; checked against the model.
int depth_of(const Variant& variant, std::optional<std::int64_t> configured, int layers);

/// Makes frozen matrices of the head that no checkpoint has (a new pooler) the identity.
void settle_new_frozen(const LoadReport& report, const Params& params);

}  // namespace chorus::inline peft
