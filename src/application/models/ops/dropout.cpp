#include "application/models/ops/dropout.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <cmath>

#include "application/models/ops/dropout_gpu.h"
#include "application/models/ops/gpu_arguments.h"
#include "application/models/ops/mask_hash.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/device/backend.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline ops {
namespace {

at::Tensor shift_right(const at::Tensor& x, int bits) {
  const std::int64_t low_bits = (std::int64_t{1} << (64 - bits)) - 1;
  return x.__rshift__(bits).__and__(low_bits);
}

Backend mask_backend(const at::Tensor& x) { return backend_for(x, {.cpu = is_float(x), .gpu = gpu_rows_fit(x)}); }

// x [C, rows, width] * mask.
at::Tensor mask_hidden_cpu(const at::Tensor& x, const Dropout::Site& site) {
  const at::Tensor from = x.contiguous();
  at::Tensor to = torch::empty_like(from);
  const std::int64_t rows = x.size(1), width = x.size(2);
  const float* in = from.data_ptr<float>();
  float* out = to.data_ptr<float>();
  const std::int64_t grain = std::max<std::int64_t>(1, 32768 / width);
  at::parallel_for(0, x.size(0) * rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const MaskRow mask = site.hidden_row(static_cast<std::size_t>(r / rows), r % rows, width);
      mask_row(mask, width, in + r * width, out + r * width);
    }
  });
  return to;
}

// The backward pass recomputes the mask instead of storing it.
class MaskHidden : public torch::autograd::Function<MaskHidden> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const Dropout::Site& site) {
    site.save(*context);
    return masked(x, site);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    return {masked(gradients[0], Dropout::Site::saved(*context)), at::Tensor()};
  }

 private:
  static at::Tensor masked(const at::Tensor& x, const Dropout::Site& site) {
    return x.is_cpu() ? mask_hidden_cpu(x, site) : mask_hidden_gpu(x, site);
  }
};

