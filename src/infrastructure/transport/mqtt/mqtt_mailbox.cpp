#include "infrastructure/transport/mqtt/mqtt_mailbox.h"

#include <MQTTAsync.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "core/base/error.h"
#include "core/console/log.h"
#include "infrastructure/certificates/own_end.h"
#include "infrastructure/transport/mailbox/post.h"

namespace chorus::inline transport_mqtt {
namespace {

constexpr int kAtLeastOnce = 1;
constexpr std::size_t kMostUnderWay = 8U << 20U;
constexpr double kFlushSeconds = 5;    // for what was posted before the end
constexpr double kConnectSeconds = 2;  // that a letter waits for a connection; then it is lost
constexpr double kFirstPause = 0.1, kPauseGrowth = 1.6;
constexpr double kSilence = 30;                 // between two log lines about the same trouble
constexpr std::size_t kMostHeld = 256U << 20U;  // bytes of one sender; Paho's thread must not wait
constexpr const char* kUp = "chorus/up/";
constexpr const char* kDown = "chorus/down/";

std::chrono::duration<double> seconds_of(double seconds) { return std::chrono::duration<double>(seconds); }

MqttMailbox& mailbox_of(void* context) { return *static_cast<MqttMailbox*>(context); }

void on_connected(void* context, char*) { mailbox_of(context).connected(); }
void on_subscribed(void* context, MQTTAsync_successData*) { mailbox_of(context).subscribed(); }
void on_lost(void* context, char* cause) {
  mailbox_of(context).lost(cause == nullptr ? "the broker closed the connection" : cause);
}
// Paho tells a broker that does not answer and one that refuses a certificate in the same words.
void on_refused(void* context, MQTTAsync_failureData* data) {
  const bool said = data != nullptr && data->message != nullptr;
  mailbox_of(context).lost(
      fmt::format("it does not answer, or refuses this certificate (revoked or expired: ask the fleet's owner){}",
                  said ? fmt::format("; {}", data->message) : ""));
}
void on_failure(void* context, MQTTAsync_failureData* data) {
  const bool said = data != nullptr && data->message != nullptr;
  mailbox_of(context).lost(said ? data->message : "it takes no subscription");
}
int on_arrived(void* context, char* topic, int length, MQTTAsync_message* message) {
  mailbox_of(context).arrived(
      length > 0 ? std::string(topic, static_cast<std::size_t>(length)) : std::string(topic),
      std::string(static_cast<const char*>(message->payload), static_cast<std::size_t>(message->payloadlen)));
  MQTTAsync_freeMessage(&message);
  MQTTAsync_free(topic);
  return 1;
}
void on_sent(void* context, MQTTAsync_successData* data) {
  if (data != nullptr) mailbox_of(context).sent(static_cast<std::size_t>(data->alt.pub.message.payloadlen));
}

}  // namespace

MqttMailbox::MqttMailbox(MqttMailboxInput input) : input_(std::move(input)) {}

void MqttMailbox::open(Receive receive) {
  receive_ = std::move(receive);
  thread_ = std::thread([this] { run(); });
}

MqttMailbox::~MqttMailbox() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, seconds_of(kFlushSeconds), [this] { return under_way_ == 0 || !connected_; });
    closing_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

// Connects, hands letters over, and connects again. Paho's own reconnection is not used: it hides that letters are
// lost.
void MqttMailbox::run() {
  std::mt19937 jitter{std::random_device{}()};
  double pause = kFirstPause;
  for (;;) {
    const std::string trouble = trouble_with_certificate();
    if (trouble.empty()) {
      start();
    } else {
      receive_({"", "", encode_bye(kEverySession, Verdict::kRefused, trouble)});
      const std::lock_guard lock(mutex_);
      lost_ = true;
    }
    bool was_connected = false;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return closing_ || lost_ || up_ || !inbox_.empty(); });
      was_connected = was_connected || connected_;
      if (closing_ || lost_) break;
      if (std::exchange(up_, false)) {
        lock.unlock();
        subscribe();
        lock.lock();
        continue;
      }
      Letter letter = std::move(inbox_.front());
      inbox_.pop_front();
      if ((held_[letter.from] -= letter.bytes.size()) == 0) held_.erase(letter.from);
      lock.unlock();
      receive_(std::move(letter));
      lock.lock();
    }
    const bool over = closing_;
    connected_ = false;
    changed_.notify_all();
    lock.unlock();
    stop();  // which may report failures of what was under way
    if (over) return;
    lock.lock();
    up_ = lost_ = false;
    under_way_ = 0;
    inbox_.clear();
    held_.clear();
    if (std::exchange(answered_, false)) pause = kFirstPause;
    changed_.notify_all();
    lock.unlock();
    if (was_connected) receive_({"", "", encode_bye(kEverySession, Verdict::kOver)});
    lock.lock();
    const double part = std::uniform_real_distribution<>(0.5, 1.0)(jitter);
    if (changed_.wait_for(lock, seconds_of(pause * part), [this] { return closing_; })) return;
    pause = std::min(pause * kPauseGrowth, input_.config.retry);
  }
}

