#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithm/privacy/accountant.h"

namespace chorus::inline privacy {

/// What has been spent of a privacy budget, on disk. A release is charged before it happens (write-ahead): `charge`
/// returns when the entry is synced to disk, and only then may noise be added to anything. So a crash at any moment can
/// only lead to a charge without a release. A round that is run again after a crash is charged again, because its first
/// result may have been seen.
///
/// The file is append-only text: a header and one line per charge, each with a checksum that covers all lines before
/// it. An unfinished last line is the trace of a crash before the release, and is removed; any other damage is refused.
/// A copy of the file is kept in a folder outside the run (`mirror`): when the run's folder is restored from a backup,
/// the longer of the two counts, so the restored run never reports less than was spent. Whoever releases something
/// keeps the ledger's `mark` elsewhere, too: a checkpoint, or a client's log of what left its machine. A ledger that
/// is lost, cut or older than that is taken from the copy, or refused. Not thread-safe; one process at a time (the file
/// is locked).
///
///     BudgetLedger ledger({run / "privacy.ledger", state_folder(), checkpoint.mark}, Adjacency::kAddRemove);
///     ledger.charge(step, "round 7");     // on disk
///     checkpoint.mark = ledger.mark();
///     const double epsilon = account(ledger.releases(1e-6), AccountantKind::kPld).epsilon;
class BudgetLedger {
 public:
  struct Place {
    std::filesystem::path file;
    std::filesystem::path mirror = {};  ///< a folder; empty: no copy
    std::string mark = {};              ///< what is known of the ledger; empty: nothing
  };

  /// Opens or creates the ledger. DataError when it is damaged, of another adjacency, contradicts its copy, is in use,
  /// or is less than the mark says.
  BudgetLedger(Place place, Adjacency adjacency);
  ~BudgetLedger();
  BudgetLedger(const BudgetLedger&) = delete;
  BudgetLedger& operator=(const BudgetLedger&) = delete;

  /// One release. Records of one client are not those of another: with a client, the charge is its alone.
  struct Charge {
    Mechanism mechanism = {};
    std::string what = {};
    std::optional<std::uint64_t> client = {};  ///< empty: of everybody's records
  };
  /// WorldError when it cannot be made durable; then nothing may be released.
  void charge(const Mechanism& mechanism, std::string_view what);
  /// All of them with one sync.
  void charge(std::span<const Charge> charges);

  std::size_t charges() const { return charges_; }
  /// Everything charged so far that has no client, equal mechanisms joined.
  Releases releases(double delta) const { return releases(delta, std::nullopt); }
  /// The same of one client.
  Releases releases(double delta, std::optional<std::uint64_t> client) const;
  /// Those with a charge of their own.
  std::vector<std::uint64_t> clients() const;
  const std::string& id() const { return id_; }
  /// Which ledger this is, and how much was charged: ID:CHARGES.
  std::string mark() const;

 private:
  void adopt(const std::string& text, const std::filesystem::path& where);
  void count(std::optional<std::uint64_t> client, const Mechanism& mechanism);

  Place place_;
  Adjacency adjacency_;
  std::string id_;
  std::size_t charges_ = 0;
  std::map<std::optional<std::uint64_t>, Releases> sums_;  // by client, of any delta
  std::string text_;                                       // the whole ledger
  std::string last_check_;                                 // stands for all of it in the next checksum
  std::vector<std::filesystem::path> files_;               // the run's and its copy
  int lock_ = -1;
};

/// Where copies of ledgers are kept: $XDG_STATE_HOME/chorus/budgets, else ~/.local/state/chorus/budgets.
std::filesystem::path ledger_mirror_folder();

}  // namespace chorus::inline privacy
