#include "core/tensor/storage_plan.h"

namespace chorus::inline tensor {

void StoragePlan::mark(std::vector<bool>& list, int index) {
  const auto place = static_cast<std::size_t>(index);
  if (list.size() <= place) list.resize(place + 1, false);
  list[place] = true;
}

int StoragePlan::group(int index, std::int64_t count) const {
  constexpr std::int64_t kAlignment = 16;
  if (index == last) return 3;
  if (count % kAlignment != 0) return 2;
  return is_matmul_weight(index) ? 0 : 1;
}

}  // namespace chorus::inline tensor
