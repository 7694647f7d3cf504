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

/// Which part of a network trains, and what is attached to it for that. Only what trains travels.
///
///     const auto tuning = Choice<Tunings>("lora").make();
///     tuning->attach(*model, {});          // before Params are made
///
/// Adding one is a pair of files and a Registration.
class Tuning {
 public:
  static constexpr std::string_view kKind = "tuning";
  virtual ~Tuning() = default;

  /// Attaches what this variant has and freezes the rest. ConfigError when it does not fit the model.
  virtual void attach(Model& model, const Variant& variant) const = 0;
  /// The depth and width that Variant{} means for a model with so many layers.
  virtual Variant whole(int layers) const = 0;
  /// Widths are multiples of it.
  virtual int unit() const { return 1; }
  /// True where the network's own layers never change, so that every variant shares their weights.
  virtual bool keeps_network() const { return true; }
  /// What stands about a variant of it in adapter_config.json (application/peft/adapter_folder.h), as a JSON object.
  virtual std::string settings_json(const Model& model, const Variant& variant) const;
  /// The low-rank updates can be added to the network's own weights.
  virtual bool merges() const { return false; }
  /// Their factor in the module of this name ("bert.encoder.layer.0.attention.self.query").
  virtual double scale(const std::string&) const { return 0; }
};

using Tunings = Registry<Tuning>;

/// Which part of the head trains beside the attachments.
enum class HeadPart {
  kAnswers,  ///< the last layer of a classifier; a pretrained pooler stays, a new one passes its input on
  kAll,      ///< pooler included
  kNone
};
void describe_head_part(ConfigVisitor& visitor, HeadPart& part);

/// Whether a parameter of the head trains under `part`. Language models' heads count as kNone unless kAll.
bool trains_in_head(const ParamSpec& spec, const Model& model, HeadPart part);

/// The top `depth` layers' slots, lowest first. ConfigError when the model has fewer layers, or none to attach to.
std::vector<LayerSlots> top_slots(Model& model, int depth, std::string_view method);

/// `configured` layers, or all when it is not given; checked against the model.
int depth_of(const Variant& variant, std::optional<std::int64_t> configured, int layers);

/// Frozen matrices of the head that no checkpoint has (a new pooler) become the identity, so that they do no harm.
void settle_new_frozen(const LoadReport& report, const Params& params);

}  // namespace chorus::inline peft
