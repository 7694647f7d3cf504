#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace chorus {

/// Runs programs beside this one, their output in files. Ctrl-C reaches the children (same terminal) and is noted here
/// instead of ending this process, from the first start until the object goes. One object at a time.
///
///     ChildPrograms children("/proc/self/exe");
///     children.start({"run", "a.yaml"}, "a.log");
///     const auto [id, status] = children.wait();
class ChildPrograms {
 public:
  /// `threads`: what OMP_NUM_THREADS is set to for the children when nobody has set it; 0: nothing.
  explicit ChildPrograms(std::filesystem::path program, std::size_t threads = 0);
  ChildPrograms(const ChildPrograms&) = delete;
  ChildPrograms& operator=(const ChildPrograms&) = delete;
  /// Waits for those that still run.
  ~ChildPrograms();

  /// WorldError when no process can be made or the log cannot be written.
  pid_t start(const std::vector<std::string>& arguments, const std::filesystem::path& log);
  /// The next that ends, and its exit status (128 + signal when it was killed). At least one must run.
  std::pair<pid_t, int> wait();

  std::size_t running() const { return children_.size(); }
  static bool interrupted();  ///< Ctrl-C was pressed

 private:
  std::filesystem::path program_;
  std::size_t threads_;
  std::vector<pid_t> children_;
};

}  // namespace chorus
