#pragma once

#include <string>

#include "core/base/result.h"
#include "infrastructure/fleet/fleet_folder.h"

namespace chorus::inline fleet {

/// The two lines of JSON of an enrolment (docs/reference/formats.md). What is read comes from a peer and may be
/// anything.
std::string admission_text(const Admission& admission);
Result<Admission> read_admission(const std::string& line);

std::string reply_text(const Result<Admitted>& reply);
/// kRefused: the server says no; the message is its reason.
Result<Admitted> read_reply(const std::string& line);

}  // namespace chorus::inline fleet
