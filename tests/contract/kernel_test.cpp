// Every embedded GPU kernel, with every combination of its options, compiled without a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "core/device/gpu_kernel.h"

namespace chorus::inline contract {
namespace {

namespace fs = std::filesystem;

// The kernels of each family, by name.
std::map<const KernelFamily*, std::map<std::string, std::size_t>> kernels_by_family() {
  std::map<const KernelFamily*, std::map<std::string, std::size_t>> result;
  for (const AnyGpuKernel* kernel : AnyGpuKernel::all()) {
    result[&kernel->family()][kernel->name()] = kernel->argument_bytes();
  }
  return result;
}

class KernelCompiler {
 public:
  KernelCompiler() : folder_(fs::temp_directory_path() / fmt::format("chorus_kernels_{}", ::getpid())) {
    fs::create_directories(folder_);
    for (const char* name : {"clang++-14", "clang++"}) {
      clang_ = name;
      if (assembly_of("extern \"C\" __global__ void nothing(int x) {}\n").has_value()) return;
    }
    clang_.clear();
  }
  ~KernelCompiler() { fs::remove_all(folder_); }

  bool found() const { return !clang_.empty(); }
  const std::string& log() const { return log_; }

  std::optional<std::string> assembly_of(const std::string& text) {
    const fs::path source = folder_ / "kernel.cu", result = folder_ / "kernel.ptx", log = folder_ / "log";
    std::ofstream(source) << text;
    // In order: the language, a GPU architecture with all instructions we use, no CUDA installation.
    const std::string command = fmt::format(
        "{} -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -Xclang -target-feature -Xclang +ptx70 -nocudainc "
        "-nocudalib -std=c++20 -fms-extensions -Wall -Werror -Wno-unused-function -include "
        "'{}/tests/contract/cuda_builtins.cuh' -S -o '{}' '{}' > '{}' 2>&1",
        clang_, CHORUS_SOURCE_DIR, result.string(), source.string(), log.string());
    const int status = std::system(command.c_str());
    log_ = read(log);
    return status == 0 ? std::optional(read(result)) : std::nullopt;
  }

 private:
  static std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  fs::path folder_;
  std::string clang_, log_;
};

// Kernels and the bytes of their only parameter, from PTX:
//   .visible .entry name(
//     .param .align 8 .b8 name_param_0[56]
//   )
std::map<std::string, std::size_t> entries_of(const std::string& assembly) {
  const std::string entry = ".visible .entry ";
  std::map<std::string, std::size_t> result;
  for (std::size_t at = assembly.find(entry); at != std::string::npos; at = assembly.find(entry, at + 1)) {
    const std::size_t name = at + entry.size(), open = assembly.find('(', name), close = assembly.find(')', open);
    const std::string parameters = assembly.substr(open, close - open);
    const std::size_t size = parameters.find('[');
    const bool one_struct = size != std::string::npos && parameters.find(',') == std::string::npos;
    result[assembly.substr(name, open - name)] = one_struct ? std::stoul(parameters.substr(size + 1)) : 0;
  }
  return result;
}

TEST(Kernels, CompileWithAllTheirOptions) {
  KernelCompiler compiler;
  if (!compiler.found()) GTEST_SKIP() << "no clang that compiles for NVIDIA GPUs here (clang-14)";
  std::size_t variants = 0;
  for (const auto& [family, kernels] : kernels_by_family()) {
    for (const std::string& defines : family->variants()) {
      ++variants;
      const auto assembly = compiler.assembly_of(defines + family->source().text);
      ASSERT_TRUE(assembly.has_value()) << family->source().file << "\n" << defines << compiler.log();
      // C++ lists exactly the kernels of the file, and both agree on the size of the arguments.
      EXPECT_EQ(entries_of(*assembly), kernels) << family->source().file;
    }
  }
  EXPECT_GE(variants, 60U);
}

TEST(Kernels, CompileWithNvrtc) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  for (const auto& [family, kernels] : kernels_by_family()) {
    for (const std::string& defines : family->variants()) {
      const std::string assembly = family->compile(defines, "compute_80");
      for (const auto& [name, bytes] : kernels) EXPECT_NE(assembly.find(".entry " + name), std::string::npos) << name;
    }
  }
}

TEST(Kernels, AMistakeInOneIsFound) {
  KernelCompiler compiler;
  if (!compiler.found()) GTEST_SKIP() << "no clang that compiles for NVIDIA GPUs here (clang-14)";
  EXPECT_FALSE(compiler.assembly_of("extern \"C\" __global__ void wrong(int x) { return y; }\n").has_value());
  EXPECT_NE(compiler.log().find("error"), std::string::npos);
}

TEST(Kernels, AreEmbeddedWithWhatTheyInclude) {
  const fs::path sources = fs::path(CHORUS_SOURCE_DIR) / "src";
  std::set<std::string> files, embedded;
  for (const auto& entry : fs::recursive_directory_iterator(sources)) {
    if (entry.path().extension() == ".cu") files.insert(fs::relative(entry.path(), sources).string());
  }
  for (const auto& [family, kernels] : kernels_by_family()) {
    embedded.insert(family->source().file);
    const std::string text = family->source().text;
    EXPECT_EQ(text.find("#include"), std::string::npos) << family->source().file;
    for (const auto& [name, bytes] : kernels) {
      EXPECT_NE(text.find(" " + name + "("), std::string::npos) << name << " is not in " << family->source().file;
    }
  }
  EXPECT_EQ(embedded, files);
}

}  // namespace
}  // namespace chorus::inline contract