std::string MqttMailbox::trouble_with_certificate() const {
  if (input_.config.certificate.empty()) return "";
  try {
    (void)valid_certificate(input_.config.certificate);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void MqttMailbox::start() {
  const MqttConfig& config = input_.config;
  const std::lock_guard turn(calling_);
  const std::string uri = fmt::format("{}://{}", config.certificate.empty() ? "tcp" : "ssl", config.address);
  MQTTAsync client = nullptr;
  if (MQTTAsync_create(&client, uri.c_str(), input_.id.c_str(), MQTTCLIENT_PERSISTENCE_NONE, nullptr) !=
      MQTTASYNC_SUCCESS) {
    lost("no connection can be made");
    return;
  }
  client_ = client;
  MQTTAsync_setCallbacks(client, this, on_lost, on_arrived, nullptr);
  MQTTAsync_setConnected(client, this, on_connected);
  MQTTAsync_connectOptions options = MQTTAsync_connectOptions_initializer;
  options.keepAliveInterval = static_cast<int>(config.keepalive);
  options.cleansession = 1;
  options.connectTimeout = 10;
  MQTTAsync_willOptions will = MQTTAsync_willOptions_initializer;
  will.topicName = input_.will_topic.c_str();
  will.qos = kAtLeastOnce;
  will.payload.len = static_cast<int>(input_.will.size());
  will.payload.data = input_.will.data();
  options.will = &will;
  MQTTAsync_SSLOptions tls = MQTTAsync_SSLOptions_initializer;
  tls.trustStore = config.authority.c_str();
  tls.keyStore = config.certificate.c_str();
  tls.privateKey = config.key.c_str();
  tls.enableServerCertAuth = 1;
  // The broker's certificate names a role and not a host. Only the fleet's server has one that is valid for servers.
  tls.verify = 0;
  tls.disableDefaultTrustStore = 1;
  tls.sslVersion = MQTT_SSL_VERSION_DEFAULT;
  if (!config.certificate.empty()) options.ssl = &tls;
  options.context = this;
  options.onFailure = on_refused;
  if (MQTTAsync_connect(client, &options) != MQTTASYNC_SUCCESS) lost("a file of this end's certificate is not usable");
}

void MqttMailbox::stop() {
  const std::lock_guard turn(calling_);
  if (client_ == nullptr) return;
  MQTTAsync_disconnectOptions options = MQTTAsync_disconnectOptions_initializer;
  options.timeout = 500;
  if (MQTTAsync_isConnected(client_) != 0) MQTTAsync_disconnect(client_, &options);
  for (int i = 0; i < 100 && MQTTAsync_isConnected(client_) != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  MQTTAsync_destroy(&client_);
  client_ = nullptr;
}

void MqttMailbox::post(const std::string& to, std::string bytes) {
  const std::string topic = to == kMqttServer ? kUp + input_.name : kDown + to;
  {
    std::unique_lock lock(mutex_);
    if (std::this_thread::get_id() != thread_.get_id()) {
      changed_.wait_for(lock, seconds_of(kConnectSeconds), [this] { return connected_ || closing_; });
      changed_.wait(lock, [this] { return under_way_ < kMostUnderWay || closing_ || !connected_; });
    }
    if (!connected_) return;
    under_way_ += bytes.size();
  }
  MQTTAsync_message message = MQTTAsync_message_initializer;
  message.payload = bytes.data();
  message.payloadlen = static_cast<int>(bytes.size());
  message.qos = kAtLeastOnce;
  MQTTAsync_responseOptions response = MQTTAsync_responseOptions_initializer;
  response.context = this;
  response.onSuccess = on_sent;
  const std::lock_guard turn(calling_);
  if (client_ == nullptr || MQTTAsync_sendMessage(client_, topic.c_str(), &message, &response) != MQTTASYNC_SUCCESS) {
    sent(bytes.size());
  }
}

bool MqttMailbox::wait_until_connected(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, seconds_of(seconds), [this] { return connected_; });
}

void MqttMailbox::arrived(const std::string& topic, std::string bytes) {
  Letter letter;
  letter.bytes = std::move(bytes);
  const std::string_view up = kUp;
  if (topic.starts_with(up)) {
    letter.from = topic.substr(up.size());
    if (letter.from.empty()) return;
    // The broker lets the owner of a certificate alone use its name.
    if (!input_.config.certificate.empty()) letter.identity = letter.from;
  } else {
    letter.from = kMqttServer;
  }
  const std::lock_guard lock(mutex_);
  std::size_t& held = held_[letter.from];
  if (held + letter.bytes.size() > kMostHeld) return;  // the gap ends its session
  held += letter.bytes.size();
  inbox_.push_back(std::move(letter));
  changed_.notify_all();
}

void MqttMailbox::subscribe() {
  std::vector<char*> topics;
  for (std::string& topic : input_.topics) topics.push_back(topic.data());
  std::vector<int> qualities(topics.size(), kAtLeastOnce);
  MQTTAsync_responseOptions response = MQTTAsync_responseOptions_initializer;
  response.context = this;
  response.onSuccess = on_subscribed;
  response.onFailure = on_failure;
  const std::lock_guard turn(calling_);
  if (client_ == nullptr || MQTTAsync_subscribeMany(client_, static_cast<int>(topics.size()), topics.data(),
                                                    qualities.data(), &response) != MQTTASYNC_SUCCESS) {
    lost("it takes no subscription");
  }
}

void MqttMailbox::connected() {
  const std::lock_guard lock(mutex_);
  up_ = true;
  changed_.notify_all();
}

void MqttMailbox::subscribed() {
  const std::lock_guard lock(mutex_);
  connected_ = true;
  changed_.notify_all();
}

void MqttMailbox::lost(const std::string& why) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (!closing_ && (!complained_ || now - *complained_ > seconds_of(kSilence))) {
    Log("transport").warning("the broker at {} cannot be reached, trying again: {}", input_.config.address, why);
    complained_ = now;
  }
  lost_ = true;
  changed_.notify_all();
}

void MqttMailbox::answered() {
  const std::lock_guard lock(mutex_);
  answered_ = true;
  complained_.reset();
}

void MqttMailbox::sent(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  under_way_ -= std::min(bytes, under_way_);
  changed_.notify_all();
}

}  // namespace chorus::inline transport_mqtt
