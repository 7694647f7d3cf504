#include "apps/cli/input_lines.h"

#include <cstdio>
#include <iostream>

namespace chorus::inline cli {

void for_each_batch_of_input(std::int64_t batch, const std::function<void(const std::vector<std::string>&)>& use) {
  std::vector<std::string> lines;
  const auto flush = [&] {
    if (lines.empty()) return;
    use(lines);
    std::fflush(stdout);
    lines.clear();
  };
  for (std::string line; std::getline(std::cin, line);) {
    lines.push_back(std::move(line));
    if (lines.size() == static_cast<std::size_t>(batch)) flush();
  }
  flush();
}

}  // namespace chorus::inline cli
