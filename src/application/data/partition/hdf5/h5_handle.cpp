#include "application/data/partition/hdf5/h5_handle.h"

#include <hdf5.h>

#include <type_traits>

namespace chorus::inline partition_hdf5 {

static_assert(std::is_same_v<hid_t, std::int64_t> && std::is_same_v<herr_t, int>);

namespace {

herr_t innermost(unsigned, const H5E_error2_t* entry, void* text) {
  auto& reason = *static_cast<std::string*>(text);
  if (reason.empty() && entry->desc != nullptr) reason = entry->desc;
  return 0;
}

}  // namespace

H5Quiet::H5Quiet() {
  H5E_auto2_t function = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &function, &data_);
  function_ = reinterpret_cast<void*>(function);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

H5Quiet::~H5Quiet() { H5Eset_auto2(H5E_DEFAULT, reinterpret_cast<H5E_auto2_t>(function_), data_); }

std::string h5_reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, &reason);
  return reason;
}

}  // namespace chorus::inline partition_hdf5
