#include "core/ports/frame_bytes.h"

#include <gtest/gtest.h>

namespace chorus::inline ports {
namespace {

TEST(FrameBytes, ReadsAcrossItsParts) {
  const std::string model = "MODEL";
  FrameBytes frame("head");
  frame.add(model, nullptr);
  frame.add(std::string("tail"));
  EXPECT_EQ(frame.size(), 13U);
  EXPECT_EQ(frame.flat(), "headMODELtail");
  std::string some(7, ' ');
  frame.read(3, some);
  EXPECT_EQ(some, "dMODELt");
  std::string pieces;
  for (const std::string_view part : frame.parts(4, 6)) pieces += std::string(part) + "|";
  EXPECT_EQ(pieces, "MODEL|t|");
  EXPECT_EQ(frame.parts(4, 5).front().data(), model.data());  // it was not copied
  EXPECT_TRUE(FrameBytes("").parts().empty());
}

TEST(FrameBytes, KeepsOwnersAlive) {
  auto owner = std::make_shared<std::string>("value");
  const std::weak_ptr<std::string> watch = owner;
  {
    FrameBytes frame("");
    const std::string_view bytes = *owner;
    frame.add(bytes, std::move(owner));
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(frame.flat(), "value");
  }
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace chorus::inline ports
