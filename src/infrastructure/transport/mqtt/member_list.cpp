#include "infrastructure/transport/mqtt/member_list.h"

#include <sstream>

#include "infrastructure/certificates/own_end.h"

namespace chorus::inline transport_mqtt {

std::string MemberList::refusal(const std::string& name) {
  const std::lock_guard lock(mutex_);
  read(false);
  if (judge(name).empty()) return "";
  read(true);  // it may have joined again a moment ago
  return judge(name);
}

void MemberList::read(bool at_once) {
  const auto text = file_.news(at_once);
  if (!text) return;
  std::istringstream lines(*text);
  until_.clear();
  std::time_t until = 0;
  for (std::string name; lines >> until && std::getline(lines >> std::ws, name);) until_[name] = until;
}

std::string MemberList::judge(const std::string& name) const {
  const auto found = until_.find(name);
  if (found == until_.end()) return "";
  if (found->second == 0) return kRevokedText;
  return certificate_expired(found->second) ? expiry_text(found->second) : "";
}

}  // namespace chorus::inline transport_mqtt
