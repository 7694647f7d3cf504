#include "application/models/ops/matrix_product.h"

#include "core/base/error.h"

#ifdef CHORUS_HAS_ONEDNN
#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#endif

namespace chorus::inline ops {

#ifdef CHORUS_HAS_BLAS

extern "C" void sgemm_(const char* side_a, const char* side_b, const int* m, const int* n, const int* k,
                       const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                       const float* beta, float* c, const int* ldc);

bool MatrixProduct::possible() { return true; }

void MatrixProduct::operator()(Rows a, Rows b, float* c, std::int64_t stride) const {
#ifdef CHORUS_HAS_ONEDNN
  // A tenth faster than OpenBLAS (AVX-512), except for small matmuls, whose calls cost more, and for sums over many
  // rows.
  constexpr std::int64_t kSmall = 1 << 20, kManyRows = 512;
  if (m * n * k >= kSmall && !(transpose_a && k > kManyRows)) {
    const dnnl_status_t result = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, scale, a.data,
                                            a.stride, b.data, b.stride, add ? 1.0F : 0.0F, c, stride);
    check(result == dnnl_success, "oneDNN cannot multiply these matrices");
    return;
  }
#endif
  // BLAS is column-major, so it sees each matrix transposed.
  const auto narrow = [](std::int64_t x) { return static_cast<int>(x); };
  const char side_a = transpose_a ? 'T' : 'N', side_b = transpose_b ? 'T' : 'N';
  const int rows = narrow(n), columns = narrow(m), inner = narrow(k);
  const int lda = narrow(b.stride), ldb = narrow(a.stride), ldc = narrow(stride);
  const float beta = add ? 1.0F : 0.0F;
  sgemm_(&side_b, &side_a, &rows, &columns, &inner, &scale, b.data, &lda, a.data, &ldb, &beta, c, &ldc);
}

#else

bool MatrixProduct::possible() { return false; }

void MatrixProduct::operator()(Rows, Rows, float*, std::int64_t) const {
  throw InternalError("matmuls on plain memory need BLAS");
}

#endif

#ifdef CHORUS_HAS_ONEDNN

namespace {

using Dims = dnnl::memory::dims;
using Type = dnnl::memory::data_type;

// `transposed`: stored as [columns, rows].
dnnl::memory::desc layout(std::int64_t rows, std::int64_t columns, std::int64_t stride, Type type, bool transposed) {
  return {{rows, columns}, type, transposed ? Dims{1, stride} : Dims{stride, 1}};
}

const dnnl::engine& processor() {
  static const dnnl::engine kProcessor(dnnl::engine::kind::cpu, 0);
  return kProcessor;
}

// With run-time sizes, so that a new batch length needs no new primitive.
dnnl::matmul any_product(bool transpose_a, bool transpose_b, bool add) {
  const auto any = [](Type type, bool transposed) {
    return layout(DNNL_RUNTIME_DIM_VAL, DNNL_RUNTIME_DIM_VAL, DNNL_RUNTIME_DIM_VAL, type, transposed);
  };
  dnnl::primitive_attr attributes;
  if (add) {
    dnnl::post_ops after;
    after.append_sum(1);
    attributes.set_post_ops(after);
  }
  const dnnl::matmul::desc product(any(Type::bf16, transpose_a), any(Type::bf16, transpose_b), any(Type::f32, false));
  return dnnl::matmul({product, attributes, processor()});
}

}  // namespace

bool MatrixProduct::bfloat16_possible() {
  static const bool kPossible = [] {
    const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }();
  return kPossible;
}

void MatrixProduct::operator()(BFloat16Rows a, BFloat16Rows b, float* c, std::int64_t stride) const {
  check(scale == 1 && k > 0, "a bfloat16 matmul must not be scaled or empty");
  // A primitive is used only by the thread that created it.
  thread_local std::array<std::optional<dnnl::matmul>, 8> products;
  auto& product = products[(transpose_a ? 4U : 0U) + (transpose_b ? 2U : 0U) + (add ? 1U : 0U)];
  if (!product) product = any_product(transpose_a, transpose_b, add);
  const auto memory = [](const dnnl::memory::desc& of, const void* data) {
    return dnnl::memory(of, processor(), const_cast<void*>(data));
  };
  dnnl::stream stream(processor());
  product->execute(stream, {{DNNL_ARG_SRC, memory(layout(m, k, a.stride, Type::bf16, transpose_a), a.data)},
                            {DNNL_ARG_WEIGHTS, memory(layout(k, n, b.stride, Type::bf16, transpose_b), b.data)},
                            {DNNL_ARG_DST, memory(layout(m, n, stride, Type::f32, false), c)}});
}

#else

bool MatrixProduct::bfloat16_possible() { return false; }

void MatrixProduct::operator()(BFloat16Rows, BFloat16Rows, float*, std::int64_t) const {
  throw InternalError("bfloat16 matmuls on plain memory need oneDNN");
}

#endif

void MatrixProduct::operator()(TensorRows a, TensorRows b, float* c, std::int64_t stride) const {
  const auto rows = [&]<typename Number>(Number, const TensorRows& of) {
    return RowsOf<Number>{of.tensor.data_ptr<Number>() + of.begin, of.stride};
  };
  if (a.tensor.scalar_type() == at::kFloat) {
    (*this)(rows(float(), a), rows(float(), b), c, stride);
  } else {
    (*this)(rows(at::BFloat16(), a), rows(at::BFloat16(), b), c, stride);
  }
}

}  // namespace chorus::inline ops
