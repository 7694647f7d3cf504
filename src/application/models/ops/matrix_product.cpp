#include "application/models/ops/matrix_product.h"

#include "core/error.h"

#ifdef CHORUS_HAS_BLAS

extern "C" void sgemm_(const char* side_a, const char* side_b, const int* m, const int* n, const int* k,
                       const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                       const float* beta, float* c, const int* ldc);

#ifdef CHORUS_HAS_ONEDNN
extern "C" int dnnl_sgemm(char side_a, char side_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                          std::int64_t ldc);
#endif

namespace chorus {

bool MatrixProduct::possible() { return true; }

void MatrixProduct::operator()(Rows a, Rows b, float* c, std::int64_t apart) const {
#ifdef CHORUS_HAS_ONEDNN
  // By a tenth faster than OpenBLAS (on AVX-512) but for small products, where its calls cost more, and for sums over
  // many rows.
  constexpr std::int64_t kSmall = 1 << 20, kManyRows = 512;
  if (m * n * k >= kSmall && !(turn_a && k > kManyRows)) {
    const int result = dnnl_sgemm(turn_a ? 'T' : 'N', turn_b ? 'T' : 'N', m, n, k, scale, a.data, a.apart, b.data,
                                  b.apart, add ? 1.0F : 0.0F, c, apart);
    check(result == 0, "oneDNN cannot multiply these matrices");
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

}  // namespace chorus

#else

namespace chorus {

bool MatrixProduct::possible() { return false; }

void MatrixProduct::operator()(Rows, Rows, float*, std::int64_t) const {
  throw InternalError("products in plain memory need BLAS");
}

}  // namespace chorus

#endif
