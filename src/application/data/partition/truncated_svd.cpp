#include "application/data/partition/truncated_svd.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/rng.h"

namespace chorus::inline partition {
namespace {

/// Row-major, double: orthogonality is lost in floats when singular values differ by orders of magnitude.
struct Dense {
  std::size_t rows, columns;
  std::vector<double> values;
  Dense(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c, 0.0) {}
  double* row(std::size_t i) { return values.data() + i * columns; }
  const double* row(std::size_t i) const { return values.data() + i * columns; }
};

/// Gram-Schmidt over the columns, each orthogonalized twice; a vanishing column becomes zero.
void orthonormalise(Dense& q) {
  // Transposed, so that columns are contiguous.
  std::vector<double> t(q.values.size());
  for (std::size_t i = 0; i < q.rows; ++i) {
    for (std::size_t j = 0; j < q.columns; ++j) t[j * q.rows + i] = q.row(i)[j];
  }
  for (std::size_t j = 0; j < q.columns; ++j) {
    double* column = t.data() + j * q.rows;
    const double before = std::sqrt(std::inner_product(column, column + q.rows, column, 0.0));
    for (int twice = 0; twice < 2; ++twice) {
      for (std::size_t k = 0; k < j; ++k) {
        const double* other = t.data() + k * q.rows;
        const double dot = std::inner_product(column, column + q.rows, other, 0.0);
        for (std::size_t i = 0; i < q.rows; ++i) column[i] -= dot * other[i];
      }
    }
    const double norm = std::sqrt(std::inner_product(column, column + q.rows, column, 0.0));
    const double scale = norm > 1e-12 * before && norm > 0 ? 1 / norm : 0.0;
    for (std::size_t i = 0; i < q.rows; ++i) column[i] *= scale;
  }
  for (std::size_t i = 0; i < q.rows; ++i) {
    for (std::size_t j = 0; j < q.columns; ++j) q.row(i)[j] = t[j * q.rows + i];
  }
}

void multiply_row(const SparseMatrix& a, std::size_t row, const Dense& q, std::vector<double>& out) {
  std::fill(out.begin(), out.end(), 0.0);
  for (std::uint64_t e = a.begin[row]; e < a.begin[row + 1]; ++e) {
    const double value = a.value[e];
    const double* source = q.row(a.column[e]);
    for (std::size_t j = 0; j < q.columns; ++j) out[j] += value * source[j];
  }
}

/// A^T (A q), row by row of A.
Dense normal_product(const SparseMatrix& a, const Dense& q) {
  Dense result(q.rows, q.columns);
  std::vector<double> z(q.columns);
  for (std::size_t i = 0; i < a.rows(); ++i) {
    multiply_row(a, i, q, z);
    for (std::uint64_t e = a.begin[i]; e < a.begin[i + 1]; ++e) {
      const double value = a.value[e];
      double* target = result.row(a.column[e]);
      for (std::size_t j = 0; j < q.columns; ++j) target[j] += value * z[j];
    }
  }
  return result;
}

/// Cyclic Jacobi: eigenvectors in the columns of `vectors`, eigenvalues on the diagonal of m.
void symmetric_eigen(Dense& m, Dense& vectors) {
  const std::size_t n = m.rows;
  for (std::size_t i = 0; i < n; ++i) vectors.row(i)[i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, diagonal = 0;
    for (std::size_t i = 0; i < n; ++i) {
      diagonal += m.row(i)[i] * m.row(i)[i];
      for (std::size_t j = i + 1; j < n; ++j) off += m.row(i)[j] * m.row(i)[j];
    }
    if (off <= 1e-24 * diagonal) break;
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        const double apq = m.row(p)[q];
        if (apq == 0) continue;
        const double theta = (m.row(q)[q] - m.row(p)[p]) / (2 * apq);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1);
        const double s = t * c;
        for (std::size_t k = 0; k < n; ++k) {
          const double kp = m.row(k)[p], kq = m.row(k)[q];
          m.row(k)[p] = c * kp - s * kq;
          m.row(k)[q] = s * kp + c * kq;
        }
        for (std::size_t k = 0; k < n; ++k) {
          const double pk = m.row(p)[k], qk = m.row(q)[k];
          m.row(p)[k] = c * pk - s * qk;
          m.row(q)[k] = s * pk + c * qk;
          const double vp = vectors.row(k)[p], vq = vectors.row(k)[q];
          vectors.row(k)[p] = c * vp - s * vq;
          vectors.row(k)[q] = s * vp + c * vq;
        }
      }
    }
  }
}

}  // namespace

TruncatedSvd truncated_svd(const SparseMatrix& a, const SvdConfig& config, std::uint64_t seed) {
  const std::size_t limit = std::min(a.rows(), a.columns);
  const std::size_t rank = std::min(config.rank, limit);
  const std::size_t width = std::min(config.rank + config.oversample, limit);
  TruncatedSvd svd;
  svd.projected.rows = a.rows();
  svd.projected.columns = rank;
  if (rank == 0) return svd;

  Dense q(a.columns, width);
  RandomStream stream({.seed = seed, .purpose = "partition.svd"});
  for (double& value : q.values) value = stream.normal();
  orthonormalise(q);
  for (std::size_t i = 0; i < config.iterations; ++i) {
    q = normal_product(a, q);
    orthonormalise(q);
  }

  Dense gram(width, width);
  std::vector<double> z(width);
  for (std::size_t i = 0; i < a.rows(); ++i) {
    multiply_row(a, i, q, z);
    for (std::size_t p = 0; p < width; ++p) {
      for (std::size_t r = 0; r < width; ++r) gram.row(p)[r] += z[p] * z[r];
    }
  }
  Dense vectors(width, width);
  symmetric_eigen(gram, vectors);
  std::vector<std::size_t> order(width);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return gram.row(x)[x] > gram.row(y)[y]; });

  std::vector<double> sign(rank, 0), largest(rank, 0);
  svd.projected.values.resize(a.rows() * rank);
  for (std::size_t i = 0; i < a.rows(); ++i) {
    multiply_row(a, i, q, z);
    for (std::size_t j = 0; j < rank; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < width; ++k) sum += z[k] * vectors.row(k)[order[j]];
      svd.projected.values[i * rank + j] = static_cast<float>(sum);
      if (std::abs(sum) > largest[j]) {
        largest[j] = std::abs(sum);
        sign[j] = sum;
      }
    }
  }
  for (std::size_t j = 0; j < rank; ++j) {
    svd.singular.push_back(static_cast<float>(std::sqrt(std::max(0.0, gram.row(order[j])[order[j]]))));
    if (sign[j] >= 0) continue;
    for (std::size_t i = 0; i < a.rows(); ++i) svd.projected.values[i * rank + j] *= -1;
  }
  return svd;
}

}  // namespace chorus::inline partition