class MaskWeights : public torch::autograd::Function<MaskWeights> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const Dropout::Site& site,
                            const at::Tensor& client_of, const at::Tensor& sequence_of) {
    site.save(*context);
    context->save_for_backward({client_of, sequence_of});
    return mask_weights_gpu(x, site, client_of, sequence_of);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    return {mask_weights_gpu(gradients[0], Dropout::Site::saved(*context), saved[0], saved[1]), at::Tensor(),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

void Dropout::Site::save(torch::autograd::AutogradContext& context) const {
  context.saved_data["mask keys"] = std::vector<std::int64_t>(keys.begin(), keys.end());
  context.saved_data["mask threshold"] = static_cast<std::int64_t>(threshold);
  context.saved_data["mask scale"] = static_cast<double>(scale);
  context.saved_data["mask call"] = static_cast<std::int64_t>(call);
  if (seeds.defined()) context.saved_data["mask seeds"] = seeds;
  if (rows.defined()) context.saved_data["mask rows"] = rows;
}

Dropout::Site Dropout::Site::saved(torch::autograd::AutogradContext& context) {
  const std::vector<std::int64_t> kept = context.saved_data["mask keys"].toIntVector();
  const auto tensor = [&](const char* name) {
    return context.saved_data.count(name) > 0 ? context.saved_data[name].toTensor() : at::Tensor();
  };
  return {.keys = std::vector<std::uint64_t>(kept.begin(), kept.end()),
          .threshold = static_cast<std::uint64_t>(context.saved_data["mask threshold"].toInt()),
          .scale = static_cast<float>(context.saved_data["mask scale"].toDouble()),
          .call = static_cast<std::uint64_t>(context.saved_data["mask call"].toInt()),
          .seeds = tensor("mask seeds"),
          .rows = tensor("mask rows")};
}

at::Tensor keep_mask(const at::Tensor& row_keys, const at::Tensor& row_starts, std::int64_t width,
                     const Dropout::Site& site) {
  const std::int64_t groups = (width + 3) / 4;
  const at::Tensor group = row_starts.div(4, "floor").unsqueeze(1) + torch::arange(groups, row_keys.options());
  at::Tensor z = row_keys.unsqueeze(1) + group * static_cast<std::int64_t>(kMaskGolden);
  z = z.__xor__(shift_right(z, 30)) * static_cast<std::int64_t>(kMaskFirst);
  z = z.__xor__(shift_right(z, 27)) * static_cast<std::int64_t>(kMaskSecond);
  z = z.__xor__(shift_right(z, 31));
  const at::Tensor shifts = torch::arange(4, row_keys.options()) * 16;
  const at::Tensor bits = z.unsqueeze(2).__rshift__(shifts).__and__(0xFFFF).flatten(1, 2).narrow(1, 0, width);
  return bits.ge(static_cast<std::int64_t>(site.threshold)).to(at::kFloat) * site.scale;
}

Dropout Dropout::on_gpu(const at::Tensor& seeds) {
  Dropout result(std::vector<std::uint64_t>(static_cast<std::size_t>(seeds.size(0))));
  result.device_seeds_ = seeds;
  result.seeds_on_host_ = false;
  return result;
}

void Dropout::send(at::Device device) {
  if (device.is_cpu() || device_seeds_.defined() || !active()) return;
  device_seeds_ = sent_to(device, torch::tensor(std::vector<std::int64_t>(seeds_.begin(), seeds_.end()), at::kLong));
}

Dropout::Site Dropout::site(double probability, at::Device device) {
  if (!active() || probability == 0) return {};
  Site site;
  site.call = calls_++;
  site.rows = rows_;
  for (const std::uint64_t seed : seeds_) site.keys.push_back(mix(seed, site.call));
  if (!device.is_cpu()) {
    send(device);
    site.seeds = device_seeds_;
  }
  site.threshold = static_cast<std::uint64_t>(std::llround(probability * 65536.0));
  site.scale = static_cast<float>(65536.0 / (65536.0 - static_cast<double>(site.threshold)));
  return site;
}

at::Tensor Dropout::apply(const at::Tensor& x, const Site& site, const at::Tensor& row_clients,
                          const at::Tensor& row_starts) {
  check(seeds_on_host_, "these masks can be made by kernels only");
  const std::vector<std::int64_t> keys(site.keys.begin(), site.keys.end());
  const at::Tensor row_keys = torch::tensor(keys, at::kLong).to(x.device()).index_select(0, row_clients);
  return x * keep_mask(row_keys, row_starts, x.size(-1), site).view(x.sizes()).to(x.scalar_type());
}

at::Tensor Dropout::hidden(const at::Tensor& x, double probability) {
  const Site site = this->site(probability, x.device());
  if (site.keys.empty()) return x;
  const std::int64_t clients = x.size(0), rows = x.size(1), stride = (x.size(2) + 3) / 4 * 4;
  check(clients == static_cast<std::int64_t>(seeds_.size()), "dropout needs one seed per client");
  if (mask_backend(x) != Backend::kReference) return MaskHidden::apply(x, site);
  const auto options = x.options().dtype(at::kLong);
  const at::Tensor row_clients = torch::arange(clients, options).repeat_interleave(rows);
  const at::Tensor tokens = rows_.defined() ? rows_.flatten() : torch::arange(rows, options).repeat({clients});
  return apply(x, site, row_clients, tokens * stride);
}

at::Tensor Dropout::weights(const at::Tensor& x, double probability, const Packing& packing) {
  const Site site = this->site(probability, x.device());
  if (site.keys.empty()) return x;
  if (mask_backend(x) == Backend::kGpu) return MaskWeights::apply(x, site, packing.client_of(), packing.sequence_of());
  const std::int64_t heads = x.size(1), queries = x.size(2);
  const auto options = x.options().dtype(at::kLong);
  const at::Tensor head = torch::arange(heads, options).view({1, heads, 1});
  const at::Tensor query = torch::arange(queries, options).view({1, 1, queries});
  const at::Tensor row = (packing.sequence_of().view({-1, 1, 1}) * heads + head) * kLongest + query;
  return apply(x, site, packing.client_of().repeat_interleave(heads * queries), (row * kLongest).flatten());
}

}  // namespace chorus::inline ops
