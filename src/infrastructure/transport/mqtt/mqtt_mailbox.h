#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "infrastructure/transport/mailbox/mailbox.h"
#include "infrastructure/transport/mqtt/mqtt_transport.h"

namespace chorus::inline transport_mqtt {

struct MqttMailboxInput {
  MqttConfig config;
  std::string name;                   ///< of this end; the server's is kMqttServer
  std::string id;                     ///< unique at the broker
  std::string will_topic, will = {};  ///< what the broker publishes when this end has vanished
  std::vector<std::string> topics;    ///< that this end reads
};

inline constexpr const char* kMqttServer = "chorus-server";

/// One party's connections to a broker, one after the other. A connection that is lost loses letters, so this end hears
/// a farewell to all (kEverySession, from nobody), and connects again with jitter and a back-off that begins anew once
/// the other end has answered. The farewell says why when this end's certificate has expired.
class MqttMailbox final : public Mailbox {
 public:
  explicit MqttMailbox(MqttMailboxInput input);
  ~MqttMailbox() override;
  void open(Receive receive) override;
  void post(const std::string& to, std::string bytes) override;
  std::string server() const override { return kMqttServer; }
  void answered() override;
  /// False: not within so many seconds.
  bool wait_until_connected(double seconds);

  // Called by Paho, on its threads.
  void arrived(const std::string& topic, std::string bytes);
  void connected();
  void subscribed();
  void lost(const std::string& why);
  void sent(std::size_t bytes);

 private:
  void run();
  std::string trouble_with_certificate() const;
  void start();
  void subscribe();
  void stop();

  MqttMailboxInput input_;
  Receive receive_;
  std::mutex calling_;      // held while Paho is called; never by its own threads, for which it may wait
  void* client_ = nullptr;  // MQTTAsync; of this object's thread, and of `post`
  std::mutex mutex_;        // guards the rest
  std::condition_variable changed_;
  std::deque<Letter> inbox_;
  std::map<std::string, std::size_t> held_;  // bytes in the inbox of each sender
  std::size_t under_way_ = 0;                // bytes that the broker has not acknowledged
  bool up_ = false, connected_ = false, lost_ = false, closing_ = false, answered_ = false;
  std::optional<std::chrono::steady_clock::time_point> complained_;
  std::thread thread_;
};

}  // namespace chorus::inline transport_mqtt
