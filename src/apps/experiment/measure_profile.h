#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "infrastructure/emulation/device_profile.h"

namespace chorus::inline experiment {

struct MeasureProfileRequest {
  std::filesystem::path model = {};   ///< a Hugging Face folder
  std::string name = "this machine";  ///< of the device
  std::string device = "cpu";
  std::int64_t batch_size = 4, length = 256;
  std::vector<std::int64_t> depths = {};  ///< empty: all, 0 (only the head) to the number of layers
  std::int64_t batches = 3;               ///< timed in each of three repetitions
  std::vector<TuningWay> ways = {};       ///< tables to measure
  std::function<void(const TuningWay& way, std::int64_t depth, double seconds)> report = {};  ///< after every depth
};

/// Times training on this machine as a client would do it: a text classifier on rows of exactly `length` tokens, by the
/// number of top layers that train (0: the head alone; all, in full training: the embeddings too) or that have adapters
/// of width 32. Seconds per batch are the median of three repetitions after a warm-up, which fills the cache; memory is
/// the peak of the process, where the system reports it. Bandwidth and watts keep their defaults: they are not
/// measured.
///
/// ConfigError for a depth or length that the model does not have.
DeviceProfile measure_profile(const MeasureProfileRequest& request);

}  // namespace chorus::inline experiment
