#include "application/models/activation_cache.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>

#include "application/models/batch.h"
#include "application/models/pretrained.h"
#include "tests/support.h"

namespace chorus::inline models {
namespace {

namespace fs = std::filesystem;
using Mode = ActivationCache::Mode;

class ActivationCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    LoadOptions options;
    options.prepare = [](Model& model) { model.layout().freeze([](const ParamSpec& spec) { return spec.layer < 1; }); };
    loaded_.emplace(load_pretrained(CHORUS_SOURCE_DIR "/tests/fixtures/parity/bert-seqcls", options));
  }
  static Batch batch() { return collate({{{5, 6, 7}, {8, 9, 10, 11, 12}}, {{5, 6, 7}}}); }

  at::Tensor logits(ActivationCache& cache, Batch batch) const {
    const at::NoGradGuard no_grad;
    const Params two = Params::copies_of(loaded_->params, 2, false);
    cache.fill(*loaded_->model, two, batch);
    Dropout off;
    return loaded_->model->forward(two, batch, off).logits;
  }

  // Far more sequences than a memory of 0 MiB holds: everything goes to disk.
  ActivationCache::Config on_disk() const { return {.mode = Mode::kKeep, .memory = 0}; }

  TemporaryFolder room_;
  const fs::path folder_ = room_ / "cache";
  std::optional<Pretrained> loaded_;
};

TEST_F(ActivationCacheTest, KeptOrComputedAnewTheBitsAreTheSame) {
  ActivationCache off({}), kept({.mode = Mode::kKeep}), anew({.mode = Mode::kRecompute}), disk(on_disk(), folder_);
  const at::Tensor plain = logits(off, batch()), expected = logits(anew, batch());
  EXPECT_TRUE(torch::allclose(plain, expected, 1e-5, 1e-6));
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_TRUE(torch::equal(logits(kept, batch()), expected)) << pass;
    EXPECT_TRUE(torch::equal(logits(disk, batch()), expected)) << pass;
  }
  // Two different sequences; the third is the first again.
  EXPECT_EQ(kept.stats().misses, 2U);
  EXPECT_EQ(kept.stats().hits, 7U);
  EXPECT_GT(kept.stats().memory_bytes, 0U);
  EXPECT_EQ(disk.stats().memory_bytes, 0U);
  EXPECT_GT(disk.stats().disk_bytes, 0U);
  EXPECT_EQ(anew.stats().hits, 0U);
}

TEST_F(ActivationCacheTest, HalfPrecisionRoundsTheSameWayKeptOrNot) {
  ActivationCache kept({.mode = Mode::kKeep, .store = ActivationCache::Store::kFloat16});
  ActivationCache anew({.mode = Mode::kRecompute, .store = ActivationCache::Store::kFloat16});
  const at::Tensor expected = logits(anew, batch());
  logits(kept, batch());
  EXPECT_TRUE(torch::equal(logits(kept, batch()), expected));
}

TEST_F(ActivationCacheTest, DamagedFilesAreComputedAgain) {
  ActivationCache cache(on_disk(), folder_);
  const at::Tensor expected = logits(cache, batch());
  {
    std::fstream file(folder_ / "layer_1.bin", std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file.good());
    file.seekp(5);
    file.put('\x7f');
  }
  EXPECT_TRUE(torch::equal(logits(cache, batch()), expected));
  EXPECT_EQ(cache.stats().damaged, 1U);
  fs::resize_file(folder_ / "layer_1.bin", 10);
  EXPECT_TRUE(torch::equal(logits(cache, batch()), expected));
}

TEST_F(ActivationCacheTest, AFullOrForbiddenDiskIsNoError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  fs::create_directories(folder_);
  fs::create_symlink("/dev/full", folder_ / "layer_1.bin");
  ActivationCache cache(on_disk(), folder_);
  ActivationCache anew({.mode = Mode::kRecompute});
  const at::Tensor expected = logits(anew, batch());
  EXPECT_TRUE(torch::equal(logits(cache, batch()), expected));
  EXPECT_TRUE(torch::equal(logits(cache, batch()), expected));
  EXPECT_EQ(cache.stats().hits, 0U);
  ActivationCache nowhere(on_disk(), "/proc/no such folder");
  EXPECT_TRUE(torch::equal(logits(nowhere, batch()), expected));
}

TEST_F(ActivationCacheTest, NothingFrozenNothingCached) {
  LoadOptions options;
  const Pretrained all = load_pretrained(CHORUS_SOURCE_DIR "/tests/fixtures/parity/bert-seqcls", options);
  ActivationCache cache({.mode = Mode::kKeep});
  Batch filled = batch();
  cache.fill(*all.model, Params::copies_of(all.params, 2, false), filled);
  EXPECT_FALSE(filled.bottom.defined());
  EXPECT_EQ(frozen_layers(*all.model), 0);
  EXPECT_EQ(frozen_layers(*loaded_->model), 1);
}

}  // namespace
}  // namespace chorus::inline models
