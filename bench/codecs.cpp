// Speed of the filters: encoding and decoding updates on one thread, compared with a copy of the same elements.
//
//     build/codecs [--size 20000000] [--tries 3] [--filters 'top_k, fp16']
//
// Prints one JSON object: for each list of filters the float32 bytes per second of encoding (which includes one
// decoding to measure the error) and of decoding, the best of the tries, and the compression ratio.

#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithm/compression/compression_config.h"
#include "algorithm/compression/filter_chain.h"
#include "core/config/config.h"

namespace chorus::inline bench {
namespace {

const std::vector<std::string> kLists{"[fp16]",
                                      "[bf16]",
                                      "[{name: uniform, bits: 8}]",
                                      "[{name: uniform, bits: 4}]",
                                      "[{name: qsgd, bits: 8}]",
                                      "[{name: qsgd, bits: 2}]",
                                      "[sign]",
                                      "[{name: top_k, k: 0.01}]",
                                      "[{name: random_k, k: 0.01}]"};

double best_seconds(int tries, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < tries; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

FilterList list_of(const std::string& yaml) {
  CompressionConfig config;
  ConfigDocument::parse("up: " + yaml, "codecs").fill([&](ConfigVisitor& visitor) { config.describe(visitor); });
  return config.up;
}

void measure(std::size_t size, int tries, const std::vector<std::string>& lists) {
  at::set_num_threads(1);
  RandomStream stream({.seed = 1, .purpose = "codecs"});
  std::vector<float> values(size), copy(size);
  for (float& value : values) value = static_cast<float>(stream.normal() * 1e-3);
  const double bytes = 4.0 * static_cast<double>(size);
  nlohmann::json report{{"size", size}};
  const double copying = best_seconds(tries, [&] { std::memcpy(copy.data(), values.data(), size * sizeof(float)); });
  report["copy_bytes_per_second"] = 2 * bytes / copying;
  for (const std::string& list : lists) {
    const FilterChain chain(list_of(list));
    const FilterChain::Input input{.shape = {static_cast<std::int64_t>(size)}, .relative = false, .context = {}};
    Packed packed;
    const double encoding = best_seconds(tries, [&] { packed = chain.encode(values, input); });
    const double decoding = best_seconds(tries, [&] { chain.decode(packed.bytes, size); });
    report["filters"].push_back({{"filters", list},
                                 {"encoded_bytes_per_second", bytes / encoding},
                                 {"decoded_bytes_per_second", bytes / decoding},
                                 {"smaller", bytes / static_cast<double>(packed.bytes.size())}});
  }
  std::cout << report.dump() << "\n";
}

}  // namespace
}  // namespace chorus::inline bench

int main(int argc, char** argv) {
  std::size_t size = 20'000'000;
  int tries = 3;
  std::string filters;
  CLI::App app("Filters, beside a copy of the same numbers");
  app.add_option("--size", size, "float32 numbers")->capture_default_str()->check(CLI::Range(1, 1 << 30));
  app.add_option("--tries", tries)->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("--filters", filters, "one list to measure, as 'top_k, fp16'; several without it");
  CLI11_PARSE(app, argc, argv);
  try {
    chorus::measure(size, tries, filters.empty() ? chorus::kLists : std::vector{"[" + filters + "]"});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}
