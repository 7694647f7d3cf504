#include "core/files/cache_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

namespace chorus::inline files {
namespace {

/// Sets an environment variable (or removes it) until the end of the scope.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { set(old_ ? old_->c_str() : nullptr); }

 private:
  void set(const char* value) const {
    if (value != nullptr) {
      ::setenv(name_, value, 1);
    } else {
      ::unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> old_;
};

TEST(CacheFolder, FollowsTheSettingAndThenTheEnvironment) {
  struct Case {
    const char *setting, *xdg, *home, *expected;
  };
  const Case cases[] = {{"none", "/xdg", "/home/me", ""},
                        {"/a/folder", "/xdg", "/home/me", "/a/folder"},
                        {"relative", "/xdg", "/home/me", "relative"},
                        {"auto", "/xdg", "/home/me", "/xdg/chorus"},
                        // The XDG specification: relative paths are to be ignored.
                        {"auto", "relative", "/home/me", "/home/me/.cache/chorus"},
                        {"auto", "", "/home/me", "/home/me/.cache/chorus"},
                        {"auto", nullptr, "/home/me", "/home/me/.cache/chorus"},
                        {"auto", nullptr, "somewhere", ""},
                        {"auto", nullptr, nullptr, ""}};
  for (const Case& one : cases) {
    const Environment xdg("XDG_CACHE_HOME", one.xdg), home("HOME", one.home);
    EXPECT_EQ(cache_folder(one.setting), one.expected) << one.setting << " " << (one.xdg != nullptr ? one.xdg : "-");
  }
}

}  // namespace
}  // namespace chorus::inline files
