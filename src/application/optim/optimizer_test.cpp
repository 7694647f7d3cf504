#include "application/optim/optimizer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "application/optim/schedule.h"
#include "core/config/config.h"

namespace chorus::inline optim {
namespace {

nlohmann::json golden() {
  std::ifstream file(CHORUS_SOURCE_DIR "/tests/golden/optimizers.json");
  return nlohmann::json::parse(file);
}

// A matrix [3, 4] and a vector [5], as in tests/golden/make_optimizers.py. The layout may put them in any order.
std::shared_ptr<const Layout> layout() {
  auto result = std::make_shared<Layout>();
  result->add("matrix", {3, 4}, Init::zeros());
  result->add("vector", {5}, Init::zeros());
  return result;
}

at::Tensor flat(const Layout& places, const std::function<double(std::int64_t)>& number) {
  at::Tensor result = torch::zeros({17}, at::kFloat);
  std::int64_t k = 0;
  for (const char* name : {"matrix", "vector"}) {
    const ParamSpec& spec = places[*places.find(name)];
    for (std::int64_t i = 0; i < spec.count; ++i) result[spec.offset + i] = number(k++);
  }
  return result;
}

double beginning(std::int64_t k) {
  return k < 12 ? 0.1 * static_cast<double>(k) - 0.5 : 0.3 - 0.2 * static_cast<double>(k - 12);
}

struct Case {
  std::string golden, name, options;
  double weight_decay = 0;
};

std::unique_ptr<Optimizer> make(const Case& c, const OptimizerInput& input) {
  Choice<Optimizers> choice(c.name);
  ConfigDocument::parse(c.options, "test").fill([&](ConfigVisitor& visitor) { choice.describe(visitor); });
  return choice.make(input);
}
std::unique_ptr<Optimizer> make(const Case& c, std::int64_t clients) {
  return make(c, OptimizerInput{layout(), clients, at::kCPU, c.weight_decay, false});
}

TEST(Optimizers, MakePyTorchsSteps) {
  const auto expected = golden();
  const auto places = layout();
  for (const Case& c : {Case{"sgd", "sgd", "{}"}, Case{"sgd momentum decay", "sgd", "{momentum: 0.9}", 0.1},
                        Case{"sgd nesterov", "sgd", "{momentum: 0.8, nesterov: true}"},
                        Case{"adamw", "adamw", "{}", 0.1}, Case{"adafactor", "adafactor", "{}"},
                        Case{"adafactor scaled decay", "adafactor", "{scale_parameter: true}", 0.1}}) {
    // Three clients: the first as PyTorch, the second with another rate, the third leaves after two steps.
    const auto optimizer = make(c, 3);
    at::Tensor values = flat(*places, beginning).repeat({3, 1});
    const auto& steps = expected.at(c.golden);
    for (std::size_t t = 0; t < steps.size(); ++t) {
      const std::int64_t count = t < 2 ? 3 : 2;
      const at::Tensor gradient =
          flat(*places, [&](std::int64_t k) { return std::sin(static_cast<double>(k) + static_cast<double>(t)); });
      std::vector<double> rates{0.05, 0.02, 0.05};
      rates.resize(static_cast<std::size_t>(count));
      optimizer->step(values.narrow(0, 0, count), gradient.repeat({count, 1}), rates);
      const at::Tensor wanted =
          flat(*places, [&](std::int64_t k) { return steps[t][static_cast<std::size_t>(k)].get<double>(); });
      EXPECT_LT((values[0] - wanted).abs().max().item<double>(), 2e-6) << c.golden << ", step " << t;
      if (t < 2) {
        EXPECT_TRUE(torch::equal(values[0], values[2])) << c.golden;
      }
    }
    EXPECT_FALSE(torch::allclose(values[0], values[1])) << c.golden;
  }
}

TEST(Optimizers, GoOnFromAKeptState) {
  const auto places = layout();
  for (const std::string& name : Optimizers::names()) {
    const Case c{"", name, name == "sgd" ? "{momentum: 0.9}" : "{}"};
    const auto whole = make(c, 1), first = make(c, 1), second = make(c, 2);
    at::Tensor a = flat(*places, beginning).unsqueeze(0), b = a.clone();
    const std::vector<double> rate{0.1};
    const auto gradient = [&](int t) {
      return flat(*places, [&](std::int64_t k) { return std::cos(static_cast<double>(k * t)); }).unsqueeze(0);
    };
    for (int t = 1; t <= 4; ++t) whole->step(a, gradient(t), rate);
    for (int t = 1; t <= 2; ++t) first->step(b, gradient(t), rate);
    second->restore(1, first->state(0));
    second->restore(0, {});
    at::Tensor both = torch::cat({flat(*places, beginning).unsqueeze(0), b});
    for (int t = 3; t <= 4; ++t) second->step(both, gradient(t).repeat({2, 1}), std::vector<double>{0.1, 0.1});
    EXPECT_TRUE(torch::allclose(a[0], both[1], 1e-6, 1e-7)) << name;
  }
}

TEST(ClipScales, BringEachClientToTheNorm) {
  const at::Tensor gradients = torch::tensor({{3.0F, 4.0F}, {0.3F, 0.4F}});
  const at::Tensor scales = clip_scales(gradients, 1.0);
  EXPECT_NEAR(scales[0].item<double>(), 0.2, 1e-6);
  EXPECT_EQ(scales[1].item<double>(), 1);
  // Many elements, in rows with a stride.
  torch::manual_seed(1);
  const at::Tensor rows = torch::randn({3, 100'005}).narrow(1, 0, 100'001);
  EXPECT_TRUE(torch::allclose(clip_scales(rows, 2.0), 2.0 / rows.norm(2, {1}, true), 1e-5));
}

TEST(AdamW, IsTheSameOnAGpu) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  const at::Device gpu(at::kCUDA, 0);
  auto layout = std::make_shared<Layout>();
  layout->add("table", {50, 70}, Init::zeros());
  layout->add("bias", {11}, Init::zeros());
  torch::manual_seed(3);
  const at::Tensor here = torch::randn({2, 3511}), there = here.to(gpu);
  const std::vector<double> rates{0.1, 0.2};
  const auto one = Optimizers::make("adamw", OptimizerInput{layout, 2, at::kCPU, 0.1});
  const auto other = Optimizers::make("adamw", OptimizerInput{layout, 2, gpu, 0.1});
  for (int step = 0; step < 3; ++step) {
    const at::Tensor gradients = torch::randn({2, 3511});
    one->step(here, gradients, rates, clip_scales(gradients, 1.0));
    other->step(there, gradients.to(gpu), rates, clip_scales(gradients.to(gpu), 1.0));
  }
  EXPECT_TRUE(torch::allclose(here, there.cpu(), 1e-5, 1e-6));
}

TEST(AdamW, MakesAStepInParts) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  const at::Device gpu(at::kCUDA, 0);
  auto layout = std::make_shared<Layout>();
  layout->add("table", {40, 16}, Init::zeros());
  const OptimizerInput input{layout, 2, gpu, 0.1};
  const auto whole = Optimizers::make("adamw", input), parts = Optimizers::make("adamw", input);
  torch::manual_seed(7);
  const at::Tensor one = torch::randn({2, 640}).to(gpu), other = one.clone();
  const at::Tensor shadow = torch::empty({2, 640}, one.options().dtype(at::kBFloat16));
  const std::vector<double> rates{0.1, 0.2};
  ASSERT_TRUE(parts->in_parts(other));
  for (int step = 0; step < 4; ++step) {
    const at::Tensor gradients = torch::randn({2, 640}).to(gpu).to(at::kBFloat16);
    whole->step(one, gradients.to(at::kFloat), rates);
    parts->begin_step(rates);
    for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{400, 240}, {0, 208}, {208, 192}}) {
      const at::Tensor given = gradients.narrow(1, first, count).contiguous();
      parts->step_part(first, other.narrow(1, first, count), first == 208 ? given.to(at::kFloat) : given,
                       {.shadow = shadow.narrow(1, first, count), .last = step == 3});
    }
    EXPECT_TRUE(other.equal(one)) << step;
    EXPECT_EQ(shadow.equal(one.to(at::kBFloat16)), step < 3) << "nobody asks for it after the last step";
  }
}

