#include "application/models/ops/small_product.h"

#include "core/error.h"

#ifdef CHORUS_HAS_BLAS

extern "C" void sgemm_(const char* side_a, const char* side_b, const int* m, const int* n, const int* k,
                       const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                       const float* beta, float* c, const int* ldc);

namespace chorus {

bool SmallProduct::possible() { return true; }

// BLAS counts columns first, so it sees each matrix transposed.
void SmallProduct::operator()(Rows a, Rows b, float* c, std::int64_t apart) const {
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

bool SmallProduct::possible() { return false; }

void SmallProduct::operator()(Rows, Rows, float*, std::int64_t) const {
  throw InternalError("small products need BLAS");
}

}  // namespace chorus

#endif
