#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "infrastructure/transport/mailbox/mailbox.h"
#include "infrastructure/transport/mqtt/mqtt_transport.h"

namespace chorus::inline transport_mqtt {

struct MqttMailboxInput {
  MqttConfig config;
  std::string name;                   ///< of this end; the server's is kMqttServer
  std::string will_topic, will = {};  ///< what the broker publishes when this end has vanished
  std::vector<std::string> topics;    ///< that this end reads
};

inline constexpr const char* kMqttServer = "chorus-server";

/// One connection to a broker. Eclipse Paho connects again by itself and repeats what was not acknowledged. Letters are
/// handled on a thread of this object, because a call into Paho must not be made from its own.
class MqttMailbox final : public Mailbox {
 public:
  explicit MqttMailbox(MqttMailboxInput input);
  ~MqttMailbox() override;
  void open(Receive receive) override;
  void post(const std::string& to, std::string bytes) override;
  std::string server() const override { return kMqttServer; }
  /// False: not within so many seconds.
  bool wait_until_connected(double seconds);

  // Called by Paho.
  void arrived(std::string topic, std::string bytes);
  void connected();
  void lost();
  void sent(std::size_t bytes);

 private:
  void deliver();

  MqttMailboxInput input_;
  void* client_ = nullptr;  // MQTTAsync
  Receive receive_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Letter> inbox_;
  std::size_t under_way_ = 0;
  bool connected_ = false, closing_ = false;
  std::thread thread_;
};

}  // namespace chorus::inline transport_mqtt