// On a device. Moments of elements that get a gradient later are not written before.
void expect_elements_may_come_later(at::Device device) {
  auto layout = std::make_shared<Layout>();
  layout->add("table", {40, 16}, Init::zeros());
  for (const Case& c : {Case{"", "sgd", "{}"}, Case{"", "sgd", "{momentum: 0.9}"}, Case{"", "adamw", "{}"}}) {
    const OptimizerInput input{layout, 2, device};
    const auto all = make(c, input), later = make(c, input);
    const at::Tensor whole = torch::zeros({2, 640}, at::TensorOptions(device)), part = whole.clone();
    const std::vector<double> rates{0.1, 0.2};
    torch::manual_seed(5);
    for (const std::int64_t used : {208, 208, 400, 640, 640}) {
      const at::Tensor gradients = torch::randn({2, 640}).to(device);
      gradients.narrow(1, used, 640 - used).zero_();
      all->step(whole, gradients.clone(), rates);
      later->step(part.narrow(1, 0, used), gradients.narrow(1, 0, used), rates);
      EXPECT_TRUE(part.equal(whole)) << c.name << " after " << used;
    }
    for (const auto& [name, rows] : all->state(1)) EXPECT_TRUE(rows.equal(later->state(1).at(name))) << name;
  }
}

TEST(Optimizer, ElementsMayGetTheirFirstGradientLater) {
  expect_elements_may_come_later(at::kCPU);
  if (at::globalContext().hasCUDA()) expect_elements_may_come_later({at::kCUDA, 0});
}

