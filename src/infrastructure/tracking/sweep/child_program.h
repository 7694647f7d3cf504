#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace chorus::inline sweep {

/// Runs child programs with their output in files. From the first start until the object is destroyed, Ctrl-C reaches
/// the children (same terminal) and is recorded here instead of ending this process. One object at a time.
///
///     ChildPrograms children("/proc/self/exe");
///     children.start({"run", "a.yaml"}, "a.log");
///     const auto [id, status] = children.wait();
class ChildPrograms {
 public:
  /// `threads`: OMP_NUM_THREADS of the children unless it is already set; 0: leave it.
  explicit ChildPrograms(std::filesystem::path program, std::size_t threads = 0);
  ChildPrograms(const ChildPrograms&) = delete;
  ChildPrograms& operator=(const ChildPrograms&) = delete;
  /// Waits for running children.
  ~ChildPrograms();

  /// WorldError when no process can be created or the log cannot be written.
  pid_t start(const std::vector<std::string>& arguments, const std::filesystem::path& log);
  /// The next child that ends, and its exit status (128 + signal when killed). At least one must run.
  std::pair<pid_t, int> wait();

  std::size_t running() const { return children_.size(); }
  static bool interrupted();  ///< Ctrl-C was pressed

 private:
  std::filesystem::path program_;
  std::size_t threads_;
  std::vector<pid_t> children_;
};

}  // namespace chorus::inline sweep
