#pragma once

#include <memory>
#include <vector>

#include "algorithm/secure/sum_party.h"
#include "core/ports/procedure.h"

namespace chorus::inline secure_mean {

/// The client half of a secure sum. All asks of one sum are in one session.
///
///   secure/begin   runs the procedure that the request names (training), turns what it would have replied into a
///                  masked input's plain form, keeps that, and replies with public keys only
///   secure/values  (rare rows) after a first sum over who changed which rows: begins the sum of the values without the
///                  rows that too few clients changed. On the terms of secure/begin and among clients that it invited;
///                  the hash of that request enters the keys of this sum, too
///   secure/next    hands the server's next message to the client's state machine, and replies with its answer
///
///   secure/identify  (active server) replies with the client's public identity, which it makes on first use
///
/// Nothing else is ever replied: no count, no loss, no time. A request that begins a sum says the same to everybody;
/// one with a part for single clients (Request::own) is refused.
inline constexpr const char* kIdentifyProcedure = "secure/identify";
inline constexpr const char* kBeginProcedure = "secure/begin";
inline constexpr const char* kNextProcedure = "secure/next";
inline constexpr const char* kValuesProcedure = "secure/values";

inline constexpr const char* kInnerField = "secure.procedure";        ///< text: what to run
inline constexpr const char* kCohortField = "secure.cohort";          ///< int64 [n]: who is invited, ascending
inline constexpr const char* kNonceField = "secure.nonce";            ///< 32 bytes, fresh for every sum
inline constexpr const char* kIdentitiesField = "secure.identities";  ///< keys and credentials (identity.h)
inline constexpr const char* kRowsField = "secure.rows";        ///< a byte per row of the word tables: 1: it is summed
inline constexpr const char* kMessageField = "secure.message";  ///< bytes of the protocol (algorithm/secure/messages.h)

class SecureBegin : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override;
};

class SecureValues : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override;
};

class SecureIdentify : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override;
};

class SecureNext : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override;
};

}  // namespace chorus::inline secure_mean
