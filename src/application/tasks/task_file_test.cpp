#include "application/tasks/task_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "application/tasks/tiny_world_test.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/files/files.h"
#include "tests/support.h"

namespace chorus::inline tasks {
namespace {

TEST(TaskFile, KeepsEveryOptionOfEveryTask) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_task(folder.path()).has_value());
  for (const std::string& name : Tasks::names()) {
    Choice<Tasks> choice(name);
    ConfigDocument::parse("", "test", {"max_length=17"}).fill([&](ConfigVisitor& visitor) {
      choice.describe(visitor);
    });
    save_task(folder.path(), choice);
    std::optional<Choice<Tasks>> back = read_task(folder.path());
    ASSERT_TRUE(back.has_value()) << name;
    EXPECT_EQ(back->name(), name);
    const auto text = [](Choice<Tasks>& task) {
      return to_yaml([&](ConfigVisitor& visitor) { task.describe(visitor); });
    };
    EXPECT_EQ(text(*back), text(choice));
    EXPECT_THAT(text(*back), testing::HasSubstr("max_length: 17"));
  }
}

TEST(TaskFile, DamageIsReported) {
  const TemporaryFolder folder;
  write_file(folder / "chorus_task.yaml", "task: {name: txt_classification}\n");
  EXPECT_THAT(message_of<ConfigError>([&] { read_task(folder.path()); }), testing::HasSubstr("text_classification"));
  write_file(folder / "chorus_task.yaml", "task: {name: text_classification, max_length: 1}\n");
  EXPECT_THAT(message_of<ConfigError>([&] { read_task(folder.path()); }), testing::HasSubstr("max_length"));
}

}  // namespace
}  // namespace chorus::inline tasks
