// Lambda's public API v1 in Lambda's own words: paths, JSON fields and status codes become the structs below,
// nothing is decided here. Blocking; thread-safe; paced over all calls together. Facts: README.md beside this
// file.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "providers/canary.hpp"
#include "providers/decimal.hpp"
#include "providers/exchange.hpp"
#include "providers/http_client.hpp"
#include "providers/pacer.hpp"

namespace gf::lambda {

/// What came back, before anybody says what it means.
struct Answer : SentAnswer {
    bool json{false};  // the body is a JSON object
    std::string code;  // error.code: what to switch on; empty = the body has no error envelope
    bool malformed{false};  // a success by status, but not of the documented shape; `text` says how
    [[nodiscard]] bool ok() const {
        return delivery == Delivery::answered && status >= 200 && status < 300 && json && code.empty() &&
               !malformed;
    }
};

template <class T>
struct Reply {
    Answer answer;
    std::optional<T> value;
};

struct InstanceType {
    std::string name;
    std::string gpu_description;  // "A10 (24 GB PCIe)", "N/A"
    NumberText price_cents;       // per hour, the whole instance
    std::optional<std::int64_t> vcpus;
    std::optional<std::int64_t> memory_gib;
    std::optional<std::int64_t> storage_gib;
    std::optional<std::int64_t> gpus;
    std::string problem;  // a field of a wrong type, with its path
};

struct TypeListing {
    InstanceType type;
    std::vector<std::string> regions;  // with capacity now; empty = sold out everywhere
};
struct Types {
    std::vector<TypeListing> types;
    Shapes shapes;
};

struct InstanceTag {
    std::string key;
    std::string value;
};

struct LaunchCall {
    std::string region;
    std::string type;
    std::string ssh_key;
    std::string name;
    std::string hostname;
    std::string user_data;  // plain text, not base64
    std::vector<InstanceTag> tags;
};
struct Launched {
    std::string id;
};

struct Instance {
    std::string id;
    std::string name;
    std::string status;
    std::string ip;  // empty = none yet
    std::string region;
    InstanceType type;
    std::vector<InstanceTag> tags;
};

struct SshKey {
    std::string id;
    std::string name;
    std::string public_key;
};

class Client {
 public:
    Client(std::string api_url, Secret key, HttpClient& http, Clock& clock, std::uint64_t seed);

    /// GET /instance-types: all that the account may see, sold out or not.
    Reply<Types> types();
    /// POST /instance-operations/launch: one request on the wire, never repeated. `value` is set whenever the
    /// body carries an id, whatever the status.
    Reply<Launched> launch(const LaunchCall& call, std::span<const Secret> secrets);
    /// GET /instances: the whole list, there are no pages.
    Reply<std::vector<Instance>> instances();
    Reply<Instance> instance(const std::string& id);
    /// POST /instance-operations/terminate with one id. ok() only if the answer names it.
    Answer terminate(const std::string& id);
    Answer rename(const std::string& id, const std::string& name);
    Reply<std::vector<SshKey>> ssh_keys();
    Reply<SshKey> add_ssh_key(const std::string& name, const std::string& public_key);
    Answer delete_ssh_key(const std::string& id);

 private:
    struct Exchange {
        Answer answer;
        std::string body;
    };
    Exchange call(std::string_view endpoint, HttpRequest request, Millis patience,
                  std::span<const Secret> secrets = {});
    std::string api_url_;
    Secret key_;
    HttpClient& http_;
    Pacer pacer_;
};

}  // namespace gf::lambda
