#pragma once

namespace chorus::inline device {

/// While one exists, operators of this thread are compositions of LibTorch's own, whose gradients can be differentiated
/// again: no kernel of ours runs, and gradients go through autograd instead of straight into Params::grads().
///
///     const SecondOrder second_order;
///     auto gradient = torch::autograd::grad({loss}, leaves, {}, true, /*create_graph=*/true);
class SecondOrder {
 public:
  SecondOrder() : before_(wanted()) { wanted() = true; }
  ~SecondOrder() { wanted() = before_; }
  SecondOrder(const SecondOrder&) = delete;
  SecondOrder& operator=(const SecondOrder&) = delete;

  static bool active() { return wanted(); }

 private:
  static bool& wanted();

  bool before_;
};

}  // namespace chorus::inline device
