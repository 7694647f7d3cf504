// The devices of Cai et al. 2023 (Table 3), with the values of its published notebooks.
#include <numeric>

#include "infrastructure/emulation/device_profile.h"

namespace chorus::inline emulation {
namespace {

using Numbers = std::vector<double>;

Numbers times(Numbers numbers, double factor) {
  for (double& number : numbers) number *= factor;
  return numbers;
}

// Only the ends of the memory curves are published; memory is interpolated linearly in the depth.
Numbers memory_between(double first, double last) {
  Numbers memory;
  for (int depth = 0; depth <= 12; ++depth) memory.push_back(first + (last - first) * depth / 12);
  return memory;
}

// BERT-base, batch 4, length 256, on a Jetson TX2; `slower` 1, 2 and 20 for TX2, Nano and Raspberry Pi.
DeviceProfile bert_base(const std::string& name, double slower) {
  DeviceProfile profile;
  profile.name = name;
  profile.model = "BERT-base";
  profile.full.seconds =
      times({.5325, .612, .696, .791, .883, .9713, 1.064, 1.156, 1.2465, 1.33, 1.419, 1.51, 1.7}, slower);
  profile.adapter.seconds = times({.57, .57, .63, .66, .71, .75, .79, .84, .89, .94, .99, 1.03, 1.08}, slower);
  profile.adapter_cached.seconds = times({.02, .09, .18, .27, .36, .45, .54, .63, .72, .81, .90, .99, 1.08}, slower);
  profile.full.memory = memory_between(1.2, 5.3);
  profile.adapter.memory = memory_between(1.2, 3.8);
  profile.adapter_cached.memory = memory_between(0.72, 3.8);
  return profile;
}

// DistilBERT, the same batches, on a Raspberry Pi; the other two by the same factors. Its memory is not published.
DeviceProfile distilbert(const std::string& name, double faster) {
  DeviceProfile profile;
  profile.name = name;
  profile.model = "DistilBERT";
  profile.layers = 6;
  profile.full.seconds = times({5.28, 8.02, 9.63, 11.83, 13.12, 15.03, 18.27}, 1 / faster);
  profile.full_cached.seconds = times({0.14, 2.88, 5.7, 8.04, 10.89, 14.2, 18.27}, 1 / faster);
  profile.adapter.seconds = times({7.05, 6.98, 7.85, 8.76, 9.87, 10.78, 11.65}, 1 / faster);
  profile.adapter_cached.seconds = times({0.15, 2.14, 4.27, 5.96, 7.9, 9.92, 10.94}, 1 / faster);
  return profile;
}

class BuiltIn : Registration<DeviceProfiles> {
 public:
  BuiltIn(const char* name, const char* summary, DeviceProfile (*make)(const std::string&, double), double factor)
      : Registration<DeviceProfiles>(
            name, summary, [name, make, factor] { return std::make_unique<DeviceProfile>(make(name, factor)); }) {}
};

const BuiltIn kTx2{"jetson_tx2", "NVIDIA Jetson TX2 training BERT-base (Cai et al. 2023)", bert_base, 1};
const BuiltIn kNano{"jetson_nano", "NVIDIA Jetson Nano training BERT-base (Cai et al. 2023)", bert_base, 2};
const BuiltIn kPi{"rpi_4b", "Raspberry Pi 4B training BERT-base (Cai et al. 2023)", bert_base, 20};
const BuiltIn kTx2Small{"jetson_tx2_distilbert", "NVIDIA Jetson TX2 training DistilBERT (Cai et al. 2023)", distilbert,
                        20};
const BuiltIn kNanoSmall{"jetson_nano_distilbert", "NVIDIA Jetson Nano training DistilBERT (Cai et al. 2023)",
                         distilbert, 10};
const BuiltIn kPiSmall{"rpi_4b_distilbert", "Raspberry Pi 4B training DistilBERT (Cai et al. 2023)", distilbert, 1};

}  // namespace
}  // namespace chorus::inline emulation
