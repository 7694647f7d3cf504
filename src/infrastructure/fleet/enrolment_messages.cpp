#include "infrastructure/fleet/enrolment_messages.h"

#include <nlohmann/json.hpp>

namespace chorus::inline fleet {
namespace {

using MessageJson = nlohmann::ordered_json;

constexpr int kProtocol = 1;

// Empty when there is none.
std::string text_of(const MessageJson& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}

}  // namespace

std::string admission_text(const Admission& admission) {
  return MessageJson{{"format", kProtocol},
                     {"name", admission.name},
                     {"secret", admission.secret},
                     {"request", admission.request},
                     {"time", admission.time}}
      .dump();
}

Result<Admission> read_admission(const std::string& line) {
  const auto json = MessageJson::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("format") || !json["format"].is_number_integer() || !json.contains("time") ||
      !json["time"].is_number_integer()) {
    return Failure{Failure::Kind::kMalformed, "the request cannot be read"};
  }
  if (json["format"] != kProtocol) {
    return Failure{Failure::Kind::kRefused,
                   "the server speaks another version; install the same version of Chorus on both"};
  }
  return Admission{text_of(json, "name"), text_of(json, "secret"), text_of(json, "request"),
                   json["time"].get<std::time_t>()};
}

std::string reply_text(const Result<Admitted>& reply) {
  if (!reply.ok()) return MessageJson{{"refused", reply.failure().message}}.dump();
  return MessageJson{{"certificate", reply.value().certificate},
                     {"authority", reply.value().authority},
                     {"server", reply.value().server}}
      .dump();
}

Result<Admitted> read_reply(const std::string& line) {
  const auto json = MessageJson::parse(line, nullptr, false);
  if (json.is_object() && json.contains("refused")) {
    return Failure{Failure::Kind::kRefused, text_of(json, "refused")};
  }
  Admitted admitted{text_of(json, "certificate"), text_of(json, "authority"), text_of(json, "server")};
  if (admitted.certificate.empty() || admitted.authority.empty() || admitted.server.empty()) {
    return Failure{Failure::Kind::kMalformed, "the reply cannot be read"};
  }
  return admitted;
}

}  // namespace chorus::inline fleet
