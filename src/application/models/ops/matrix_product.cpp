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

void MatrixProduct::operator()(Rows a, Rows b, float* c, std::int64_t apart) const {
#ifdef CHORUS_HAS_ONEDNN
  // By a tenth faster than OpenBLAS (on AVX-512) but for small products, where its calls cost more, and for sums over
  // many rows.
  constexpr std::int64_t kSmall = 1 << 20, kManyRows = 512;
  if (m * n * k >= kSmall && !(turn_a && k > kManyRows)) {
    const dnnl_status_t result = dnnl_sgemm(turn_a ? 'T' : 'N', turn_b ? 'T' : 'N', m, n, k, scale, a.data, a.apart,
                                            b.data, b.apart, add ? 1.0F : 0.0F, c, apart);
    check(result == dnnl_success, "oneDNN cannot multiply these matrices");
    return;
  }
#endif
  // BLAS counts columns first, so it sees each matrix transposed.
  const auto narrow = [](std::int64_t x) { return static_cast<int>(x); };
  const char side_a = turn_a ? 'T' : 'N', side_b = turn_b ? 'T' : 'N';
  const int rows = narrow(n), columns = narrow(m), inner = narrow(k);
  const int lda = narrow(b.apart), ldb = narrow(a.apart), ldc = narrow(apart);
  const float beta = add ? 1.0F : 0.0F;
  sgemm_(&side_b, &side_a, &rows, &columns, &inner, &scale, b.data, &lda, a.data, &ldb, &beta, c, &ldc);
}

#else

bool MatrixProduct::possible() { return false; }

void MatrixProduct::operator()(Rows, Rows, float*, std::int64_t) const {
  throw InternalError("products in plain memory need BLAS");
}

#endif

#ifdef CHORUS_HAS_ONEDNN

namespace {

using Dims = dnnl::memory::dims;
using Type = dnnl::memory::data_type;

// `turned`: it lies as [columns, rows].
dnnl::memory::desc layout(std::int64_t rows, std::int64_t columns, std::int64_t apart, Type type, bool turned) {
  return {{rows, columns}, type, turned ? Dims{1, apart} : Dims{apart, 1}};
}

const dnnl::engine& processor() {
  static const dnnl::engine kProcessor(dnnl::engine::kind::cpu, 0);
  return kProcessor;
}

// Of any size, so that a batch of a new length needs no new code.
dnnl::matmul any_product(bool turn_a, bool turn_b, bool add) {
  const auto any = [](Type type, bool turned) {
    return layout(DNNL_RUNTIME_DIM_VAL, DNNL_RUNTIME_DIM_VAL, DNNL_RUNTIME_DIM_VAL, type, turned);
  };
  dnnl::primitive_attr attributes;
  if (add) {
    dnnl::post_ops after;
    after.append_sum(1);
    attributes.set_post_ops(after);
  }
  const dnnl::matmul::desc product(any(Type::bf16, turn_a), any(Type::bf16, turn_b), any(Type::f32, false));
  return dnnl::matmul({product, attributes, processor()});
}

}  // namespace

bool MatrixProduct::halves_possible() {
  static const bool kPossible = [] {
    const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }();
  return kPossible;
}

void MatrixProduct::operator()(HalfRows a, HalfRows b, float* c, std::int64_t apart) const {
  check(scale == 1 && k > 0, "a product of bfloat16 is not scaled, nor empty");
  // A thread runs only what it made.
  thread_local std::array<std::optional<dnnl::matmul>, 8> products;
  auto& product = products[(turn_a ? 4U : 0U) + (turn_b ? 2U : 0U) + (add ? 1U : 0U)];
  if (!product) product = any_product(turn_a, turn_b, add);
  const auto memory = [](const dnnl::memory::desc& of, const void* data) {
    return dnnl::memory(of, processor(), const_cast<void*>(data));
  };
  dnnl::stream stream(processor());
  product->execute(stream, {{DNNL_ARG_SRC, memory(layout(m, k, a.apart, Type::bf16, turn_a), a.data)},
                            {DNNL_ARG_WEIGHTS, memory(layout(k, n, b.apart, Type::bf16, turn_b), b.data)},
                            {DNNL_ARG_DST, memory(layout(m, n, apart, Type::f32, false), c)}});
}

#else

bool MatrixProduct::halves_possible() { return false; }

void MatrixProduct::operator()(HalfRows, HalfRows, float*, std::int64_t) const {
  throw InternalError("products of bfloat16 in plain memory need oneDNN");
}

#endif

void MatrixProduct::operator()(TensorRows a, TensorRows b, float* c, std::int64_t apart) const {
  const auto rows = [&]<typename Number>(Number, const TensorRows& of) {
    return RowsOf<Number>{of.tensor.data_ptr<Number>() + of.begin, of.apart};
  };
  if (a.tensor.scalar_type() == at::kFloat) {
    (*this)(rows(float(), a), rows(float(), b), c, apart);
  } else {
    (*this)(rows(at::BFloat16(), a), rows(at::BFloat16(), b), c, apart);
  }
}

}  // namespace chorus::inline ops