TEST(Optimizer, AStepFromAnotherMemoryLeavesThatAsItIs) {
  for (const char* name : {"sgd", "adamw", "adafactor"}) {
    auto layout = std::make_shared<Layout>();
    layout->add("table", {5, 7}, Init::zeros());
    torch::manual_seed(4);
    const at::Tensor start = torch::randn({1, 35}), gradients = torch::randn({2, 35}), scale = torch::ones({2, 1}) / 3;
    const at::Tensor kept = start.clone(), in_place = start.repeat({2, 1}), elsewhere = torch::full({2, 35}, NAN);
    const std::vector<double> rates{0.1, 0.2};
    const auto make = [&] { return Optimizers::make(name, OptimizerInput{layout, 2, at::kCPU, 0.1}); };
    make()->step(in_place, gradients.clone(), rates, scale);
    make()->step(elsewhere, gradients.clone(), rates, scale, {.before = start.expand({2, 35})});
    EXPECT_TRUE(elsewhere.equal(in_place)) << name;
    EXPECT_TRUE(start.equal(kept)) << name;
  }
}

TEST(Optimizer, ACopyInBfloat16IsOfTheNewValues) {
  for (const char* name : {"sgd", "adamw", "adafactor"}) {
    auto layout = std::make_shared<Layout>();
    layout->add("table", {20011, 5}, Init::zeros());
    torch::manual_seed(6);
    const at::Tensor values = torch::randn({2, 100055}), gradients = torch::randn({2, 100055}), before = values.clone();
    const at::Tensor shadow = torch::full({2, 100055}, NAN, at::kBFloat16);
    Optimizers::make(name, OptimizerInput{layout, 2})
        ->step(values, gradients.clone(), std::vector<double>{0.1, 0.2}, {}, {.shadow = shadow});
    EXPECT_TRUE(shadow.equal(values.to(at::kBFloat16))) << name;
    EXPECT_FALSE(values.isclose(before).all().item<bool>()) << name;
    if (std::string(name) != "sgd") continue;
    EXPECT_TRUE(values.allclose(before - gradients * torch::tensor({{0.1F}, {0.2F}}), 1e-6, 1e-6));
  }
}

TEST(Optimizer, AScaleIsThatOfTheGradients) {
  for (const char* name : {"sgd", "adamw", "adafactor"}) {
    auto layout = std::make_shared<Layout>();
    layout->add("table", {5, 7}, Init::zeros());
    torch::manual_seed(2);
    const at::Tensor gradients = torch::randn({2, 35}), scale = torch::tensor({{0.5F}, {0.1F}});
    const at::Tensor with = torch::zeros({2, 35}), by_hand = torch::zeros({2, 35});
    const std::vector<double> rates{0.1, 0.2};
    const auto one = Optimizers::make(name, OptimizerInput{layout, 2}),
               other = Optimizers::make(name, OptimizerInput{layout, 2});
    for (int step = 0; step < 3; ++step) {
      one->step(with, gradients.clone(), rates, scale);
      other->step(by_hand, gradients * scale, rates);
    }
    EXPECT_TRUE(torch::allclose(with, by_hand, 1e-6, 1e-7)) << name;
  }
}

TEST(Schedule, EqualsHuggingFacesAfterTheWarmUp) {
  const auto expected = golden();
  for (const auto& [name, shape] :
       {std::pair{"linear", ScheduleConfig::Shape::kLinear}, std::pair{"cosine", ScheduleConfig::Shape::kCosine}}) {
    const ScheduleConfig config{.shape = shape, .warmup = 0};
    for (std::int64_t step = 0; step < 10; ++step) {
      EXPECT_NEAR(schedule_factor(config, {.step = step, .steps = 10}),
                  expected.at(name)[static_cast<std::size_t>(step)].get<double>(), 1e-12);
    }
  }
}

TEST(Schedule, WarmsUpFromAboveZeroAndSpansARoundOrTheRun) {
  const ScheduleConfig round{.shape = ScheduleConfig::Shape::kLinear, .warmup = 0.2};
  EXPECT_DOUBLE_EQ(schedule_factor(round, {.step = 0, .steps = 10}), 1.0 / 3);
  EXPECT_DOUBLE_EQ(schedule_factor(round, {.step = 1, .steps = 10}), 2.0 / 3);
  EXPECT_DOUBLE_EQ(schedule_factor(round, {.step = 2, .steps = 10}), 1);
  EXPECT_GT(schedule_factor({.warmup = 0.06}, {.step = 0, .steps = 1}), 0) << "a client with one step learns";
  const ScheduleConfig run{.shape = ScheduleConfig::Shape::kLinear, .span = ScheduleConfig::Span::kRun, .warmup = 0};
  EXPECT_DOUBLE_EQ(schedule_factor(run, {.step = 0, .steps = 10, .round = 5, .rounds = 10}), 0.5);
  EXPECT_DOUBLE_EQ(schedule_factor({.shape = ScheduleConfig::Shape::kConstant, .warmup = 0}, {.step = 9, .steps = 10}),
                   1);
}

}  // namespace
}  // namespace chorus::inline optim
