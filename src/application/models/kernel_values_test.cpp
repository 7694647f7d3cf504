#include "application/models/kernel_values.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/device/gpu_warm_up.h"

namespace chorus::inline models {
namespace {

ModelConfig config_of(const std::string& json) { return ModelConfig::parse(json, "test"); }

using Values = std::vector<std::string>;

TEST(KernelValues, FollowTheNetworkAndThePrecision) {
  const ModelConfig mini =
      config_of(R"({"model_type": "bert", "hidden_size": 384, "num_attention_heads": 12, "hidden_act": "gelu"})");
  const KernelValues half = kernel_values(mini, KernelPrecision::kBFloat16);
  EXPECT_EQ(half.at("D"), Values{"32"});
  EXPECT_EQ(half.at("G"), Values{"4"});
  EXPECT_EQ(half.at("BY_TANH"), Values{"0"});
  EXPECT_EQ(half.at("ELEMENT"), (Values{"bf16", "float"}));
  const KernelValues whole = kernel_values(mini, KernelPrecision::kFloat32);
  EXPECT_FALSE(whole.contains("D")) << "attention in float32 has no kernel of ours";
  EXPECT_EQ(whole.at("ELEMENT"), Values{"float"});
  EXPECT_EQ(kernel_values(mini, KernelPrecision::kTf32).at("D"), Values{"32"});
}

TEST(KernelValues, KnowTheOtherFamiliesKeys) {
  const KernelValues distil =
      kernel_values(config_of(R"({"model_type": "distilbert", "dim": 768, "n_heads": 12, "activation": "gelu"})"),
                    KernelPrecision::kBFloat16);
  EXPECT_EQ(distil.at("D"), Values{"64"});
  EXPECT_EQ(distil.at("G"), Values{"6"});
  const KernelValues gpt =
      kernel_values(config_of(R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12})"), KernelPrecision::kBFloat16);
  EXPECT_EQ(gpt.at("BY_TANH"), Values{"1"});
  EXPECT_EQ(gpt.at("D"), Values{"64"});
  const KernelValues t5 = kernel_values(
      config_of(R"({"model_type": "t5", "d_model": 512, "num_heads": 8, "d_kv": 48})"), KernelPrecision::kBFloat16);
  EXPECT_EQ(t5.at("D"), Values{"48"});
}

TEST(KernelValues, LeaveOutWhatNoKernelHas) {
  const KernelValues wide =
      kernel_values(config_of(R"({"model_type": "bert", "hidden_size": 4096, "num_attention_heads": 32})"),
                    KernelPrecision::kBFloat16);
  EXPECT_FALSE(wide.contains("D"));
  EXPECT_FALSE(wide.contains("G"));
  const KernelValues none =
      kernel_values(config_of(R"({"model_type": "lstm", "embedding_size": 16})"), KernelPrecision::kBFloat16);
  EXPECT_FALSE(none.contains("D"));
  EXPECT_FALSE(none.contains("G"));
}

TEST(KernelValues, AreValuesThatTheKernelsHave) {
  const KernelValues values =
      kernel_values(config_of(R"({"model_type": "bert", "hidden_size": 384, "num_attention_heads": 12})"),
                    KernelPrecision::kBFloat16);
  const auto jobs = GpuWarmUp::jobs(values);  // throws for a value that a family does not list
  const auto count = [&](const std::string& file) {
    return std::count_if(jobs.begin(), jobs.end(), [&](const auto& job) {
      return std::string(job.family->source().file).find(file) != std::string::npos;
    });
  };
  EXPECT_EQ(count("/attention_gpu.cu"), 1);
  EXPECT_EQ(count("norm_gpu.cu"), 8);
  EXPECT_EQ(count("bias_gelu_gpu.cu"), 2);
  EXPECT_EQ(jobs.back().defines.find("bf16"), std::string::npos) << "the least used last";
}

}  // namespace
}  // namespace chorus::inline models
