#pragma once

#include <utility>

#include "core/ports/federation.h"

namespace chorus::inline ports {

/// A federation that forwards everything to another one, which it borrows: the base of those that change or watch a
/// part of it.
class ForwardingFederation : public Federation {
 public:
  explicit ForwardingFederation(Federation& inner) : inner_(inner) {}

  const Roster& roster() const override { return inner_.roster(); }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    return inner_.ask(cohort, std::move(request));
  }
  void end_session(std::uint64_t session) override { inner_.end_session(session); }
  Traffic traffic() const override { return inner_.traffic(); }
  bool real_time() const override { return inner_.real_time(); }
  void wait(double seconds) override { inner_.wait(seconds); }

 protected:
  Federation& inner() const { return inner_; }

 private:
  Federation& inner_;
};

}  // namespace chorus::inline ports
