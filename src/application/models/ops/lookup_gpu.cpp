#include "application/models/ops/lookup_gpu.h"

#include "application/models/ops/gpu_arguments.h"
#include "application/models/ops/lookup_args.h"
#include "core/device/kernels.h"

namespace chorus::kernels {
extern const KernelSource lookup_gpu;
}  // namespace chorus::kernels

namespace chorus::inline ops {
namespace {

const KernelFamily kLookupKernels{kernels::lookup_gpu, {element_option("ELEMENT")}};
const GpuKernel<LookupGradientArgs> kLookupGradient{kLookupKernels, "lookup_gradient"};
const GpuKernel<SortTokensArgs> kSortTokens{kLookupKernels, "sort_tokens"};
const GpuKernel<SortedLookupArgs> kSortedLookup{kLookupKernels, "sorted_lookup_gradient"};
const GpuKernel<SortedLookupArgs> kSortedLookupRest{kLookupKernels, "sorted_lookup_rest"};

// With more tokens than this, our sort, whose work is quadratic, is slower than the alternatives.
constexpr std::int64_t kMostSorted = 16384;

// For many tokens and a small table, such as T5's relative positions: a matmul with a one-hot matrix.
void add_by_matmul(const at::Tensor& rows, const at::Tensor& ids, at::Tensor tables, std::int64_t padding) {
  // Ids that all clients share are expanded (stride 0).
  const at::Tensor names = (ids.stride(0) == 0 ? ids.narrow(0, 0, 1) : ids).unsqueeze(1);  // [C or 1, 1, T]
  const at::Tensor index = torch::arange(tables.size(1), ids.options()).view({1, -1, 1});
  const at::Tensor chosen = names.eq(index).logical_and(index.ne(padding)).to(at::kFloat);
  tables.add_(torch::matmul(chosen, rows.to(at::kFloat)));
}

// The tokens of each client sorted by id, ties by position.
at::Tensor sorted_tokens(const at::Tensor& ids, const char* element) {
  constexpr std::int64_t kTokens = 32;  // per block
  if (ids.size(1) > kMostSorted)
    return std::get<1>(at::sort(ids, /*stable=*/true, 1, /*descending=*/false)).to(at::kInt);
  const at::Tensor order = torch::empty(ids.sizes(), ids.options().dtype(at::kInt));
  kSortTokens.launch({.blocks = (ids.size(1) + kTokens - 1) / kTokens, .threads = kGpuThreads, .rows = ids.size(0)},
                     {.ids = ids.data_ptr<std::int64_t>(),
                      .order = order.data_ptr<std::int32_t>(),
                      .tokens = static_cast<u32>(ids.size(1))},
                     {element});
  return order;
}

}  // namespace

void add_looked_up_gpu(const at::Tensor& rows, const at::Tensor& ids, const at::Tensor& tables, std::int64_t padding) {
  constexpr std::int64_t kSmallTable = 256;
  if (deterministic() && ids.size(1) > kMostSorted && tables.size(1) <= kSmallTable) {
    return add_by_matmul(rows, ids, tables, padding);
  }
  const at::Tensor dy = rows.contiguous(), names = ids.contiguous();
  const std::int64_t clients = dy.size(0), tokens = dy.size(1), width = dy.size(2);
  const std::int64_t chunks = (tokens + kLookupChunk - 1) / kLookupChunk;
  const char* element = gpu_element(dy.scalar_type());
  const GpuGrid grid{.blocks = chunks, .threads = kGpuThreads, .rows = clients};
  if (!deterministic()) {
    kLookupGradient.launch(grid,
                           {.dy = dy.data_ptr(),
                            .ids = names.data_ptr<std::int64_t>(),
                            .tables = tables.data_ptr<float>(),
                            .stride = tables.stride(0),
                            .padding = padding,
                            .tokens = static_cast<u32>(tokens),
                            .width = static_cast<u32>(width)},
                           {element});
    return;
  }
  const at::Tensor order = sorted_tokens(names, element);
  const at::Tensor parts = torch::empty({clients, chunks, 2, width}, dy.options().dtype(at::kFloat));
  const SortedLookupArgs arguments{.dy = dy.data_ptr(),
                                   .ids = names.data_ptr<std::int64_t>(),
                                   .order = order.data_ptr<std::int32_t>(),
                                   .tables = tables.data_ptr<float>(),
                                   .parts = parts.data_ptr<float>(),
                                   .stride = tables.stride(0),
                                   .padding = padding,
                                   .tokens = static_cast<u32>(tokens),
                                   .width = static_cast<u32>(width)};
  kSortedLookup.launch(grid, arguments, {element});
  if (chunks > 1) kSortedLookupRest.launch(grid, arguments, {element});
}

}  // namespace chorus::inline ops
